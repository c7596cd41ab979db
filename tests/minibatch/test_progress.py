"""Long stretches say how far they are: a bar on a terminal and in a notebook, elsewhere by `logging`."""

from __future__ import annotations

import io
import logging
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jumbot._base import progress
from jumbot.adaptation._training.bar import training_bar
from jumbot.cli import main
from tests.cli.test_adaptation_commands import write_table

STEP = {"event": "step", "phase": "adaptation", "mass": 0.5, "terms": {"transport": 1.25}}
SEEN = {"event": "evaluation", "phase": "adaptation", "step": 3, "seconds": 1.0, "accuracy": 0.9, "scores": {}}


def test_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 4.0, 11.0, 15.0, 21.5])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    with caplog.at_level(logging.INFO, "jumbot"), progress.progress(5000, "features of cats") as advance:
        for done in (100, 1400, 500, 1000):
            advance(done)
    assert caplog.messages == ["features of cats: 1,500 of 5,000, 11 s", "features of cats: 3,000 of 5,000, 22 s"]


def test_one_part_that_takes_long_is_reported_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_EVERY", 0.05)
    with caplog.at_level(logging.INFO, "jumbot"):
        with progress.progress(6, "after training", slow=True) as reach:
            reach(1, "diagnosis")
            with progress.progress(9000, "inside") as advance:  # leaves the telling to the one around it
                time.sleep(0.2)
                advance(1)
        with progress.progress(None, "report", slow=True):
            time.sleep(0.2)
    assert caplog.messages[0] == "after training: 1 of 6, diagnosis, 0 s"
    assert caplog.messages[-1] == "report, 0 s"
    assert not any("inside" in line for line in caplog.messages)


def test_training_tells_logging_where_it_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_EVERY", 0.05)
    with caplog.at_level(logging.INFO, "jumbot"), training_bar(10, 2, "jumbot", show=False) as update:
        update(STEP)
        time.sleep(0.2)
        update(SEEN)
    assert caplog.messages[0] == "jumbot: 3 of 10, adaptation, 0 s"
    assert capsys.readouterr().err == ""


class Frontend:
    """What IPython in a kernel gives: a handle for each display, whose drawing can be changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn: list[list[str]] = []
        shell = SimpleNamespace(kernel=object())
        display = SimpleNamespace(display=self.display, HTML=lambda text: text)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display))
        monkeypatch.setattr(progress.Drawing, "_APART", 0.0)

    def display(self, text: str, display_id: bool) -> Any:
        assert display_id
        self.drawn.append([text])
        return SimpleNamespace(update=self.drawn[-1].append)


def test_a_notebook_has_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = Frontend(monkeypatch)
    with progress.progress(4000, "features of <cats>") as advance:
        advance(1000)
    with training_bar(2, 0, "jumbot") as update:
        update(STEP)
        update(SEEN)
        update(STEP)
    features, training = frontend.drawn
    assert 'value="1000" max="4000"></progress> features of &lt;cats&gt;: 1,000 of 4,000' in features[1]
    assert 'value="4000" max="4000"' in features[-1]
    assert 'value="2" max="2"' in training[-1]
    assert (
        "jumbot (adaptation)  2 of 2  mass 0.50  transport 1.250  target accuracy 90.0 % (evaluation)" in training[-1]
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(6, "after training", least=1, slow=True) as reach:
        reach(2, "diagnosis")
    assert "after training: 2 of 6, diagnosis" in terminal.getvalue()
    with progress.progress(6, "quiet", least=1, bar=False):
        pass
    assert "quiet" not in terminal.getvalue()


def test_the_command_says_what_comes_after_the_last_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = write_table(tmp_path / "a.csv", 0), write_table(tmp_path / "b.csv", 1)
    assert main(["adapt", *tables, "--out", str(tmp_path / "run"), "--steps", "2", "--batch-size", "9"]) == 0
    assert "computing figures, diagnosis and predictions" in capsys.readouterr().err
    assert not logging.getLogger("jumbot").handlers
