"""Every registered method passes the shared case: a new one is covered by its line in the registry."""

from __future__ import annotations

import ast
import inspect
import sys

import pytest

from jumbot.methods import METHODS, method_class
from jumbot.methods.options import MethodOptions
from tests.methods.method_case import MethodCase
from tests.refusals import refused


class TestMethods(MethodCase):
    @pytest.fixture(params=METHODS)
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


@pytest.mark.parametrize("name", METHODS)
def test_every_option_has_a_docstring(name: str) -> None:
    """A string right after each field: it is what the command line shows."""
    options = method_class(name).Options
    module = ast.parse(inspect.getsource(sys.modules[options.__module__]))
    classes = {node.name: node.body for node in module.body if isinstance(node, ast.ClassDef)}
    body = [line for cls in options.__mro__ for line in classes.get(cls.__name__, ()) if cls is not MethodOptions]
    for field, text in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(text, ast.Expr), ast.unparse(field)
            assert isinstance(text.value, ast.Constant), ast.unparse(field)
            assert str(text.value.value).endswith("."), ast.unparse(field)


def test_unknown_names_get_a_hint() -> None:
    with refused("method"):
        method_class("cdan")
