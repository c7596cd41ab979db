"""`help` of every public name can be read: the sections of numpydoc, and every parameter by its name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import jumbot

MODULES = {
    "jumbot": None,
    "jumbot.minibatch.bounds": None,
    "jumbot.data": None,
    "jumbot.methods": None,
    "jumbot.report": None,
    "jumbot.compat.ot": None,
    "jumbot.compat.geomloss": ["SamplesLoss"],
    "jumbot.compat.torchcfm": ["OTPlanSampler"],
}
"""Where public names are; None: those in `__all__`."""
NO_EXAMPLE = {
    "write_report": "needs a finished run",
    "draw_comparison": "draws",
    "draw_plan": "draws",
    "solve_batch": "needs a version of POT that has it",
}
NO_ERROR = {"match_classes": "takes what `as_domain` made", "draw_plan": "matplotlib's"}


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def public() -> Iterator[Any]:
    for place, names in MODULES.items():
        module = import_module(place)
        for name in names or module.__all__:
            value = getattr(module, name)
            if (inspect.isfunction(value) or inspect.isclass(value)) and not _is_error(value):
                yield pytest.param(value, id=f"{place}.{name}")


NAMES = list(public())


def sections(value: Any) -> dict[str, list[str]]:
    """`{title: lines}` of a docstring, without the text before the first title.

    >>> def f(x): '''Half.
    ...
    ...     Parameters
    ...     ----------
    ...     x : float
    ...         Twice the result.
    ...     '''
    >>> sections(f)
    {'Parameters': ['x : float', '    Twice the result.']}
    """
    lines = (inspect.getdoc(value) or "").splitlines()
    starts = [i for i in range(len(lines) - 1) if lines[i] and re.fullmatch("-{3,}", lines[i + 1])]
    return {lines[i]: lines[i + 2 : j] for i, j in zip(starts, [*starts[1:], len(lines)], strict=False)}


def named(lines: list[str]) -> set[str]:
    """The names that a section describes: `x, y : arrays`, `**options`."""
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters(value: Any) -> list[str]:
    """What a caller gives by name."""
    try:
        known = inspect.signature(value).parameters
    except ValueError:  # of an enumeration or a protocol
        return []
    own = [name for name in known if not name.startswith("_") and name != "self"]
    return [] if own in (["args", "kwargs"], ["value", "names"]) or "qualname" in own else own


@pytest.mark.parametrize("value", NAMES)
def test_every_parameter_is_described(value: Any) -> None:
    found = sections(value)
    described = named(found.get("Parameters", []) + (found.get("Attributes", []) if inspect.isclass(value) else []))
    assert not [name for name in parameters(value) if name not in described]
    assert not (named(found.get("Parameters", [])) - set(parameters(value)))


@pytest.mark.parametrize("value", NAMES)
def test_functions_have_all_sections(value: Any) -> None:
    if not inspect.isfunction(value):
        return
    needed = {"Parameters", "Returns", "Raises", "Examples"}
    needed -= ({"Examples"} if value.__name__ in NO_EXAMPLE else set()) | (
        {"Raises"} if value.__name__ in NO_ERROR else set()
    )
    assert needed <= set(sections(value))


def own_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """All but kernels: these inline what they are made of, and take the memory that they work in."""
    source = Path(jumbot.__file__).parent
    for file in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "_kernels" not in file.parts:
                yield f"{file.relative_to(source).as_posix()}: {node.name}", node


def test_functions_are_short() -> None:
    """Without their docstrings."""
    found = {}
    for name, node in own_functions():
        first = node.body[0]
        doc = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0  # type: ignore[operator]
        length = node.end_lineno - node.lineno + 1 - doc  # type: ignore[operator]
        if length > 60:
            found[name] = length
    assert not found


def test_functions_take_few_parameters() -> None:
    """At most twelve: what travels together is one value.  Public ones have one for each thing a user may ask for."""
    shown = {name.values[0].__name__ for name in NAMES} | {"__init__", "forward"}
    found = {
        name: count
        for name, node in own_functions()
        if (count := len(node.args.args) + len(node.args.kwonlyargs)) > 12
        and node.name not in shown
        and not name.startswith("compat/")  # signatures of others
        and not any("compiled" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    assert not found
