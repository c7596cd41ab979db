"""`jumbot reproduce`: options of methods and training pass through, and what cannot be is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jumbot.paper
from jumbot.cli import main


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def note(item: str, out: Path, **options: Any) -> dict[str, Any]:
        seen.update(item=item, out=out, **options)
        return {"claims": [{"statement": "it is so", "holds": True}], "data": {"warning": "labels were looked at"}}

    monkeypatch.setattr(jumbot.paper, "reproduce", note)
    return seen


def test_options_pass_through(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "digits --task U-M S-M --tau 0.3 --epsilon 0.05 --batch-size 100 --epochs 20 --evaluate-samples 1000 --seeds 3"
    )
    assert main(["reproduce", *words.split(), "--reference", "product"]) == 0
    assert asked == {
        "item": "digits", "out": Path("reproduced"), "quick": False, "seed": 0, "tasks": ("U-M", "S-M"), "seeds": 3,
        "tau": 0.3, "epsilon": 0.05, "batch_size": 100, "epochs": 20, "evaluate_samples": 1000, "reference": "product",
    }  # fmt: skip
    out = capsys.readouterr().out
    assert "holds          it is so" in out
    assert "labels were looked at" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fig9", "did you mean 'fig7'"),
        ("fig1 --tau 2", "--tau: an option of"),
        ("fig1 --seeds 2", "--seeds: an option of"),
        ("fig5 --over tau", "--over: an option of fig6"),
        ("fig7 --seeds 3", "--seeds: an option of"),
        ("digits --samples 9", "--samples: an option of fig5"),
        ("digits --batch-size 0", "--batch-size: 0 came in"),
        ("digits --batchsize 9", "did you mean --batch-size"),
        ("digits --methods jumbt", "did you mean 'jumbot'"),
        ("digits --methods dann --tau 1", "--tau: not an option of dann"),
    ],
)
def test_refused(words: str, said: str, asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words.split()]) == 2
    assert said in capsys.readouterr().err
    assert not asked


def test_the_whole_command_makes_the_record_again(tmp_path: Path) -> None:
    """What a record gives as its command is one that the command takes."""
    from jumbot.cli.parsing import parse_with
    from jumbot.cli.reproduce import Reproduce
    from jumbot.cli.run_options import every_option
    from jumbot.paper.trained import command_line

    given = {
        "tasks": ["U-M"],
        "methods": ["jumbot", "dann:weight=2"],
        "seed": 1,
        "quick": True,
        "tau": 0.3,
        "epochs": 7,
    }
    words = command_line("digits", **given).split()[2:]
    wanted, changes = parse_with(Reproduce, words, "jumbot reproduce", every_option(), lambda _: ())
    assert (wanted.item, wanted.tasks, wanted.methods) == ("digits", ("U-M",), ("jumbot", "dann:weight=2"))
    assert (wanted.seed, wanted.quick) == (1, True)
    assert changes == {"tau": 0.3, "epochs": 7}
