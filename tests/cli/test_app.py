"""The `jumbot` command, in process: what it prints, writes and returns."""

from __future__ import annotations

import subprocess
import sys

import pytest

import jumbot
from jumbot.cli import main


def status_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize("arguments", [["nonsense"], [], ["distance", "--nonsense"], ["reproduce", "fig1", "--out"]])
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
    assert capsys.readouterr().out.strip() == f"jumbot {jumbot.__version__}"
    assert status_of(["--help"]) == 0
    assert "demo" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_gets_no_error_line() -> None:
    command = [sys.executable, "-m", "jumbot", "doctor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as `| head` does
        assert (process.stderr.read(), process.wait()) == ("", 141)
