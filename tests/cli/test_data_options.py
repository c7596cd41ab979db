"""The options of reading in the commands: tables by name, one domain of several, signals."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jumbot.cli._app import main

QUICK = ["--steps", "12", "--batch-size", "15", "--evaluate-every", "10"]


@pytest.fixture
def hospitals(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    frame = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(60)],
            "age": rng.normal(40 + 20 * y, 3),
            "ward": np.where(y, "north", "south"),
            "note": [f"remark {i}" for i in range(60)],
            "outcome": np.array(["home", "stays"])[y],
        }
    )
    frame.to_csv(tmp_path / "here.csv", index=False)
    frame[["ward", "age", "patient"]].to_csv(tmp_path / "there.csv", index=False, sep=";")
    return tmp_path / "here.csv", tmp_path / "there.csv"


def test_tables_by_name(hospitals: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there = map(str, hospitals)
    run, out = str(tmp_path / "run"), str(tmp_path / "p.csv")
    options = ["--label", "outcome", "--id", "patient"]
    assert main(["adapt", here, there, *options, "--out", run, *QUICK]) == 2
    assert "lacks the column 'note'" in capsys.readouterr().err
    assert main(["adapt", here, there, *options, "--drop", "note", "--out", run, *QUICK]) == 0
    assert main(["predict", run, there, "--csv", out]) == 0
    rows = list(csv.DictReader(Path(out).read_text().splitlines()))
    assert ([row["id"] for row in rows[:2]], len(rows)) == (["p0", "p1"], 60)
    capsys.readouterr()
    assert main(["evaluate", run, here, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["n"] == 60
    shared = ["--columns", "shared", "--out", str(tmp_path / "shared")]
    assert main(["adapt", here, there, *options, *shared, *QUICK]) == 0
    names = json.loads((tmp_path / "shared" / "model.json").read_text())["input"]["columns"]["columns"]
    assert [column["name"] for column in names] == ["age", "ward"]


def test_one_domain_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for camera in ("camA", "camB"):
        for shade, kind in ((30, "mug"), (200, "pen")):
            (tmp_path / "multi" / camera / kind).mkdir(parents=True)
            for i in range(6):
                Image.new("L", (16, 16), shade + i).save(tmp_path / "multi" / camera / kind / f"{i}.png")
    multi, run = str(tmp_path / "multi"), str(tmp_path / "run")
    short = ["--out", run, "--source-steps", "2", "--steps", "2", "--batch-size", "6"]
    assert main(["adapt", multi, f"{multi}/camB", *short]) == 2
    assert "--domain camA" in capsys.readouterr().err
    assert main(["adapt", multi, f"{multi}:camB", "--domain", "camA", *short]) == 0
    assert main(["evaluate", run, multi, "--domain", "camB"]) == 0
    assert main(["predict", run, f"{multi}/camB/pen/0.png", "--csv", str(tmp_path / "one.csv")]) == 0
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 2


def test_signals(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", X=rng.normal(size=(30, 2, 32)), y=np.arange(30) % 2)
    np.save(tmp_path / "t.npy", rng.normal(size=(30, 2, 32)))
    source, target, run = str(tmp_path / "s.npz"), str(tmp_path / "t.npy"), str(tmp_path / "run")
    short = ["--out", run, "--source-steps", "2", "--steps", "2", "--batch-size", "6"]
    assert main(["adapt", source, target, "--kind", "signal", *short]) == 0
    assert main(["predict", run, target, "--csv", str(tmp_path / "p.csv")]) == 0
