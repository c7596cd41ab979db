"""`jumbot tune`: as typed, with what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_adaptation_commands import QUICK, status_of, write_table


def test_tune_and_predict_with_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = write_table(tmp_path / "here.csv", 0)
    there = write_table(tmp_path / "there.csv", 1, shift=0.5, labels=False)
    out = tmp_path / "tuned"
    arguments = ["tune", here, there, "--out", str(out), "--runs", "2", "--jobs", "1", *QUICK]
    assert status_of(arguments) == 0
    output = capsys.readouterr().out
    assert output.count("(chosen)") == 1
    assert "No target label was used." in output
    assert "accuracy" not in output
    record = json.loads((out / "tune.json").read_text(encoding="utf-8"))
    assert record["command"].startswith("jumbot tune ")
    config = json.loads((out / "source-only" / "config.json").read_text(encoding="utf-8"))
    assert config["command"] == record["command"]
    assert status_of(["predict", str(out), there, "--csv", str(tmp_path / "p.csv")]) == 0
    assert len(list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))) == 60
    assert status_of(arguments) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--tau", "0.3"], "--tau: got 0.3; tune"),
        (["--select", "oracle"], "--select: 'oracle'"),
        (["--runs", "1"], "--runs must be a whole number >= 2"),
        (["--minutes", "0"], "--minutes must"),
        (["--stepz", "3"], "did you mean --steps?"),
    ],
)
def test_errors_before_any_data_are_read(given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["tune", "no-source", "no-target", "--out", "nowhere", *given]) == 2
    assert message in capsys.readouterr().err


def test_the_help_lists_no_options_of_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["tune", "--help"]) == 0
    output = capsys.readouterr().out
    assert "--minutes" in output
    assert "--steps" in output
    assert "--eta1" not in output
