"""What the pictures of a run show are the predictions of its model and of its baseline, not the bare logits."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

import jumbot


def test_pictures_show_calibrated_predictions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(2, 300, p=[0.85, 0.15])
    X = rng.normal(size=(300, 4)) + np.outer(1.5 * y, [1, 0, 0, 0])
    t = rng.choice(2, 120, p=[0.85, 0.15])
    T = rng.normal(size=(120, 4)) + np.outer(1.5 * t, [1, 0, 0, 0])
    run = tmp_path / "run"
    model = jumbot.adapt((X, y), T, method="jumbot", steps=30, source_steps=30, out=run, seed=0, validation=0.2)
    logits = model.outputs(T)[1]
    predicted = model.predict(T)
    assert (logits.argmax(-1).numpy() != predicted).mean() > 0.1  # of two classes, one of which is rare
    with (run / "predictions.csv").open(newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [str(label) for label in predicted]
    with np.load(run / "embeddings.npz") as kept:
        assert (kept["target_predictions"] == predicted).all()
    changed = round(len(T) * json.loads((run / "baseline.json").read_text())["changed"])
    samples = json.loads((run / "samples.json").read_text())
    assert sum(sample["why"] == "most changed" for sample in samples) == min(changed, 12) > 9
