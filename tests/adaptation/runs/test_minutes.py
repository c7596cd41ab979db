"""Budgets of time, by a clock that steps and models advance: what is kept within the minutes, and what is left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jumbot
from jumbot.adaptation import _adapt, _finish
from jumbot.adaptation._grid import compare
from jumbot.adaptation._queue import Pair
from jumbot.adaptation._training import witnesses
from jumbot.adaptation._training.loop import Trainer
from jumbot.errors import ArgumentError
from jumbot.report import _adaptation

MANY, CHEAP = 1_000_000, 3000
"""Steps of runs that are judged by a held-out part, and by folds."""


class Clock:
    """Seconds that pass where something is done, and nowhere else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.patch = 1000.0, monkeypatch.setattr
        self.patch(time, "monotonic", lambda: self.now)

    @property
    def passed(self) -> float:
        return self.now - 1000

    def spend(self, seconds: float, place: Any, name: str) -> None:
        """Each call of this function takes so long."""
        call: Callable[..., Any] = getattr(place, name)

        def slow(*arguments: Any, **named: Any) -> Any:
            self.now += seconds
            return call(*arguments, **named)

        self.patch(place, name, slow)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A step takes a second, three plain models of a fold five, reading two, and a report thirty."""
    clock = Clock(monkeypatch)
    clock.spend(1, Trainer, "_one")
    clock.spend(5, witnesses, "reference_predictions")
    clock.spend(2, _adapt, "read_data")
    clock.spend(10, _finish, "rival_witnesses")
    clock.spend(30, jumbot.Model, "report")
    return clock


def test_a_budget_that_is_large_enough_changes_nothing(blobs: Any, clock: Clock) -> None:
    source, target = blobs(200)
    model = jumbot.adapt(source, target, steps=60, minutes=60)
    assert model.decision.harm is not None
    assert model.estimated_accuracy.value is not None
    assert not any("minutes" in remark for remark in model.results["remarks"])
    assert clock.passed < 3600


@pytest.mark.parametrize("seconds", [60, 180, 600])
def test_adapt_keeps_its_minutes(blobs: Any, clock: Clock, seconds: float) -> None:
    source, target = blobs(200)
    model = jumbot.adapt(source, target, steps=CHEAP, evaluate_every=0, minutes=seconds / 60)
    assert clock.passed < seconds
    assert any("the time budget ended after" in remark for remark in model.results["remarks"])
    assert model.results["accuracy"] > 0.8
    judged = seconds > 180  # two networks of 50 steps at least, and plain models, in half of it
    assert (model.decision.harm is not None) == judged
    if not judged:
        assert model.method["name"] == "source-only"
        assert "the time budget left no time to estimate the accuracy" in model.decision.why
        assert model.estimated_accuracy.value is None
        assert "the time budget left no time" in model.estimated_accuracy.why


def test_a_named_method_is_kept_where_there_is_no_time_to_judge_it(blobs: Any, clock: Clock) -> None:
    model = jumbot.adapt(*blobs(), method="mcc", steps=MANY, evaluate_every=0, minutes=1)
    assert clock.passed < 60
    assert (model.method["name"], model.decision.asked) == ("mcc", True)
    assert model.estimated_accuracy.value is None


def test_numbers_keep_to_the_minutes(clock: Clock) -> None:
    import numpy as np

    X = np.random.default_rng(0).normal(size=(80, 3))
    model = jumbot.adapt((X, X[:, 0] + 0.5), X, task="regression", steps=MANY, evaluate_every=0, minutes=1)
    assert clock.passed < 60
    assert model.method["name"] == "source-only"


@pytest.mark.parametrize("seconds", [1e-6, 2.0])
def test_a_budget_too_small_for_a_step_is_refused(blobs: Any, clock: Clock, tmp_path: Path, seconds: float) -> None:
    source, target = blobs()
    with pytest.raises(ArgumentError, match=r"^minutes: .*\b2 s\b"):
        jumbot.adapt(source, target, minutes=seconds / 60, out=tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()
    with pytest.raises(ArgumentError) as caught:
        jumbot.tune(source, target, minutes=1e-9, jobs=1)
    assert caught.value.argument == "minutes"


def test_a_candidate_without_time_was_not_tried(blobs: Any, clock: Clock) -> None:
    clock.spend(6, Trainer, "_one")
    best = jumbot.tune(*blobs(), steps=MANY, minutes=20 / 60, jobs=1, evaluate_every=0)
    assert best.table["candidate"].tolist() == ["source-only"]
    assert any("not tried" in sentence.lower() and "tau=0.12" in sentence for sentence in best.why)
    assert not any(" failed: " in sentence for sentence in best.why)


def test_what_stands_beside_a_model_and_its_report_are_left_out_first(
    blobs: Any, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock.spend(45, _finish, "diagnose_domains")  # of 200 s, of which training has 160
    model = jumbot.adapt(*blobs(), method="mcc", steps=MANY, evaluate_every=0, minutes=200 / 60, out=tmp_path / "run")
    remarks = " ".join(model.results["remarks"])
    assert "no time to train a source-only baseline" in remarks
    assert "no time to train reference models" in remarks
    assert "references" not in model.results
    assert not (tmp_path / "run" / "report.html").exists()
    assert "the time budget left no time for a report" in caplog.text
    assert (tmp_path / "run" / "predictions.csv").exists()
    assert model.report().exists()


def test_a_report_is_begun_only_where_it_can_be_finished(blobs: Any, clock: Clock, tmp_path: Path) -> None:
    clock.spend(5, _adaptation, "write_report")
    how: dict[str, Any] = {"method": "mcc", "steps": MANY, "evaluate_every": 0, "judge": False}
    for seconds, drawn in ((20, False), (60, True)):
        begun, out = clock.passed, tmp_path / f"{seconds} s"
        jumbot.adapt(*blobs(), minutes=seconds / 60, out=out, **how)
        assert clock.passed - begun < seconds
        assert (out / "report.html").exists() == drawn


def test_tune_keeps_its_minutes(blobs: Any, clock: Clock, tmp_path: Path) -> None:
    source, target = blobs()
    how: dict[str, Any] = {"jobs": 1, "evaluate_every": 0, "out": tmp_path / "tuned"}
    best = jumbot.tune(source, target, steps=MANY, minutes=2, **how)
    assert clock.passed < 120
    assert best.table["candidate"].tolist() in (
        ["source-only", "jumbot partial tau=0.12"],
        ["jumbot partial tau=0.12", "source-only"],
    )
    assert any(sentence.startswith("Cut short, because the time budget is small: ") for sentence in best.why)
    assert any(sentence.startswith("Not tried, because the time budget ended: ") for sentence in best.why)


def test_tune_tries_more_where_there_is_time(blobs: Any, clock: Clock) -> None:
    best = jumbot.tune(*blobs(), steps=30, minutes=10, runs=4, jobs=1, evaluate_every=0)
    assert clock.passed < 600
    assert len(best.table) == 4
    assert not any("minutes" in sentence for sentence in best.why)


def test_a_comparison_keeps_its_minutes_and_goes_on(
    blobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, methods = [Pair("blobs", *blobs())], ["source-only", "mcc", "dann"]
    common: dict[str, Any] = {"recipe": "table", "steps": 20, "evaluate_every": 0, "batch_size": 12}
    with monkeypatch.context() as patched:
        clock = Clock(patched)
        clock.spend(1, Trainer, "_one")
        record = compare(pairs, methods, tmp_path / "cut", minutes=0.5, **common)
    assert clock.passed <= 30
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
