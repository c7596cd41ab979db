"""Run folders are read whole, half and broken, and what is no run is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jumbot.report import _records
from jumbot.report._adaptation import write_report
from jumbot.report._card import write_card
from jumbot.report._presence import least_explained
from jumbot.report._records import read_run
from jumbot.report._sections import LISTED
from jumbot.report._top import _facts
from tests.refusals import refused
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


def test_killed_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", finished=False, steps=40, source_steps=10)
    metrics = folder / "metrics.jsonl"
    text = metrics.read_text()
    metrics.write_text(text[: len(text) - 25])
    with pytest.warns(UserWarning, match=r"metrics\.jsonl:.*75:"):
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


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    for name, words in (
        ("results.json", "is not JSON, or is incomplete"),
        ("embeddings.npz", r"incomplete .* delete it to make the report without it"),
        ("predictions.csv", r"contains 1 rows where config.json records 5000"),
    ):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:40])
        with refused(f"{re.escape(name)}:.*{words}"):
            read_run(folder)
        (folder / name).write_bytes(whole)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"before_source": np.zeros(3)}, r"before_source: got an array of shape \(3,\) \(float64\)"),
        ({"source_labels": np.zeros(120)}, "source_labels: .*whole numbers along 1 axis"),
        ({"source_labels": np.zeros(7, int)}, "arrays of the source must be of the same length"),
        ({"target_labels": np.array(["a"] * 120)}, "target_labels: .*whole numbers"),
        ({"after_target": np.zeros((120, 3))}, "after_source and after_target must have the same width"),
        ({"after": np.zeros(3)}, "after: is not known"),
        ({"source_labels": np.array([{}] * 120)}, "is not an archive of arrays"),
        ({"before_source": np.zeros((2**16, 2))}, "it would take"),
    ],
)
def test_embeddings_are_what_training_writes(
    tmp_path: Path, changes: dict[str, np.ndarray], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "run", steps=2, source_steps=1)
    with np.load(folder / "embeddings.npz") as whole:
        arrays = dict(whole)
    monkeypatch.setattr("jumbot.report._records._LARGEST", 10**5)  # a gigabyte takes too long to write
    np.savez(folder / "embeddings.npz", allow_pickle=True, **arrays | changes)
    with refused(rf"embeddings\.npz: .*{words}"):
        read_run(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("id,label", "id,lable"), "line 1: must name the columns id and label"),
        (lambda text: text.replace("id,label,confidence", "id,label,label"), "line 1: must name the columns"),
        (lambda text: text.rsplit("\n", 2)[0], "contains 4999 rows where config.json records 5000"),
        (lambda text: text[:-20], "must have as many cells"),
        (lambda text: text.replace(",0.", ",1.", 1), r"row 1: confidence must be .*'1\.\d+'"),
        (lambda text: text.replace(",0.", ",many", 1), "row 1: confidence must be .*'many"),
        (lambda text: text.replace(",0.", ",nan", 1), "row 1: confidence must be .*'nan"),
        (lambda text: text.replace("photo", '"photo', 1), "is not a text table"),
        (lambda text: text.encode("utf-16").decode("latin-1"), "is not a text table|line 1"),
        (lambda text: "", "line 1"),
    ],
)
def test_predictions_are_what_training_writes(tmp_path: Path, change: Callable[[str], str], words: str) -> None:
    folder = make_run(tmp_path / "run", steps=2, source_steps=1)
    file = folder / "predictions.csv"
    text = file.read_text(encoding="utf-8")
    file.write_text(change(text), encoding="latin-1")
    with refused(rf"predictions\.csv: .*({words}).* delete it"):
        read_run(folder)
    file.write_text(text, encoding="utf-8-sig")  # as a spreadsheet saves it
    assert read_run(folder).predictions[0].id == "photo_0000.jpg"


def test_of_many_predictions_those_that_a_page_shows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(tmp_path / "run", steps=2, source_steps=1)
    whole = read_run(folder)
    page = write_report([whole], tmp_path / "page.html").read_text()
    monkeypatch.setattr(_records, "_KEPT", LISTED)
    monkeypatch.setattr(_records, "_PART", 700)
    some = read_run(folder)
    assert LISTED <= len(some.predictions) <= 2 * LISTED < len(whole.predictions)
    assert least_explained(some, 50) == least_explained(whole, 50)
    assert write_report([some], tmp_path / "page.html").read_text() == page
    lines = (folder / "predictions.csv").read_text().splitlines()
    (folder / "predictions.csv").write_text("\n".join([*lines[:-1], lines[-1] + ",1"]) + "\n")
    with refused(r"predictions\.csv: row 5000"):
        read_run(folder)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    with (folder / "metrics.jsonl").open("a") as file:
        line = {"event": "step", "step": 900, "epoch": 9, "phase": "adapt", "seconds": 1.0}
        file.write(json.dumps(line | {"loss": float("nan"), "terms": {"source": float("inf")}}) + "\n")
    steps, _ = read_run(folder).curve("loss")
    assert steps[-1] == 799


def test_no_run(tmp_path: Path) -> None:
    with refused("nowhere"):
        read_run(tmp_path / "nowhere")
    with refused(r"config\.json"):
        read_run(tmp_path)


def test_other_format(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"format": 3, "jumbot": "9.9"}))
    with refused(r"9\.9 .*format"):
        read_run(folder)


def test_a_run_without_a_date_and_figures_of_zero_are_reported(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", rows=10, steps=20)
    config = json.loads((folder / "config.json").read_text())
    del config["created"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "created with jumbot 0.1.0, undated" in write_card(folder).read_text(encoding="utf-8")
    run = read_run(folder)
    perfect = replace(run, results={**(run.results or {}), "rmse": 0.0, "r2": 0.0})
    assert {("0", "RMSE on the target"), ("0", "R2")} <= set(_facts(perfect))
