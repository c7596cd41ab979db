"""Where the records are, and what computes each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.golden import answers, pages, signatures

FOLDER = Path(__file__).parent
RECORDS: dict[str, Callable[[Path], Any]] = {
    "signatures": lambda out: signatures.signatures(),
    "options": lambda out: signatures.options(),
    "solves": lambda out: answers.solves(),
    "estimates": lambda out: answers.estimates(),
    "flows": lambda out: answers.flows(),
    "weights": lambda out: answers.weights(),
    "report": pages.structure,
}


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, found: Any) -> None:
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
