"""Which candidate is picked, and in which words: leads that decide nothing, and picks that are advised against."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jumbot.adaptation import _verdict as module
from jumbot.adaptation._evaluation.modularity import Evidence
from jumbot.adaptation._evaluation.regression import NumberEvidence
from jumbot.adaptation._search import Weighed
from jumbot.adaptation._verdict import TIE, verdict


def candidate(method: str, value: float, numbers: bool = False, gain: float = 0.0) -> Weighed:
    """With that evidence; `gain` is what every sample adds to the modularity, so that a larger one is sure."""
    evidence: Any = NumberEvidence(value, 0.0, 0.0)
    if not numbers:
        evidence = Evidence(value - 0.5, 0.5, 0.0, 0.0, 0.0, np.full(50, gain))
    run: Any = SimpleNamespace(variant=SimpleNamespace(label=method, method=method, changes={}), folder=Path(method))
    return Weighed(run, True, evidence)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Classes that seem absent, of every run."""
    found: list[int] = []
    monkeypatch.setattr(module, "read_results", lambda folder: {"diagnosis": {"absent_classes": found}})
    monkeypatch.setattr(
        Weighed,
        "row",
        lambda self, folder: {
            "candidate": self.run.variant.label,
            "method": self.run.variant.method,
            "settings": {},
            "whole": True,
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
@pytest.mark.parametrize("lead", [-0.001, 0.001])
def test_a_lead_of_a_thousandth_is_a_tie_and_the_default_is_kept(absent: list[int], lead: float, numbers: bool) -> None:
    found = judged(candidate("source-only", 0.8 + lead, numbers, gain=1.0), candidate("jumbot", 0.8, numbers))
    assert found["picked"] == "jumbot"
    assert found["why"][0].startswith("A tie: jumbot has 0.800")
    assert f"source-only {abs(lead):.3f} {'more' if lead > 0 else 'less'}" in found["why"][0]
    assert "was kept" in found["why"][0]


def test_another_method_in_a_tie_does_not_win_by_being_sure(absent: list[int]) -> None:
    weighed = candidate("source-only", 0.6), candidate("jumbot", 0.8), candidate("mcc", 0.801, gain=1.0)
    assert judged(*weighed)["picked"] == "jumbot"


@pytest.mark.parametrize("numbers", [False, True])
def test_a_larger_lead_decides(absent: list[int], numbers: bool) -> None:
    assert TIE < 0.005
    found = judged(candidate("source-only", 0.805, numbers), candidate("jumbot", 0.8, numbers))
    assert found["picked"] == "source-only"
    assert "tie" not in " ".join(found["why"]).lower()


@pytest.mark.parametrize("missing", [[], [3], [3, 4]])
def test_a_pick_that_is_advised_against_says_so(absent: list[int], missing: list[int]) -> None:
    absent += missing
    weighed = candidate("source-only", 0.6), candidate("jumbot", 0.7), candidate("mcc", 0.9, gain=1.0)
    found = judged(*weighed)
    assert found["picked"] == "mcc"
    said = [text for text in found["why"] if text.startswith("Warning: ")]
    assert len(said) == bool(missing)
    if missing:
        assert ("A source class seems" if len(missing) == 1 else "2 source classes seem") in said[0]
        assert "mcc is advised against" in said[0]
    absent.clear()
    absent.append(1)
    assert not any("Warning" in text for text in judged(*weighed[:2])["why"])  # jumbot leaves classes alone


def test_every_method_of_the_list_has_a_page_that_says_so() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs" / "methods"
    for method in module.WHOLE_TARGETS:
        text = (docs / f"{method}.md").read_text(encoding="utf-8").partition("## When not to use it")[2]
        assert any(word in text for word in ("lacks", "missing", "partial", "the classes of the source")), method
