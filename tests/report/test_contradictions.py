"""Sentences of one report that would contradict each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from jumbot.adaptation._evaluation.diagnosis import diagnose, less_explained
from jumbot.cli._terminal import summary
from jumbot.report._adaptation import write_report
from jumbot.report._answer import answer, describe_references, verdict
from jumbot.report._records import read_run
from tests.report.runs import make_run

SMALL: dict[str, Any] = {"rows": 20, "steps": 30}
ESTIMATE = {"value": 0.7, "low": 0.5, "high": 0.9, "why": "clusters"}


def _with(run: Path, changed: float | None = None, **results: object) -> Path:
    if changed is not None:
        baseline = {"what": "source-only", "changed": changed, "estimated_accuracy": ESTIMATE}
        (run / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    results_read = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps(results_read | results), encoding="utf-8")
    return run


def test_what_changed_nothing_did_no_harm(tmp_path: Path) -> None:
    run = _with(make_run(tmp_path / "run", accuracy=None, reasons=("proportions moved",), **SMALL), changed=0.0)
    text = verdict(read_run(run))
    assert "harm" not in text
    assert "Adaptation changed none of the predictions" in text
    assert answer(read_run(run)).mood == ""
    page = write_report([run], tmp_path / "page.html").read_text()
    assert "did harm" not in page
    assert "negative transfer" not in page
    assert "proportions moved" not in page  # the rule of harm compares with source-only, which says the same
    quiet = _with(make_run(tmp_path / "quiet", accuracy=None), changed=0.2)
    harm = {"adapted": 0.5, "source_only": 0.6, "changed": 0.2}
    record = read_run(quiet)
    record.results["decision"] = {"method": "jumbot", "asked": True, "why": "", "harm": harm}  # type: ignore[index]
    assert answer(record).mood == ""  # "no sign of harm" is no alarm
    harmed = _with(make_run(tmp_path / "harmed", accuracy=None, reasons=("proportions moved",), **SMALL), changed=0.2)
    assert "probably did harm" in verdict(read_run(harmed))


def test_harm_that_labels_refute_is_not_feared(tmp_path: Path) -> None:
    """Without labels the votes may fear harm; where labels say 95 instead of 70 %, that is what counts."""
    for before, feared in ((0.7, False), (0.99, True)):
        run = make_run(tmp_path / f"{before}", accuracy=0.95, reasons=("proportions moved",), **SMALL)
        baseline = {"what": "source-only", "changed": 0.3, "estimated_accuracy": ESTIMATE, "accuracy": before}
        (run / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
        assert ("Adaptation helped" in verdict(read_run(run))) != feared
        page = write_report([run], tmp_path / "page.html").read_text()
        assert ("negative transfer is likely" in page) == feared


def test_one_class_for_all_is_no_help(tmp_path: Path) -> None:
    """Of 100 samples 74 are ill and all are called ill: more are right than before, and nothing was learned."""
    run = make_run(tmp_path / "run", accuracy=0.74, **SMALL)
    baseline = {"what": "source-only", "changed": 0.4, "estimated_accuracy": ESTIMATE, "accuracy": 0.58}
    (run / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    for confusion, helps in (([[0, 26], [0, 74]], False), ([[10, 16], [10, 64]], True)):
        record = read_run(run)
        figures = {"confusion": confusion, "accuracy": 0.74, "mean_class_accuracy": 0.5, "n": 100}
        record.results.update(figures)  # type: ignore[union-attr]
        assert ("Adaptation helped" in verdict(record)) == helps
        assert ("50.0\u00a0%" in verdict(record)) != helps
        assert (answer(record).mood == "good") == helps


def test_nobody_seems_to_have_been_helped_where_nothing_can_be_said(tmp_path: Path) -> None:
    """Neither where no accuracy can be estimated nor where next to nothing was transported."""
    harm = {"adapted": 0.7, "source_only": 0.6, "changed": 0.2}
    none = {"value": None, "low": None, "high": None, "why": "98 % of the target is predicted as one class"}
    for name, estimate, mass, seems in (
        ("usual", ESTIMATE, 0.8, True),
        ("no estimate", none, 0.8, False),
        ("no mass", ESTIMATE, 0.001, False),
    ):
        run = _with(make_run(tmp_path / name, accuracy=None), changed=0.2, estimated_accuracy=estimate)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        lines = [line | ({"mass": mass} if "mass" in line else {}) for line in lines]
        (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        record = read_run(run)
        record.results["decision"] = {"method": "jumbot", "asked": True, "why": "", "harm": harm}  # type: ignore[index]
        assert ("seems to have helped" in verdict(record)) == seems, name
        assert seems or "Whether adaptation helped cannot be determined without labels" in verdict(record)
        assert (answer(record).mood == "good") == seems


def test_the_terminal_says_what_the_page_says(tmp_path: Path) -> None:
    """The data first, no harm where nothing changed or labels refute it, and nothing twice."""
    estimate = {"value": 0.05, "low": 0.0, "high": 0.2, "why": "clusters"}
    for name, accuracy, changed, feared in (
        ("nothing changed", None, 0.0, False),
        ("much changed", None, 0.2, True),
        ("labels refute it", 0.95, 0.2, False),
    ):
        run = make_run(tmp_path / name, accuracy=accuracy, reasons=("proportions moved",))
        _with(run, changed, data_remarks=["column 'a' is in pounds."], estimated_accuracy=estimate)
        beside = json.loads((run / "baseline.json").read_text()) | ({} if accuracy is None else {"accuracy": 0.7})
        (run / "baseline.json").write_text(json.dumps(beside), encoding="utf-8")
        record = read_run(run)
        results = json.loads((run / "results.json").read_text())
        why = "jumbot was chosen over source-only: it is better."
        model = SimpleNamespace(results=results, classes=record.classes, decision=SimpleNamespace(asked=False, why=why))
        said = summary(model, record).splitlines()  # type: ignore[arg-type]
        assert said[0] == "data: column 'a' is in pounds."
        assert said[1] == verdict(record)
        assert any("harm" in line or "negative transfer" in line for line in said) == feared, name
        assert len(re.findall(r"\b5\s%", "\n".join(said))) == 1, (
            "an estimate that guessing would beat, with that remark"
        )


def test_nothing_is_reported_of_explained_samples_where_there_are_none(tmp_path: Path) -> None:
    z = torch.tensor([[0.0, 0.0], [0.1, 0.0], [4.0, 0.0], [4.1, 0.0]])
    found = diagnose(z, [0, 0, 1, 1], z + 900, torch.tensor([[9.0, 0], [0, 9], [0, 9], [0, 9]]))[0]
    assert len(found.unexplained) == 4
    assert any("100 % of the target samples are explained by no source sample" in reason for reason in found.signs)
    assert not any("of the explained samples" in reason for reason in found.signs)
    run = make_run(tmp_path / "run", accuracy=None)
    results_read = json.loads((run / "results.json").read_text())["diagnosis"]
    _with(run, diagnosis=results_read | {"unexplained_share": 1.0, "disagreement": 1.0, "transported_mass": 0.0})
    row = write_report([run], tmp_path / "page.html").read_text().partition("How well the source explains")[2][:600]
    assert row.count("100.0") == 1


def test_what_is_unexplained_by_frozen_features_is_nowhere_explained() -> None:
    """However well a trained embedding explains a target that lies far from the source."""
    z = torch.tensor([[0.0, 0.0], [0.1, 0.0], [4.0, 0.0], [4.1, 0.0]])
    found = diagnose(z, [0, 0, 1, 1], z[[2, 3, 3]], torch.tensor([[0.0, 9]] * 3))[0]
    assert len(found.unexplained) == 0
    assert found.absent_classes == (0,)
    far = less_explained(found, np.zeros(3))
    assert len(far.unexplained) == 3
    assert far.transported_mass == 0
    assert far.absent_classes == ()
    assert far.signs == ("100 % of the target samples are explained by no source sample", *found.signs)
    half = less_explained(found, np.array([0.0, 0.0, 1.0]))
    assert half.absent_classes == (0,)
    assert any(sign.startswith("67 %") for sign in half.signs)
    assert half.transported_mass == pytest.approx(half.received_mass.mean())
    assert less_explained(found, None) is found


def test_what_cannot_be_determined_is_determined_of_no_other_model(tmp_path: Path) -> None:
    none = {"value": None, "low": None, "high": None, "why": "98 % of the target are predicted as one class"}
    model = {"name": "logistic regression", "held_out": 0.96, "error": 0.01, "ahead": True}
    for own, theirs, sentence in (
        (none, none, "cannot be determined"),
        (none, ESTIMATE, "cannot be determined"),
        (ESTIMATE | {"value": 0.6}, ESTIMATE, "also ahead"),
    ):
        references = {"measure": "accuracy", "held_out": 0.9, "error": 0.01, "n": 80}
        references["models"] = [model | {"estimated_accuracy": theirs}]
        run = _with(make_run(tmp_path / f"{own['value']}, {theirs['value']}", accuracy=None), references=references)
        *figures, last = describe_references(read_run(_with(run, estimated_accuracy=own)))
        assert ("on the target" in figures[0]) == (theirs is ESTIMATE)
        assert sentence in last
        assert "its accuracy" not in last


def test_labels_are_not_said_to_be_lacking_where_only_the_baseline_is(tmp_path: Path) -> None:
    answer = verdict(read_run(make_run(tmp_path / "run", accuracy=0.9, source_steps=0)))
    assert "90.8" in answer
    assert "without labels" not in answer
    assert "baseline" in answer


def test_an_estimate_below_guessing_is_no_estimate(tmp_path: Path) -> None:
    estimate = {"value": 0.0, "low": 0.0, "high": 0.05, "why": "clusters"}
    answer = verdict(read_run(_with(make_run(tmp_path / "run", accuracy=None), estimated_accuracy=estimate)))
    assert "Probably" not in answer
    assert "cannot be determined without labels: the estimate, 0" in answer
    assert "is below chance level." in answer
