"""The `jumbot` command, in process: what it prints, writes and returns."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from jumbot.cli import main
from jumbot.report.two_clusters import make_points, solve_two_clusters


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_demo_prints_a_table_and_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["demo", "--out", str(tmp_path / "new" / "folder")]) == 0
    picture = tmp_path / "new" / "folder" / "two_clusters.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "unbalanced" in out
    assert "0.2000" in out
    assert out.rstrip().endswith("two_clusters.png")


def test_demo_writes_to_demo_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["demo"]) == 0
    assert (tmp_path / "demo" / "two_clusters.png").exists()


def test_demo_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert status_of(["demo", "--out", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert "0.2000" in captured.out
    assert "pip install matplotlib" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_demo_into_a_file_is_one_line_and_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert status_of(["demo", "--out", str(tmp_path / "taken")]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "taken" in err


@pytest.mark.parametrize("arguments", [["nonsense"], [], ["demo", "--nonsense"], ["demo", "--out"]])
def test_bad_arguments_are_one_line_and_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "--help" in captured.err


def test_unknown_command_names_it_and_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["nonsense"]) == 2
    err = capsys.readouterr().err
    assert "nonsense" in err
    assert "demo" in err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"jumbot {version('jumbot')}"
    assert status_of(["--help"]) == 0
    assert "demo" in capsys.readouterr().out


def test_mass_between_clusters_falls_with_tau() -> None:
    points = make_points()
    results = solve_two_clusters(points)
    between = np.array([result.mass_between for result in results])
    assert between[0] == pytest.approx(0.2, abs=1e-9)  # 5 of 10 source points, 3 of 10 targets: 2 must cross
    assert (np.diff(between) <= 1e-9).all()
    assert between[-1] < 1e-3
    assert all(result.relative_gap <= 1e-6 for result in results)
