"""Run folders are read whole, half and broken, and what is no run is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from jumbot.errors import ArgumentError
from jumbot.report.records import read_run
from tests.report.runs import make_run


def test_finished_run(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", seed=3, rule="entropy"))
    assert run.finished
    assert (run.method, run.task, run.seed, run.rule, run.oracle) == ("jumbot", "digits → mnist", 3, "entropy", False)
    assert (run.options["eta1"], run.options["tau"]) == (0.1, 1.0)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert run.accuracy == results["accuracy"]
    assert run.per_class == results["per_class"]
    assert run.confusion is not None
    assert run.confusion.sum() == 5000
    assert np.trace(run.confusion) / 5000 == pytest.approx(run.accuracy)
    assert len(run.steps) == 800
    assert run.adaptation_start == 200
    assert len(run.predictions) == 5000
    steps, values = run.curve("terms", "transport")
    assert steps[0] == 200
    assert len(values) == 600
    assert run.names_in("terms") == ["source", "transport"]
    assert run.notes == ()


def test_killed_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False, steps=40, source_steps=10)
    metrics = folder / "metrics.jsonl"
    text = metrics.read_text()
    metrics.write_text(text[: len(text) - 25])
    with pytest.warns(UserWarning, match=r"metrics\.jsonl: line 75: was cut short"):
        run = read_run(folder)
    whole = [json.loads(line) for line in text.splitlines()]
    assert not run.finished
    assert len(run.steps) + len(run.evaluations) == len(whole) - 1
    assert run.accuracy == run.evaluations[-1]["accuracy"]


def test_steps_written_twice_count_once(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False, steps=40, source_steps=10)
    with (folder / "metrics.jsonl").open("a") as file:
        line = {"event": "step", "step": 20, "epoch": 0, "phase": "adapt", "loss": 99.0, "terms": {}, "seconds": 1.0}
        file.write(json.dumps(line) + "\n")
    run = read_run(folder)
    assert len(run.steps) == 50
    assert run.steps[20]["loss"] == 99.0


def test_only_the_configuration(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False)
    (folder / "metrics.jsonl").unlink()
    run = read_run(folder)
    assert (run.accuracy, run.steps, run.confusion, run.per_class) == (None, [], None, [])


def test_broken_files_are_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    for name in ("embeddings.npz", "results.json"):
        (folder / name).write_bytes((folder / name).read_bytes()[:40])
        if name == "embeddings.npz":
            notes = read_run(folder).notes
            assert len(notes) == 1
            assert name in notes[0]
    with pytest.raises(ArgumentError, match=r"results\.json: is not JSON, or was cut short"):
        read_run(folder)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with (folder / "metrics.jsonl").open("a") as file:
        line = {"event": "step", "step": 900, "epoch": 9, "phase": "adapt", "seconds": 1.0}
        file.write(json.dumps(line | {"loss": float("nan"), "terms": {"source": float("inf")}}) + "\n")
    steps, _ = read_run(folder).curve("loss")
    assert steps[-1] == 799


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is not a folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match=r"not the folder of a run.*config\.json"):
        read_run(tmp_path)


def test_other_format(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"format": 3, "jumbot": "9.9"}))
    with pytest.raises(ArgumentError, match=r"9\.9 in another format"):
        read_run(folder)
