"""Long stretches say how far they are, by `logging`, which the command prints."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from jumbot.cli import main
from jumbot.minibatch import progress
from tests.cli.test_adaptation_commands import write_table


def test_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 4.0, 11.0, 15.0, 21.5])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with caplog.at_level(logging.INFO, "jumbot"), progress.progress(5000, "features of cats") as advance:
        for done in (100, 1400, 500, 1000):
            advance(done)
    assert caplog.messages == ["features of cats: 1,500 of 5,000, 11 s", "features of cats: 3,000 of 5,000, 22 s"]


def test_the_command_says_what_comes_after_the_last_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = write_table(tmp_path / "a.csv", 0), write_table(tmp_path / "b.csv", 1)
    assert main(["adapt", *tables, "--out", str(tmp_path / "run"), "--steps", "2", "--batch-size", "9"]) == 0
    assert "now the figures, the diagnosis and the predictions" in capsys.readouterr().err
    assert not logging.getLogger("jumbot").handlers
