"""The strings below the fields of a dataclass: what the help says of each option."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def field_docs(cls: type) -> dict[str, str]:
    """Docstrings of the fields, those of base classes too; what is None in Python is typed as none.

    >>> from jumbot.adaptation.settings import Training
    >>> field_docs(Training)["steps"][:39]
    'Steps of adaptation, instead of epochs;'
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        found |= _of_module(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError, KeyError):  # a class made at a prompt has no file
        return {}
    return {node.name: _of_body(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_body(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for field, doc in pairwise(body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text).replace("\n", " ").replace("None", "none")
    return found
