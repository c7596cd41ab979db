"""`jumbot reproduce`: options of methods and training pass through, and what cannot be is refused before any work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jumbot.cli import main


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def note(item: str, out: Path, **options: Any) -> dict[str, Any]:
        seen.update(item=item, out=out, **options)
        return {"claims": [{"statement": "it is so", "holds": True}], "data": {"warning": "labels were looked at"}}

    monkeypatch.setattr("jumbot.cli._reproduce.reproduce", note)
    return seen


def test_options_pass_through(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "digits --task U-M S-M --tau 0.3 --epsilon 0.05 --batch-size 100 --epochs 20 --evaluate-samples 1000 --seeds 3"
    )
    assert main(["reproduce", *words.split(), "--reference", "product"]) == 0
    assert asked == {
        "item": "digits",
        "out": Path("reproduced"),
        "quick": False,
        "seed": 0,
        "tasks": ("U-M", "S-M"),
        "seeds": 3,
        "tau": 0.3,
        "epsilon": 0.05,
        "batch_size": 100,
        "epochs": 20,
        "evaluate_samples": 1000,
        "reference": "product",
    }
    out = capsys.readouterr().out
    assert "holds          it is so" in out
    assert "labels were looked at" in out


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ("fig9", "did you mean 'fig7'"),
        ("fig1 --tau 2", "--tau: only applies to"),
        ("fig1 --seeds 2", "--seeds: only applies to"),
        ("fig5 --over tau", "--over: only applies to fig6"),
        ("fig7 --seeds 3", "--seeds: only applies to"),
        ("digits --samples 9", "--samples: only applies to fig5"),
        ("digits --batch-size 0", "--batch-size must"),
        ("digits --batchsize 9", "did you mean --batch-size"),
        ("digits --methods jumbt", "did you mean 'jumbot'"),
        ("digits --methods dann --tau 1", "--tau: not an option of dann"),
    ],
)
def test_refused(words: str, output: str, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words.split()]) == 2
    assert output in capsys.readouterr().err
    assert not asked


def test_the_whole_command_makes_the_record_again(tmp_path: Path) -> None:
    """What a record gives as its command is one that the command takes."""
    from jumbot._paper.trained import command_line
    from jumbot.cli._parsing import parse_with
    from jumbot.cli._reproduce import Reproduce

    given = {
        "tasks": ["U-M"],
        "methods": ["jumbot", "dann:weight=2"],
        "seed": 1,
        "quick": True,
        "tau": 0.3,
        "epochs": 7,
    }
    words = command_line("digits", **given).split()[2:]
    wanted, changes = parse_with(Reproduce, words, lambda _: ())
    assert (wanted.item, wanted.tasks, wanted.methods) == ("digits", ("U-M",), ("jumbot", "dann:weight=2"))
    assert (wanted.seed, wanted.quick) == (1, True)
    assert changes == {"tau": 0.3, "epochs": 7}


def test_the_methods_of_an_item_are_those_that_it_trains() -> None:
    from importlib import import_module
    from inspect import signature

    from jumbot._paper import TRAINED
    from jumbot._paper.targets import USUAL_METHODS

    assert {
        item: signature(import_module(f"jumbot._paper.{file}").run).parameters["methods"].default
        for item, file in TRAINED.items()
    } == USUAL_METHODS


def test_the_help_shows_the_values_of_the_item(capsys: pytest.CaptureFixture[str]) -> None:
    def page(*words: str) -> str:
        with pytest.raises(SystemExit):
            main(["reproduce", *words, "--help"])
        return " ".join(re.sub(r"[╭╮╰╯│─]+", " ", capsys.readouterr().out).split())

    def default(text: str, option: str) -> str:
        found = re.search(rf"{option} .*?\(default: ([^)]*)\)", text)
        assert found is not None, option
        return found[1]

    digits, visda, partial = page("digits"), page("visda"), page("office-home-partial")
    assert (default(digits, "--tau"), default(visda, "--tau")) == ("1.0", "0.3")
    assert default(digits, "--reference") == "ones"
    assert default(digits, "--scale") != "auto"
    assert default(partial, "--partial") == "first:25"
    assert "deepjdot options" in digits
    assert "deepjdot options" not in visda
    for without in (page("fig1"), page("theorem1"), page()):
        assert "--tau" not in without
