"""On real features of Office-Caltech10: nothing diverges, and what adapts is not below the classifier of the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jumbot.adaptation._adapt import adapt

FEATURES = Path(os.environ.get("JUMBOT_DATA", "")) / "office_caltech10" / "features.npz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("JUMBOT_DATA") or not FEATURES.exists(),
        reason="JUMBOT_DATA has no office_caltech10/features",
    ),
]


def accuracy(task: str, method: str, partial: bool) -> float:
    source, target = (f"{FEATURES}:{name}" for name in task.split("-"))
    recipe, kept = ("table-partial", "first:5") if partial else ("table", None)
    # training stops with an error on a loss that is not finite
    model = adapt(source, target, method=method, recipe=recipe, partial=kept, evaluate_every=0)
    return float(model.results["accuracy"])


@pytest.mark.parametrize(
    ("task", "partial"), [("amazon-dslr", False), ("amazon-webcam", True), ("caltech10-webcam", True)]
)
def test_etn_where_a_larger_rate_diverges(task: str, partial: bool) -> None:
    assert accuracy(task, "etn", partial) > 0.93


@pytest.mark.parametrize("method", ["dann", "cdan-e", "alda", "rot", "mcc", "jumbot"])
def test_full_target(method: str) -> None:
    assert accuracy("dslr-amazon", method, False) > 0.88  # the source alone has about .90
