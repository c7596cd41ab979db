"""`jumbot predict`: what is missing is said, standard output serves, and no cell is a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import jumbot
from jumbot.cli import main
from jumbot.data._frames import safe, unsafe
from jumbot.report._records import read_run

NAMES = ("=1+1", "@SUM(A1)", "-5", "+x", "\tcell", "plain")
IDS = ["=cmd|' /C calc'!A0", "+49 30", "-1", "@home", "'=quoted", "row", "\rcr"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formulas")
    rng = np.random.default_rng(0)
    kinds = np.arange(60) % 3
    rows = 3 * np.eye(3)[kinds] + 0.3 * rng.normal(size=(60, 3))
    ids = [IDS[i % len(IDS)] + ("" if i < len(IDS) else f" {i}") for i in range(60)]
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", "c"])
        writer.writerows([name, *row] for name, row in zip(ids, rows, strict=True))
    jumbot.adapt(
        (rows, np.array(["=1+1", "-5", "plain"])[kinds]),
        str(folder / "rows.csv"),
        steps=20,
        batch_size=12,
        out=folder / "run",
        report=False,
        method="jumbot",
        judge=False,
    )
    return folder


@pytest.mark.filterwarnings("ignore:.*the source had no column names")
def test_no_cell_is_a_formula(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["predict", str(run / "run"), str(run / "rows.csv"), "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    with (run / "run" / "predictions.csv").open(newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [row["id"] for row in kept]
    assert len(rows) == 60
    for row in rows:
        for cell in row.values():
            assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
            assert not cell.startswith("-") or float(cell), cell
    assert {row["label"] for row in rows} == {"'=1+1", "-5", "plain"}
    found = read_run(run / "run").predictions
    assert {one.label for one in found} == {"=1+1", "-5", "plain"}
    assert unsafe(rows[0]["id"]) == IDS[0]


@pytest.mark.parametrize("text", [*NAMES, *IDS, "", "'", "''", "1e5", "-inf", "- 1"])
def test_a_cell_comes_back(text: str) -> None:
    assert unsafe(safe(text)) == text


def test_what_is_missing_is_reported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "predictions.csv").write_text("mine")
    for arguments, words in {
        ("nothere", "rows.csv"): "nothere: does not exist",
        ("nothere",): "DATA is missing",
        (str(run / "run"), "nodata.csv", "--csv", "p.csv"): "nodata.csv: does not exist",
        (str(run / "run"), str(run / "rows.csv")): "predictions.csv: already exists",
    }.items():
        assert main(["predict", *arguments]) == 2
        assert words in capsys.readouterr().err
    assert (tmp_path / "predictions.csv").read_text() == "mine"


def test_several_image_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a shell writes `jumbot predict run *.png`."""
    from PIL import Image

    rng = np.random.default_rng(0)
    files = []
    for i in range(8):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(rng.integers(0, 255, (28, 28), dtype=np.uint8)).save(files[-1])
    pictures = rng.integers(0, 255, (8, 28, 28), dtype=np.uint8)
    model = jumbot.adapt(
        (pictures, np.arange(8) % 2),
        pictures,
        backbone="digits",
        steps=1,
        source_steps=1,
        batch_size=4,
        out=tmp_path / "run",
        report=False,
    )
    # nothing can be held out of four per class: said, not refused
    assert model.decision.method == "source-only"
    assert "has 4 samples, too few" in model.decision.why
    assert "has 4 samples, too few" in model.estimated_accuracy.why
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), *map(str, files[:3]), "--csv", "-"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert [row[0] for row in rows[1:]] == [str(file) for file in files[:3]]
    assert main(["predict", str(tmp_path / "run")]) == 2
    assert "DATA is missing" in capsys.readouterr().err
