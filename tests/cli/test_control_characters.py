"""Names in data that hold control characters are shown, never obeyed, and cost no run."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import jumbot
from jumbot._base.progress import progress
from jumbot.cli import main
from jumbot.errors import ArgumentError

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")
NAMES = ("cat\x00tle", "dog\x1b[31m", "\u202eowl\x9b")


def table(path, names, seed, labelled=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(90) % len(names)
    rows = 3 * np.eye(len(names))[labels] + rng.normal(size=(90, len(names)))
    lines = ["a,b,c" + ",kind" * labelled]
    for row, label in zip(rows, labels, strict=True):
        lines.append(",".join([*(f"{x:.3f}" for x in row), *([names[label]] * labelled)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return str(path)


def check_shown(text):
    assert not CONTROL.search(text), CONTROL.search(text)


@pytest.mark.filterwarnings("ignore::jumbot.NegativeTransferWarning")
def test_a_run_on_a_table_whose_classes_have_control_characters(tmp_path, capsys):
    source, target = table(tmp_path / "s.csv", NAMES, 0), table(tmp_path / "t.csv", NAMES, 1)
    run = tmp_path / "run"
    assert main(["adapt", source, target, "--label", "kind", "--steps", "3", "--out", str(run)]) == 0
    output = capsys.readouterr()
    check_shown(output.out + output.err)
    for page in ("report.html", "README.md"):
        text = (run / page).read_text(encoding="utf-8")
        check_shown(text)
        assert r"cat\x00tle" in text
    assert set(jumbot.load(run).predict(str(tmp_path / "t.csv"))) <= set(NAMES)  # in data they are as they were
    (run / "report.html").unlink()
    assert main(["adapt", "--resume", "--out", str(run)]) == 0
    assert (run / "report.html").exists()
    capsys.readouterr()
    unlabelled = table(tmp_path / "n.csv", NAMES, 2, labelled=False)
    assert main(["export", str(run), str(tmp_path / "model.pt2")]) == 0
    assert main(["predict", str(run), unlabelled, "--csv", str(tmp_path / "p.csv")]) == 0
    assert main(["evaluate", str(run), target]) == 0
    check_shown(capsys.readouterr().out)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
@pytest.mark.filterwarnings("ignore::jumbot.NegativeTransferWarning")
def test_folders_and_files_whose_names_are_not_text(tmp_path, capsys):
    from PIL import Image

    rng = np.random.default_rng(0)
    for domain in ("s", "t"):
        for name in (b"ca\x1b[31mt\xff", b"dog [red]"):
            folder = os.fsencode(tmp_path / domain) + b"/" + name
            os.makedirs(folder)
            for i in range(4):
                with open(folder + b"/\xfe%d.png" % i, "wb") as file:
                    Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(file, "PNG")
    run = tmp_path / "run"
    arguments = ["adapt", str(tmp_path / "s"), str(tmp_path / "t"), "--out", str(run), "--size", "28"]
    arguments += ["--steps", "1", "--source-steps", "1", "--backbone", "digits", "--batch-size", "4"]
    assert main(arguments) == 0
    output = capsys.readouterr()
    check_shown(output.out + output.err)
    check_shown((run / "report.html").read_text(encoding="utf-8"))
    assert r"/\udcfe0.png" in (run / "predictions.csv").read_text(encoding="utf-8")
    assert main(["predict", str(run), str(tmp_path / "t"), "--csv", "-"]) == 0
    assert r"\udcfe0.png" in capsys.readouterr().out


def test_a_table_on_a_terminal_is_shown_and_to_a_program_it_is_as_it_is(monkeypatch):
    from jumbot.cli._terminal import Screen

    for terminal, expected in ((True, r"a\x1bb"), (False, "a\x1bb")):
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(sys, "stdout", screen)
        Screen().write("a\x1bb")
        assert screen.getvalue() == expected


_SPEAKS = """
import sys, warnings
from jumbot.cli import _doctor as doctor
from jumbot.cli import main
from jumbot._base.progress import log

def speaks(arguments):
    for line in range(2):
        exec("\\n" * line + "warnings.warn('a\\x1b[2Jb')")  # from two places
    warnings.warn("another")
    log.info("c\\x1b[2Jd")
    return 0

doctor.main, before = speaks, warnings.formatwarning
assert main(["doctor"]) == 0 and warnings.formatwarning is before
"""


def test_errors_warnings_and_logs_are_shown_without_places_and_once():
    assert str(ArgumentError("x\x1b[2J: no")) == r"x\x1b[2J: no"
    found = subprocess.run([sys.executable, "-c", _SPEAKS], capture_output=True, text=True, check=True)
    assert found.stderr.splitlines() == [r"warning: a\x1b[2Jb", "warning: another", r"c\x1b[2Jd"]


def test_brackets_in_a_name_are_no_markup_of_a_bar(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress(3, "predictions of [/red] a\x1b[2Jb", least=1) as advance:
        advance(1)
    assert "predictions of [/red] a\\x1b[2Jb" in screen.getvalue()


@pytest.mark.filterwarnings("ignore::jumbot.NegativeTransferWarning")
@pytest.mark.parametrize("page", ["report._adaptation.write_report", "report._card.write_card"])
def test_a_page_that_cannot_be_drawn_costs_no_model(tmp_path, capsys, monkeypatch, page):
    def fails(*arguments):
        raise ZeroDivisionError("no page")

    monkeypatch.setattr(f"jumbot.{page}", fails)
    source, target = table(tmp_path / "s.csv", "abc", 0), table(tmp_path / "t.csv", "abc", 1, labelled=False)
    run = tmp_path / "run"
    with pytest.warns(UserWarning, match="could not be written .*no page"):
        status = main(["adapt", source, target, "--label", "kind", "--steps", "3", "--out", str(run)])
    assert status == (1 if "write_report" in page else 0)
    assert ("report: " in capsys.readouterr().out) == (status == 0)
    assert len(jumbot.load(run).predict(target)) == 90
