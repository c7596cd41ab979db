"""Numbers, several sources and target labels in the commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jumbot.cli._app import main


@pytest.fixture
def tables(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "t"):
        X = rng.normal(size=(60, 3))
        frame = pd.DataFrame(X, columns=["u", "v", "w"])
        frame.assign(price=1000 * X[:, 0] + 0.5).to_csv(f"{name}.csv", index=False)
        frame.assign(label=np.where(X[:, 0] > 0, "yes", "no")).to_csv(f"{name}_classes.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_numbers_in_adapt_and_compare(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--task", "regression", "--label", "price", "--steps", "10"]
    assert main(["adapt", "a.csv", "t.csv", "--out", "run", *how]) == 0
    assert "target RMSE" in capsys.readouterr().out
    with open("run/predictions.csv") as file:
        assert "prediction" in next(csv.DictReader(file))
    page = Path("run/report.html").read_text()
    assert "RMSE" in page
    assert main(["predict", "run", "t.csv", "--csv", "later.csv"]) == 0
    assert main(["evaluate", "run", "t.csv"]) == 0
    assert "RMSE" in capsys.readouterr().out
    assert main(["compare", "a.csv", "t.csv", "--out", "both", "--methods", "source-only", "jumbot", *how]) == 0
    assert "| a.csv-t.csv | jumbot | 1 |" in capsys.readouterr().out
    assert {row["accuracy"] for row in json.loads(Path("both/compare.json").read_text())["runs"]} == {None}
    assert main(["adapt", "a.csv", "t.csv", "--out", "no", *how, "--method", "mcc"]) == 2
    assert "mcc is for classes" in capsys.readouterr().err
    assert main(["tune", "a.csv", "t.csv", "--out", "tuned", "--runs", "2", "--jobs", "1", *how]) == 0
    assert "R2 (not used)" in capsys.readouterr().out
    pd.read_csv("t.csv").drop(columns="price").to_csv("unlabelled.csv", index=False)
    words = ["--methods", "source-only", "jumbot", *how]
    assert main(["compare", "a.csv", "unlabelled.csv", "--out", "ranked", *words]) == 0
    assert "ranked by a score that needs none" in capsys.readouterr().out


def test_several_sources_and_target_labels(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.read_csv("t_classes.csv").head(6).to_csv("few.csv", index=False)
    words = ["a_classes.csv", "t_classes.csv", "--steps", "10", "--labelled-target", "few.csv"]
    assert main(["adapt", *words, "--out", "run", "--more-sources", "b_classes.csv"]) == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["source"]["n"] == 120
    assert config["data"]["labelled_target"]["n"] == 6
    assert json.loads(Path("run/results.json").read_text())["n"] == 54
    assert main(["compare", "a_classes.csv", "--labelled-target", "few.csv"]) == 2
    assert "need SRC and TGT" in capsys.readouterr().err
