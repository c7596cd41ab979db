"""The folders follow the data: a module imports only from what stands before it, and only `report` draws."""

from __future__ import annotations

import ast
import functools
import html
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import jumbot
from jumbot.cli._app import COMMANDS

SOURCE = Path(jumbot.__file__).parent
ORDER = (
    "errors",
    "_base",
    "_settings",
    "cost",
    "transport",
    "minibatch",
    "flow",
    "loss",
    "coupling",
    "compat",
    "data",
    "_shift",
    "methods",
    "adaptation",
    "report",
    "_paper",
    "cli",
)
LAYERS = {
    "transport": ("_kernels", "_entropic", "_exact", "_solve", "_points", "_sinkhorn_divergence"),
    "adaptation": (
        "_config",
        "_networks",
        "_evaluation",
        "_runs",
        "_training",
        "_model",
        "_adapt",
        "_queue",
        "_grid",
        "_tune",
    ),
}
"""Inside a folder, from the bottom up; modules that are not named here stand wherever they are imported."""
PUBLIC = 120
"""Top-level names outside of underscores, at most."""
SHARED = {"options.py", "solver.py", "source_only.py", "task.py"}
"""The base of all options and those of methods; a solver for each of two kinds of problem; a method, and its training
with others."""


def imports(tree: ast.AST, everywhere: bool = False, checking: bool = False) -> Iterator[str]:
    """Modules imported when the module is; those in functions and `if TYPE_CHECKING` where asked for."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif not checking and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, everywhere, checking)


@functools.cache
def every_import() -> list[tuple[str, frozenset[str]]]:
    """What each module imports, in functions and for type checking too."""
    return [(name, frozenset(imports(tree, everywhere=True, checking=True))) for name, tree in modules()]


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [(file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))) for file in files]


def place(module: str) -> int:
    """Where the first part of a path stands in the order; what the order does not name is a command."""
    return ORDER.index(module) if module in ORDER else len(ORDER)


def test_imports_go_one_way() -> None:
    wrong = []
    for name, tree in modules():
        own = name.partition("/")[0].removesuffix(".py")
        for module in imports(tree):
            package, _, inner = module.partition(".")
            if package == "jumbot" and inner and place(inner.partition(".")[0]) > place(own):
                wrong.append(f"{name} imports {module}")
    assert not wrong


def inner_imports(package: str) -> Iterator[tuple[str, str]]:
    """Pairs of parts of a folder, of which the first imports the second, functions and type checking included."""
    for name, imported in every_import():
        if name.startswith(f"{package}/"):
            own = name.split("/")[1].removesuffix(".py")
            for module in imported:
                if module.startswith(f"jumbot.{package}.") and (other := module.split(".")[2]) != own:
                    yield own, other


@pytest.mark.parametrize("package", LAYERS)
def test_layers_import_upwards_only(package: str) -> None:
    layers = LAYERS[package]
    assert all((SOURCE / package / layer).exists() or (SOURCE / package / f"{layer}.py").exists() for layer in layers)
    wrong = {
        f"{own} imports {other}"
        for own, other in inner_imports(package)
        if own in layers and other in layers and layers.index(other) > layers.index(own)
    }
    assert not wrong


@pytest.mark.parametrize("package", [p.parent.name for p in sorted(SOURCE.glob("*/__init__.py"))])
def test_no_two_parts_of_a_folder_import_each_other(package: str) -> None:
    pairs = set(inner_imports(package))
    assert not {pair for pair in pairs if pair[::-1] in pairs}


def test_public_names_are_few_and_documented() -> None:
    shown = [
        (name, node)
        for name, tree in modules()
        if not any(part.startswith("_") and part != "__init__.py" for part in Path(name).parts)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(shown) <= PUBLIC
    assert not [f"{name}: {node.name}" for name, node in shown if not ast.get_docstring(node)]


def test_only_the_report_draws() -> None:
    wrong = [
        name
        for name, tree in modules()
        if not name.startswith("report/") and any(m.startswith("matplotlib") for m in imports(tree, everywhere=True))
    ]
    assert not wrong


def test_nothing_follows_what_leaves_a_block() -> None:
    """As the second half of a text would that is no longer in parentheses."""
    leaving = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    wrong = [
        f"{name}: {after.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        for block in (getattr(node, part, []) for part in ("body", "orelse", "finalbody"))
        if isinstance(block, list)
        for before, after in itertools.pairwise(block)
        if isinstance(before, leaving)
    ]
    assert not wrong


def test_a_file_name_is_used_once() -> None:
    """Commands apart, which have the names of what they call."""
    names = Counter(
        file.name.lstrip("_")
        for file in SOURCE.rglob("*.py")
        if file.parent.name != "cli" and not file.name.startswith("__")
    )
    assert {name for name, times in names.items() if times > 1} <= SHARED
    commands = {f"{name}.py" for name in COMMANDS}
    own = {file.name.lstrip("_") for file in (SOURCE / "cli").glob("_[a-z]*.py")}
    assert not (own - commands) & set(names)


def test_the_page_on_the_arrangement_fits_the_tree() -> None:
    """Each file that it names is there, and the picture shows the layers that are tested above."""
    docs = Path(__file__).parent.parent / "docs"
    page = (docs / "development" / "architecture.md").read_text(encoding="utf-8")
    files = {file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py")}
    named = {name for name in re.findall(r"`([\w/]+\.py)`", page) if not name.startswith("tests/")}
    assert len(named) > 20
    assert not {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)}
    picture = html.unescape((docs / "_static" / "architecture.svg").read_text(encoding="utf-8"))
    for package, layers in LAYERS.items():
        shown = re.search(rf"{package}/</tspan>([^/]*)</text>", picture)
        assert shown is not None
        assert tuple(shown[1].replace("<", ",").replace(" ", "").split(",")) == layers
