"""`jumbot doctor` tells what is there, what is absent and what is broken."""

from __future__ import annotations

import sys

import pytest

from jumbot.cli import doctor, main


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
    assert any("safetensors" in line and "DOES NOT IMPORT" in line for line in lines)


def test_an_absent_extra_is_no_fault() -> None:
    state, broken = doctor._state("no-such-package-of-ours", "nothing", "vision")
    assert "jumbot[vision]" in state
    assert not broken


def test_bench_outside_of_the_repository(
    tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert main(["bench"]) == 2
    assert "clone" in capsys.readouterr().err
