"""adapt, predict, evaluate, compare, demo: as typed, with what they print, write and return."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jumbot
from jumbot.adaptation._evaluation.modularity import nearest, some_rows, weigh
from jumbot.adaptation._evaluation.monitor import outputs
from jumbot.cli import main

QUICK = ["--steps", "12", "--batch-size", "12"]


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


def write_table(path: Path, seed: int, labels: bool = True, shift: float = 0.0, n: int = 60) -> str:
    rng = np.random.default_rng(seed)
    names = np.array(["ant", "bee", "cow"])[np.arange(n) % 3]
    values = 3 * np.eye(3)[np.arange(n) % 3] + 0.4 * rng.normal(size=(n, 3)) + shift
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", *(["label"] if labels else [])])
        writer.writerows([*row, *([name] if labels else [])] for row, name in zip(values, names, strict=True))
    return str(path)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    return write_table(tmp_path / "here.csv", 0), write_table(tmp_path / "there.csv", 1, shift=0.5)


def test_adapt_predict_evaluate(tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    assert status_of(["adapt", *tables, "--out", run, "--tau", "0.7", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "model chosen by: last iterate" in out
    assert "target accuracy" in out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["method"]["tau"] == 0.7
    assert config["command"].startswith("jumbot adapt")
    assert (tmp_path / "run" / "report.html").exists()
    assert status_of(["predict", run, tables[1], "--csv", str(tmp_path / "p.csv")]) == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert len(rows) == 60
    assert {row["label"] for row in rows} <= {"ant", "bee", "cow"}
    assert status_of(["predict", run, tables[1], "--csv", str(tmp_path / "p.csv")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert status_of(["evaluate", run, tables[1], "--json"]) == 0
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["n"] == 60


def test_running_again_asks_for_resume(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["adapt", *tables, "--out", str(tmp_path / "run"), *QUICK]
    assert status_of(arguments) == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert status_of(arguments) == 2
    assert "--resume" in capsys.readouterr().err
    assert status_of([*arguments, "--resume"]) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_oracle_is_marked_everywhere(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert status_of(["adapt", *tables, "--out", str(run), "--select", "oracle", *QUICK]) == 0
    assert "USED TARGET LABELS" in capsys.readouterr().out
    assert json.loads((run / "results.json").read_text())["oracle"] is True
    assert "oracle" in (run / "report.html").read_text().lower()
    assert status_of(["evaluate", str(run), tables[1]]) == 0
    assert "USED TARGET LABELS" in capsys.readouterr().out


def test_compare_prints_a_table_and_repeats_nothing(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "comparison"
    arguments = ["compare", *tables, "--methods", "source-only", "jumbot", "--seeds", "2", "--out", str(out), *QUICK]
    assert status_of(arguments) == 0
    first = capsys.readouterr()
    assert "source-only" in first.out
    assert "jumbot" in first.out
    assert len(json.loads((out / "compare.json").read_text())["runs"]) == 4
    models = {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}
    assert len(models) == 4
    assert status_of(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")} == models
    for change in (["--steps", "13"], ["--partial", "first:2"], ["--features", "9"]):
        assert status_of([*arguments, *change]) == 2
        assert "other settings" in capsys.readouterr().err


def test_compare_ranks_without_labels(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = tmp_path / "blind.csv"
    frame = pd.read_csv(tables[1])
    frame.drop(columns="label").to_csv(blind, index=False)
    out = tmp_path / "comparison"
    methods = ["source-only", "jumbot", "deepjdot"]
    arguments = ["compare", tables[0], str(blind), "--methods", *methods, "--out", str(out)]
    assert status_of([*arguments, *QUICK]) == 0
    output = capsys.readouterr().out
    assert "score (higher is better)" in output
    folders = {name: next(out.rglob(f"{name}/seed0")) for name in methods}
    models = {name: jumbot.load(folder) for name, folder in folders.items()}
    shares = {name: outputs(m.network, m.domain(blind))[1].softmax(-1).numpy() for name, m in models.items()}
    domain = models["jumbot"].domain(blind)
    expected = weigh(shares, nearest(some_rows(domain, 0)[1]))
    for name, evidence in expected.items():
        assert f"{evidence.value:.3f}" in next(line for line in output.splitlines() if line.startswith(name))
        assert (folders[name] / "report.html").is_file()
    overview = (out / "report.html").read_text(encoding="utf-8")
    assert "Scores without labels" in overview
    assert 'jumbot/seed0/report.html"' in overview


@pytest.mark.slow
def test_compare_without_reports_of_the_runs(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "comparison"
    arguments = ["compare", *tables, "--methods", "source-only", "jumbot", "--out", str(out), *QUICK]
    assert status_of([*arguments, "--no-reports"]) == 0
    assert "the runs have no reports" in capsys.readouterr().out
    assert list(out.rglob("report.html")) == [out / "report.html"]
    assert "report.html" not in (out / "report.html").read_text(encoding="utf-8")  # no link to what is not there
    assert status_of(arguments) == 0  # later, without training again
    assert len(list(out.rglob("report.html"))) == 3


def test_what_is_typed_wins_even_where_it_is_the_value_of_the_recipe(tables: tuple[str, str], tmp_path: Path) -> None:
    """.01 is the recipe's rate, but not the one that it has for ETN."""
    out = tmp_path / "comparison"
    methods = ["--methods", "etn", "etn:learning_rate=0.002"]
    assert status_of(["compare", *tables, *methods, "--out", str(out), "--learning-rate", "0.01", *QUICK]) == 0
    rates = [json.loads(file.read_text())["training"]["learning_rate"] for file in sorted(out.rglob("config.json"))]
    assert rates == [0.01, 0.002]


