"""The structure of a report: headings, tables and pictures, not sentences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import jumbot
from tests.golden.answers import clouds


def structure(out: Path) -> dict[str, Any]:
    """Of the report on one run with labels to evaluate on."""
    x, y, *_ = clouds(80, 80)
    labels = (x[:, 0] > 0).astype(int)
    truth = (y[:, 0] > 0.5).astype(int)
    data = (x.astype(np.float32), labels), y.astype(np.float32)
    jumbot.adapt(*data, method="jumbot", steps=20, seed=5, out=out, evaluate_on=(data[1], truth))
    page = (out / "report.html").read_text(encoding="utf-8")
    return {
        "headings": [_plain(text) for text in re.findall(r"<h[1-3][^>]*>(.*?)</h[1-3]>", page, re.DOTALL)],
        "tables": [_cells(table) for table in re.findall(r"<thead.*?</thead>", page, re.DOTALL)],
        "pictures": re.findall(r'<svg[^>]*aria-label="([^"]*)"', page),
        "files": sorted(path.name for path in out.iterdir() if path.is_file()),
    }


def _cells(head: str) -> list[str]:
    return [_plain(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", head, re.DOTALL)]


def _plain(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())
