"""Every method has a page, and the page tells the options as they are."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from jumbot.methods import METHODS, method_class

DOCS = Path(__file__).resolve().parents[2] / "docs" / "methods"


@pytest.mark.parametrize("name", METHODS)
def test_page(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", text, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(method_class(name).Options)}
    assert listed == {
        option: str(value) if not isinstance(value, str) else f'"{value}"' for option, value in defaults.items()
    }
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[-1] == "When not to use it"
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"\n{name}\n" in index
    assert f"| {{doc}}`{name}` |" in index
