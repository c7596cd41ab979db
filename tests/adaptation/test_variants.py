"""Methods with changes in their names, as rows of a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jumbot.adaptation._grid import accuracies, compare
from jumbot.adaptation._queue import Pair
from jumbot.adaptation._runs.folder import read_config
from jumbot.adaptation._variants import read_variant
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "method", "changes"),
    [
        ("dann", "dann", {}),
        ("dann:reversal_steps=500", "dann", {"reversal_steps": 500}),
        ("dann:reversal-steps=None,weight=.5", "dann", {"reversal_steps": None, "weight": 0.5}),
        ("cdan-e:map=random,entropy_gradient=true", "cdan-e", {"map": "random", "entropy_gradient": True}),
        ("rot:learning_rate=1e-2", "rot", {"learning_rate": 0.01}),
    ],
)
def test_variants(text: str, method: str, changes: dict[str, Any]) -> None:
    variant = read_variant(text)
    assert (variant.label, variant.method, variant.changes) == (text, method, changes)
    assert ":" not in variant.folder


@pytest.mark.parametrize("text", ["dann:", "dann:weight", "dann:=3", "dann:weight=", "dann:weight=1,weight=2"])
def test_what_is_no_variant(text: str) -> None:
    with refused(f"methods: '{text}'"):
        read_variant(text)


def test_rows_of_a_comparison(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    methods = ["dann", "dann:reversal_steps=none", "rot:learning_rate=0.02"]
    common: dict[str, Any] = {"steps": 3, "evaluate_every": 0, "learning_rate": 0.01}
    record = compare([Pair("blobs", source, target)], methods, tmp_path, recipe="table", **common)
    assert record["failed"] == {}
    assert list(accuracies(record)) == methods
    configs = [read_config(tmp_path / "blobs" / read_variant(name).folder / "seed0") for name in methods]
    assert [c.method["reversal_steps"] for c in configs[:2]] == [10_000, None]
    assert [c.training.learning_rate for c in configs] == [0.01, 0.01, 0.02]
    assert json.loads((tmp_path / "compare.json").read_text()) == record
    again = compare([Pair("blobs", source, target)], methods, tmp_path, recipe="table", **common)
    assert again == record


def test_wrong_options_of_a_variant_are_named_before_any_work(blobs: Any, tmp_path: Path) -> None:
    with refused("rho"):
        compare([Pair("blobs", *blobs())], ["source-only", "dann:rho=1"], tmp_path / "out", recipe="table")
    assert not (tmp_path / "out").exists()