@pytest.mark.slow
def test_compare_takes_every_pair_of_a_table_of_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    label = np.arange(90) % 3
    features = 3 * np.eye(3)[label] + 0.4 * rng.normal(size=(90, 3))
    domain = np.repeat(["amazon", "dslr", "webcam"], 30)
    np.savez(tmp_path / "all.npz", features=features, label=label, domain=domain)
    arguments = [
        "compare",
        str(tmp_path / "all.npz"),
        "--methods",
        "source-only",
        "--out",
        str(tmp_path / "out"),
        *QUICK,
    ]
    assert status_of([*arguments, "--jobs", "2"]) == 0
    runs = json.loads((tmp_path / "out" / "compare.json").read_text())["runs"]
    assert len({run["task"] for run in runs}) == 6
    assert {"last", "entropy", "oracle"} <= set(runs[0]["by_rule"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--tua", "3"], "--tau"),
        (["--method", "jumbo"], "jumbot"),
        (["--recipe", "digts"], "digits"),
        (["--select", "entrpy"], "entropy"),
        (["--steps", "-3"], "steps"),
        (["--partial", "first:9"], "partial"),
        (["--backbone", "digits"], "backbone"),
    ],
)
def test_bad_options_name_what_is_meant(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], change: list[str], words: str
) -> None:
    assert status_of(["adapt", *tables, "--out", str(tmp_path / "run"), *change]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_bad_data_is_one_line(tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_class = tmp_path / "one.csv"
    one_class.write_text("a,b,c,label\n" + "1,2,3,x\n" * 5)
    (tmp_path / "empty").mkdir()
    endless = tmp_path / "endless.csv"
    endless.write_text("a,b,c\n1,2,3\n1,inf,3\n")
    wide = tmp_path / "wide.csv"
    wide.write_text("a,b,c,d\n1,2,3,4\n")
    unlabelled = write_table(tmp_path / "unlabelled.csv", 3, labels=False)
    bad = [
        (tables[0], str(tmp_path / "absent.csv")),
        (tables[0], str(tmp_path / "empty")),
        (str(one_class), tables[1]),
        (tables[0], str(endless)),
        (tables[0], str(wide)),
        (unlabelled, tables[1]),
    ]
    for source, target in bad:
        assert status_of(["adapt", source, target, "--out", str(tmp_path / "run"), *QUICK]) == 2, (source, target)
        err = capsys.readouterr().err.strip()
        assert err.startswith("jumbot adapt: "), err
        assert all(line.startswith("Try: ") for line in err.splitlines()[1:]), err
        assert not (tmp_path / "run").exists()
    assert status_of(["predict", str(tmp_path / "nothing"), tables[1]]) == 2
    assert "model" in capsys.readouterr().err


def test_an_unlabelled_target_and_one_smaller_than_the_minibatch(tables: tuple[str, str], tmp_path: Path) -> None:
    few = write_table(tmp_path / "few.csv", 4, labels=False, n=7)
    assert status_of(["adapt", tables[0], few, "--out", str(tmp_path / "run"), *QUICK]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert "accuracy" not in results
    assert "diagnosis" in results


@pytest.mark.parametrize("command", ["adapt", "predict", "evaluate", "compare", "demo"])
def test_help_is_readable(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage" in out
    assert "STR" not in out.partition("options")[0]


def test_options_of_no_method_hide_those_of_training() -> None:
    import dataclasses

    from jumbot._settings.training import Inputs, NetworkOptions, Training
    from jumbot.cli._adapt import Adapt
    from jumbot.methods import METHODS, method_class

    common = [field.name for cls in (Training, NetworkOptions, Inputs, Adapt) for field in dataclasses.fields(cls)]
    assert len(set(common)) == len(common)
    for name in METHODS:
        assert not {field.name for field in dataclasses.fields(method_class(name).Options)} & set(common), name


def test_a_column_of_labels_by_name(tables: tuple[str, str], tmp_path: Path) -> None:
    named, other = tmp_path / "named.csv", tmp_path / "other.csv"
    for file in (named, other):
        file.write_text(Path(tables[0]).read_text().replace("label", "species"))
    run = str(tmp_path / "run")
    assert status_of(["adapt", str(named), str(other), "--label", "species", "--out", run, *QUICK]) == 0
    assert status_of(["evaluate", run, str(named), "--label", "species"]) == 0
    assert status_of(["evaluate", run, str(named)]) == 0  # the model knows the name
    assert status_of(["evaluate", run, str(named), "--label", "kind"]) == 2


def test_corrupt_photographs_are_refused_or_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for domain in ("here", "there"):
        for number, kind in enumerate(("ant", "bee")):
            (tmp_path / domain / kind).mkdir(parents=True)
            for i in range(6):
                shade = np.full((9, 11, 3), 40 + 90 * number + 5 * i, np.uint8)
                Image.fromarray(shade).save(tmp_path / domain / kind / f"{i}.png")
    (tmp_path / "there" / "ant" / "broken.png").write_bytes(b"no picture")
    arguments = ["adapt", str(tmp_path / "here"), str(tmp_path / "there"), "--recipe", "digits", "--size", "16"]
    short = ["--source-steps", "2", "--steps", "2", "--batch-size", "6"]
    assert status_of([*arguments, "--out", str(tmp_path / "refused"), *short]) == 2
    assert "broken.png" in capsys.readouterr().err
    with pytest.warns(UserWarning, match=r"broken\.png"):
        assert status_of([*arguments, "--out", str(tmp_path / "run"), "--corrupt", "skip", *short]) == 0
    assert len((tmp_path / "run" / "predictions.csv").read_text().splitlines()) == 13
