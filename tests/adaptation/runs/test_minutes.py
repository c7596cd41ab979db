"""Budgets of time: what `adapt` and `compare` do when the minutes are up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import jumbot
from jumbot.adaptation._grid import Pair, compare
from jumbot.adaptation._training.loop import Trainer

MANY = 1_000_000


def slowed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Each step takes so long at least."""
    one = Trainer._one

    def slow(self: Trainer, *arguments: Any) -> None:
        time.sleep(seconds)
        one(self, *arguments)

    monkeypatch.setattr(Trainer, "_one", slow)


def test_adapt_hands_over_what_was_learned_in_time(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    begun = time.monotonic()
    model = jumbot.adapt(source, target, method="mcc", steps=MANY, evaluate_every=0, minutes=0.05, out=tmp_path / "run")
    assert time.monotonic() - begun < 60  # a budget of three seconds, and a report that takes what it takes
    assert any("the time budget ended after" in remark for remark in model.results["remarks"])
    assert model.results["accuracy"] > 0.8


def test_a_comparison_keeps_its_minutes_and_goes_on(
    blobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, methods = [Pair("blobs", *blobs())], ["source-only", "mcc", "dann"]
    common: dict[str, Any] = {"recipe": "table", "steps": 20, "evaluate_every": 0, "batch_size": 12}
    with monkeypatch.context() as patched:
        slowed(patched, 0.1)
        begun = time.monotonic()
        record = compare(pairs, methods, tmp_path / "cut", minutes=3 / 60, **common)
        taken = time.monotonic() - begun
    assert taken < 20
    assert [run["method"] for run in record["runs"]] == ["source-only"]
    cut, unbegun = map(Path, record["not_run"])
    assert (cut.parts[-2], unbegun.parts[-2]) == ("mcc", "dann")
    assert (cut / "checkpoints").is_dir()
    assert not (cut / "model.json").exists()
    assert not unbegun.exists()
    assert record["failed"] == {}
    again = compare(pairs, methods, tmp_path / "cut", **common)
    whole = compare(pairs, methods, tmp_path / "whole", **common)
    assert again["not_run"] == []
    for name in ("mcc", "dann"):
        weights = [tmp_path / place / "blobs" / name / "seed0" / "model.safetensors" for place in ("cut", "whole")]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    assert [run["accuracy"] for run in again["runs"]] == [run["accuracy"] for run in whole["runs"]]
