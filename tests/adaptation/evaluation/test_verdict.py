"""Which candidate is picked, and in which words: by the rule of harm first, then by evidence; and warnings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jumbot.adaptation import _verdict as module
from jumbot.adaptation._evaluation.decision import Harm, decide
from jumbot.adaptation._evaluation.measures import NumberEvidence
from jumbot.adaptation._evaluation.modularity import Evidence
from jumbot.adaptation._search import Weighed
from jumbot.adaptation._verdict import verdict

HELPS, EVEN, HARMS = Harm(0.85, 0.8, 0.3), Harm(0.85, 0.8, 0.001), Harm(0.6, 0.8, 0.3)
NEARER, AS_FAR = Harm(-0.3, -0.5, 0.3, numbers=True), Harm(-0.5, -0.5, 0.3, numbers=True)


def candidate(
    method: str, value: float, numbers: bool = False, gain: float = 0.0, harm: Harm | None = HELPS
) -> Weighed:
    """With that evidence; `gain` is what every sample adds to the modularity, so that a larger one is sure."""
    evidence: Any = NumberEvidence(value, 0.0, 0.0)
    if not numbers:
        evidence = Evidence(value - 0.5, 0.5, 0.0, 0.0, 0.0, np.full(50, gain))
    run: Any = SimpleNamespace(variant=SimpleNamespace(label=method, method=method, changes={}), folder=Path(method))
    return Weighed(run, True, evidence, None if method == "source-only" else harm)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Classes that seem absent, of every run."""
    found: list[int] = []
    monkeypatch.setattr(
        module,
        "read_results",
        lambda folder: SimpleNamespace(diagnosis=SimpleNamespace(absent_classes=found), remarks=()),
    )
    monkeypatch.setattr(
        Weighed,
        "row",
        lambda self, folder: {
            "candidate": self.run.variant.label,
            "method": self.run.variant.method,
            "settings": {},
            "whole": True,
            "folder": self.run.folder.as_posix(),
            "mass": None,
            **self.evidence.to_row(),
        },
    )
    return found


def judged(*weighed: Weighed) -> dict[str, Any]:
    variants = [SimpleNamespace(label=name) for name in ("source-only", "jumbot")]
    search: Any = SimpleNamespace(variants=variants, out=Path(), failed={}, steps=(10, 30))
    return verdict(search, weighed)


@pytest.mark.parametrize("numbers", [False, True])
def test_the_rule_of_harm_chooses_between_both_whatever_the_evidence(absent: list[int], numbers: bool) -> None:
    alone = candidate("source-only", 0.9, numbers)
    found = judged(alone, candidate("jumbot", 0.3, numbers, harm=NEARER if numbers else HELPS))
    assert found["picked"] == "jumbot"
    assert found["why"][0].startswith("Jumbot was chosen over source-only: ")
    for harm in (AS_FAR,) if numbers else (EVEN, HARMS):
        found = judged(candidate("source-only", 0.3, numbers), candidate("jumbot", 0.9, numbers, harm=harm))
        assert found["picked"] == "source-only"
        assert found["why"][0] == _reasons(harm)


def _reasons(harm: Harm) -> str:
    """The sentence of `jumbot.adapt` on the same evidence."""
    reason = str(decide(harm, "jumbot"))
    return reason[:1].upper() + reason[1:]


@pytest.mark.parametrize(
    ("value", "gain", "harm", "picked"),
    [
        (0.9, 1.0, HELPS, "mcc"),
        (0.801, 1.0, HELPS, "jumbot"),  # a tie
        (0.9, 0.0, HELPS, "jumbot"),  # more evidence, and not surely a larger modularity
        (0.9, 1.0, HARMS, "jumbot"),
        (0.9, 1.0, EVEN, "jumbot"),
    ],
)
def test_another_takes_its_place_by_evidence_if_it_does_no_harm(
    absent: list[int], value: float, gain: float, harm: Harm, picked: str
) -> None:
    mcc = candidate("mcc", value, gain=gain, harm=harm)
    found = judged(candidate("source-only", 0.6), candidate("jumbot", 0.8), mcc)
    assert found["picked"] == picked
    assert ("mcc was chosen over jumbot" in " ".join(found["why"])) == (picked == "mcc")
    assert ("not a significantly larger modularity" in " ".join(found["why"])) == (value == 0.9 and not gain)
    assert ("a tie" in " ".join(found["why"])) == (value == 0.801)


def test_another_may_help_where_the_recipe_harms(absent: list[int]) -> None:
    weighed = candidate("source-only", 0.6), candidate("jumbot", 0.8, harm=HARMS), candidate("mcc", 0.9, gain=1.0)
    found = judged(*weighed)
    assert found["picked"] == "mcc"
    assert found["why"][0].startswith("Source-only was chosen over jumbot")
    assert found["why"][1].startswith("mcc was chosen over source-only")
    assert judged(*weighed[:2])["picked"] == "source-only"


def test_nothing_to_judge_by_is_no_reason_to_adapt(absent: list[int]) -> None:
    found = judged(candidate("source-only", 0.6), candidate("jumbot", 0.9, harm=None))
    assert found["picked"] == "source-only"
    assert "too few samples" in found["why"][0]


@pytest.mark.parametrize("missing", [[], [3], [3, 4]])
def test_a_pick_that_is_advised_against_says_so(absent: list[int], missing: list[int]) -> None:
    absent += missing
    weighed = candidate("source-only", 0.6), candidate("jumbot", 0.7), candidate("mcc", 0.9, gain=1.0)
    found = judged(*weighed)
    assert found["picked"] == "mcc"
    reason = [text for text in found["why"] if text.startswith("Warning: ")]
    assert len(reason) == bool(missing)
    if missing:
        assert ("A source class seems" if len(missing) == 1 else "2 source classes seem") in reason[0]
        assert "mcc is not recommended" in reason[0]
    absent.clear()
    absent.append(1)
    assert not any("Warning" in text for text in judged(*weighed[:2])["why"])  # jumbot leaves classes alone


def test_every_method_of_the_list_has_a_page_that_says_so() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs" / "methods"
    for method in module.WHOLE_TARGETS:
        text = (docs / f"{method}.md").read_text(encoding="utf-8").partition("## When not to use it")[2]
        assert any(word in text for word in ("lacks", "missing", "partial", "the classes of the source")), method
