"""The example method of CONTRIBUTING.md, registered as its text says, passes the shared case."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from jumbot.methods import METHODS
from tests.methods.method_case import MethodCase

TEXT = (Path(__file__).resolve().parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## Add a method") :]


class TestExample(MethodCase):
    @pytest.fixture
    def name(self, monkeypatch: pytest.MonkeyPatch) -> str:
        code = re.search(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
        line = re.search(r'^ *"([a-z]+)": "(\w+):(\w+)",$', SECTION, re.MULTILINE)
        assert code is not None
        assert line is not None
        module = types.ModuleType(f"jumbot.methods.{line[2]}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(METHODS, line[1], f"{line[2]}:{line[3]}")
        exec(compile(code[1], "CONTRIBUTING.md", "exec", dont_inherit=True), module.__dict__)
        return line[1]
