"""Records of the study on real shifts: what is written for a run, on a model made by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import jumbot
from benchmarks.shifts import ours
from jumbot.adaptation._evaluation.accuracy import estimate_accuracy, unknown
from jumbot.adaptation._evaluation.decision import Decision
from jumbot.adaptation._evaluation.votes import HELD_OUT


def test_a_run_is_recorded_with_its_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = {HELD_OUT: 0.9, "COT": 0.8, "ATC": 0.82, "agreement with trees": 0.78}
    model = SimpleNamespace(
        estimated_accuracy=estimate_accuracy(votes, 500, 200),
        decision=Decision("source-only", "as it is"),
        results={"accuracy": 0.75, "mean_class_accuracy": 0.7},
    )
    monkeypatch.setattr(jumbot, "adapt", lambda *data, **asked: model)
    found = json.loads(json.dumps(ours([], [], {}, 0)))
    assert (found["accuracy"], found["mean"], found["held_out"]) == (0.75, 0.7, 0.9)
    assert found["decision"] == "source-only"
    assert found["estimate"]["low"] < found["estimate"]["value"] == 0.8 < found["estimate"]["high"]
    model.estimated_accuracy = unknown("too far", votes)
    assert ours([], [], {}, 0)["estimate"]["value"] is None
