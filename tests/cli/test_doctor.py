"""`jumbot doctor` tells what is there, what is absent and what is broken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jumbot.cli import _doctor as doctor
from jumbot.cli import main


def test_all_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    out = capsys.readouterr().out
    for package, *_ in doctor.PACKAGES:
        assert package in out
    assert "relative gap" in out


def test_a_package_that_does_not_import_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    before = doctor.examine(lambda line: None)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    lines: list[str] = []
    assert doctor.examine(lines.append) == before + 1
    assert any("safetensors" in line and "CANNOT BE IMPORTED" in line for line in lines)


def test_an_absent_extra_is_no_fault() -> None:
    state, failed = doctor._state("no-such-package-of-ours", "nothing", "vision")
    assert "jumbot[vision]" in state
    assert not failed


def test_bench_outside_of_the_repository(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert main(["bench"]) == 2
    assert "clone" in capsys.readouterr().err


def test_it_says_how_to_get_the_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUMBOT_DATA", str(tmp_path))
    (tmp_path / "usps").mkdir()
    doctor._say_data(print)
    out = capsys.readouterr().out
    assert f"digits in {tmp_path}: usps" in out
    assert "mnist, mnistm, svhn: " in out
    assert "train.npz" in out
    assert "JUMBOT_DATA" in out
    for name in ("mnist", "mnistm", "svhn"):
        (tmp_path / name).mkdir()
    doctor._say_data(print)
    assert capsys.readouterr().out == f"digits in {tmp_path}: usps, mnist, mnistm, svhn\n"
