"""`make tag TAG=v0.2.0`: whether a tag is the version of the package, and the changelog has a section for it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def complaints(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this tag from being a release."""
    found = re.search(r'^__version__ = "(.*)"$', (root / "src/jumbot/__init__.py").read_text("utf-8"), re.MULTILINE)
    version = found[1] if found else "unknown"
    faults = [] if tag == f"v{version}" else [f"the tag is {tag!r}, and the version of the package {version}"]
    sections = re.findall(r"^## \[?([^\]\s]+)", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    return faults + ([] if version in sections else [f"CHANGELOG.md has no section {version}"])


if __name__ == "__main__":
    wrong = complaints(*sys.argv[1:2] or [""])
    print("\n".join(wrong) or "the tag, the version and the changelog agree")
    sys.exit(bool(wrong))
