"""What the build of the documentation makes: formulas without a script, and the reference of the commands."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jumbot.cli._app import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import commands  # noqa: E402

try:
    import mathml
except ModuleNotFoundError:  # docutils comes with the extra "docs"
    pytest.skip("docutils is not installed", allow_module_level=True)


def formulas() -> list[tuple[str, str, bool]]:
    found = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if {"_build", "gallery"} & set(page.parts):
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        found += [(page.name, formula, True) for formula in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)]
        text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
        found += [(page.name, formula, False) for formula in re.findall(r"(?<!\\)\$(?! )([^$]+?)(?<! )\$", text)]
    for file in sorted((ROOT / "src").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        blocks = re.findall(r"\.\. math::[ ]?(.*\n(?:(?:[ ]{8,}.*)?\n)*?)(?=\s*\n\s*\S)", text)
        found += [(file.name, formula.strip(), True) for formula in blocks if formula.strip()]
    return found


def test_every_formula_becomes_mathml() -> None:
    found = formulas()
    assert len(found) > 150
    for where, formula, block in found:
        math = ElementTree.fromstring(html.unescape(mathml.convert(formula, block)).replace("<mo><", "<mo>&lt;"))
        assert math.tag.endswith("math"), (where, formula)
        assert "\\" not in "".join(math.itertext()), (where, formula)


def test_every_command_is_in_the_reference_with_its_options() -> None:
    page = commands.reference()
    for name in COMMANDS:
        assert f"## jumbot {name}\n" in page
        assert f"usage: jumbot {name}" in page
    for option in ("--tau", "--resume", "--trackers", "--methods", "--csv"):
        assert option in page
    assert "\x1b" not in page
