"""Signatures, options, answers and the structure of a report are those that were recorded.

Where a change is meant: `python -m tests.golden`, and read the difference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden.records import RECORDS, read

#: Numbers may differ by this much: solves are optima to 1e-12, training differs between machines in its last bits.
TOLERANCE = {"solves": 1e-7, "estimates": 1e-7, "flows": 1e-6, "weights": 1e-3}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # what small data are warned of is not the subject
def test_it_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    found, recorded = RECORDS[name](tmp_path / "run"), read(name)
    assert _differences(found, recorded, TOLERANCE.get(name, 0.0)) == []


def test_a_change_is_noticed() -> None:
    assert _differences({"a": [1.0, "x"]}, {"a": [1.0 + 1e-9, "x"]}, 1e-7) == []
    assert _differences({"a": [1.0, "x"]}, {"a": [1.1, "x"]}, 1e-7) == ["a[0]: 1.0, was 1.1"]
    assert _differences({"a": 1}, {"b": 1}, 0.0) == ["a: is new", "b: is gone"]
    assert _differences(["x"], ["y", "z"], 0.0) == [": ['x'], was ['y', 'z']"]


def _differences(found: Any, recorded: Any, tolerance: float, where: str = "") -> list[str]:
    if isinstance(found, dict) and isinstance(recorded, dict):
        lines = [f"{key}: is new" for key in found if key not in recorded]
        lines += [f"{key}: is gone" for key in recorded if key not in found]
        both = [key for key in found if key in recorded]
        return lines + [line for key in both for line in _differences(found[key], recorded[key], tolerance, key)]
    if isinstance(found, list) and isinstance(recorded, list) and len(found) == len(recorded):
        pairs = enumerate(zip(found, recorded, strict=True))
        return [line for i, pair in pairs for line in _differences(*pair, tolerance, f"{where}[{i}]")]
    if isinstance(found, float) and found == pytest.approx(recorded, rel=tolerance, abs=tolerance):
        return []
    return [] if found == recorded else [f"{where}: {found}, was {recorded}"]
