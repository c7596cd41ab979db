"""The example method of CONTRIBUTING.md, registered as its text says, passes the shared case."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from jumbot.methods import METHODS
from tests.methods.method_case import MethodCase

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
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


def test_the_example_passes_the_linter_as_pasted() -> None:
    pytest.importorskip("ruff")
    code = re.search(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    assert code is not None
    for words in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "src/jumbot/methods/coral.py", "-"]
        found = subprocess.run(command, input=code[1], capture_output=True, text=True, cwd=ROOT)
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("step", "file"),
    [
        ("_SHOWN", "src/jumbot/_settings/names.py"),
        ("## When not to use it", "docs/methods/mcc.md"),
        ("METHOD_COLOURS", "src/jumbot/report/_style.py"),
        ("METHODS", "src/jumbot/methods/__init__.py"),
        ("python -m tests.golden", "tests/golden/__main__.py"),
    ],
)
def test_every_step_is_named_as_it_is(step: str, file: str) -> None:
    assert step in TEXT
    assert step in (ROOT / file).read_text(encoding="utf-8")


def test_every_file_that_it_names_is_there() -> None:
    """But for those that a contributor writes."""
    named = set(re.findall(r"`([\w./-]+\.(?:py|toml|md|yml))`", TEXT)) - {"coral.py", "docs/methods/coral.md"}
    every = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if ".venv" not in path.parts}
    assert len(named) > 10
    assert {name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in every)} == set()


def test_the_page_of_methods_prints_them() -> None:
    """What the first block of the page prints is a step of its own for whoever adds a method."""
    page = (ROOT / "docs/methods/index.md").read_text(encoding="utf-8")
    assert ", ".join(METHODS) in page
    assert "`docs/methods/index.md`, add `coral`" in SECTION
