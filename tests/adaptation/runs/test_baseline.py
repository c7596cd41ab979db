"""What stands beside a model: the source-only baseline, samples to look at, the card, the history, the trackers."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import jumbot
from jumbot.adaptation._evaluation.accuracy import unknown
from jumbot.adaptation._evaluation.decision import Harm, decide
from jumbot.adaptation._finish import _harm
from jumbot.adaptation._judging import Judged
from jumbot.adaptation._runs.results_json import Baseline
from jumbot.errors import MissingPackageError
from jumbot.report._card import write_card
from jumbot.report._records import read_run
from tests.refusals import refused


def test_the_baseline_of_rows_is_a_source_only_run(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs(shift=1.5)
    run = tmp_path / "run"
    model = jumbot.adapt(source, target, steps=30, out=run, method="jumbot", judge=False)
    alone = jumbot.adapt(source, target, steps=30, method="source-only", out=tmp_path / "alone")
    baseline = json.loads((run / "baseline.json").read_text(encoding="utf-8"))
    assert baseline["accuracy"] == alone.results["accuracy"]
    assert baseline["changed"] == np.mean(model.predict(target) != alone.predict(target))
    assert not (tmp_path / "alone" / "baseline.json").exists()
    jumbot.adapt(source, target, steps=2, out=tmp_path / "plain", report=False, method="jumbot", judge=False)
    assert not (tmp_path / "plain" / "baseline.json").exists()


def test_pictures_of_the_samples_that_changed_and_of_the_least_explained(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    pictures = rng.integers(0, 60, (40, 16, 16, 3), dtype=np.uint8)
    pictures[y == 1] += 150
    run = tmp_path / "run"
    short = {"source_steps": 3, "steps": 3, "batch_size": 20, "learning_rate": 0.003}
    model = jumbot.adapt((pictures, y), pictures // 2, out=run, **short, method="jumbot", judge=False)
    assert "after its source-only start" in (run / "baseline.json").read_text(encoding="utf-8")
    samples = json.loads((run / "samples.json").read_text(encoding="utf-8"))
    found = [each for each in samples if each["why"] == "least explained"]
    assert len(found) == 12
    assert [each["received_mass"] for each in found] == sorted(each["received_mass"] for each in found)
    for each in samples:
        assert each["label"] == str(model.predict(pictures // 2)[each["row"]])
        assert each["why"] != "most changed" or each["before"] != each["label"]
        header, _, coded = each["picture"].partition(",")
        assert header == "data:image/png;base64"
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(coded))))
        assert np.abs(shown.astype(int) - pictures[each["row"]] // 2).max() <= 1


def test_the_card_tells_data_method_evidence_and_limits(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    jumbot.adapt(source, target, steps=30, out=tmp_path / "run", report=False, method="jumbot", judge=False)
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    for heading in ("## Data", "## Method and settings", "## Evidence", "## Limits"):
        assert heading in card
    assert "Accuracy on target labels that training never saw" in card
    jumbot.adapt(
        source, target.unlabelled(), steps=30, out=tmp_path / "blind", report=False, method="jumbot", judge=False
    )
    blind = (tmp_path / "blind" / "README.md").read_text(encoding="utf-8")
    assert "Accuracy on target labels" not in blind
    assert "Without labels" in blind


def test_names_begin_no_markup_in_the_card(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    jumbot.adapt(source, target, steps=2, out=tmp_path / "run", report=False, method="jumbot", judge=False)
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    config["classes"] = ["<script>alert(1)</script>", "[a](http://b)", "# c"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    card = write_card(read_run(tmp_path / "run")).read_text(encoding="utf-8")
    assert "<script>" not in card.replace("\\<script\\>", "")
    assert "\\[a\\](http://b)" in card


def test_history_is_a_frame(blobs: Any, tmp_path: Path) -> None:
    source, target = blobs()
    model = jumbot.adapt(source, target, steps=12, out=tmp_path / "run", report=False, method="jumbot", judge=False)
    steps = model.history[model.history["event"] == "step"]
    assert steps["step"].tolist() == list(range(12))
    np.testing.assert_allclose(steps["loss"], steps["terms.source"] + steps["terms.transport"])
    assert jumbot.load(tmp_path / "run").history.equals(model.history)
    assert model.diagnosis["class_proportions"] == model.results["diagnosis"]["class_proportions"]
    with refused("history"):
        jumbot.load(model.save(tmp_path / "saved")).history  # noqa: B018


def test_trackers_by_name(blobs: Any, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    source, target = blobs()
    jumbot.adapt(
        source,
        target,
        out=tmp_path / "run",
        steps=3,
        trackers=["tensorboard"],
        report=False,
        method="jumbot",
        judge=False,
    )
    assert list((tmp_path / "run" / "tensorboard").rglob("events.out.tfevents*"))
    with refused("'wandb'"):
        jumbot.adapt("nowhere", "nowhere", trackers=["wandbb"], method="jumbot", judge=False)
    with pytest.raises(MissingPackageError, match="pip install clearml"):
        jumbot.adapt("nowhere", "nowhere", trackers=["clearml"], method="jumbot", judge=False)


@pytest.mark.parametrize("changed", [None, 0.0, 0.5])
def test_harm_is_reported_of_what_is_handed_over(blobs: Any, changed: float | None) -> None:
    """Folds say what adaptation does; a model of the source alone has done nothing, nor one that changed nothing."""
    source, target = blobs()
    model = jumbot.adapt(source, target, method="source-only", steps=2, judge=False)
    judged = Judged(True, None, decide(Harm(0.5, 0.9, 0.4), "jumbot"))
    baseline = None
    if changed is not None:
        baseline = Baseline(what="source-only", changed=changed, estimated_accuracy=unknown("no folds"))
    assert _harm(judged, model, baseline) is None
    adapted = replace(model, method={"name": "jumbot"})
    harm = _harm(judged, adapted, baseline)
    assert harm is not None
    assert harm.likely == (changed != 0.0)
    assert harm.changed == (0.4 if changed is None else changed)
