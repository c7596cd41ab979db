"""The folders follow the data: a module imports only from what stands before it, and only `report` draws."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jumbot
from jumbot.cli._app import COMMANDS

SOURCE = Path(jumbot.__file__).parent
ORDER = (
    "errors",
    "lazy",
    "files",
    "options",
    "schema",
    "cost",
    "transport",
    "minibatch",
    "flow",
    "loss",
    "coupling",
    "compat",
    "data",
    "methods",
    "adaptation",
    "report",
    "paper",
    "cli",
)

SHARED = {"options.py", "solver.py", "source_only.py"}
"""The base of all options and those of methods; a solver for each of two kinds of problem; a method, and its training
beside others."""


def imports(tree: ast.AST, everywhere: bool = False) -> Iterator[str]:
    """Modules imported when the module is: not those inside functions and `if TYPE_CHECKING`, unless asked for."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, everywhere)


def modules() -> Iterator[tuple[str, ast.AST]]:
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


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


def test_only_the_report_draws() -> None:
    wrong = [
        name
        for name, tree in modules()
        if not name.startswith("report/") and any(m.startswith("matplotlib") for m in imports(tree, everywhere=True))
    ]
    assert not wrong


def test_a_file_name_is_used_once() -> None:
    """Commands apart, which have the names of what they call."""
    names = Counter(
        file.name for file in SOURCE.rglob("*.py") if file.parent.name != "cli" and not file.name.startswith("__")
    )
    assert {name for name, times in names.items() if times > 1} <= SHARED
    commands = {f"{name}.py" for name in COMMANDS}
    assert not ({file.name for file in (SOURCE / "cli").glob("[a-z]*.py")} - commands) & set(names)
