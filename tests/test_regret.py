"""The table of regrets: what each rule picks, on records made by hand."""

from __future__ import annotations

from typing import Any

from benchmarks.regret import judged, rows_of


def row(candidate: str, accuracy: float, evidence: float, entropy: float) -> dict[str, Any]:
    others = dict.fromkeys(("modularity", "agreement", "infomax", "snd", "proportions_distance"), 0.0)
    return {"candidate": candidate, "accuracy_not_used": accuracy, "evidence": evidence, "entropy": entropy, **others}


def test_rules_are_judged_by_the_accuracy_of_their_pick() -> None:
    candidates = [row("jumbot", 0.8, 1.5, 0.3), row("source-only", 0.7, 1.2, 0.2), row("mcc", 0.9, 1.4, 0.1)]
    record = {"candidates": candidates, "picked": "jumbot", "default": "jumbot"}
    found = judged(record, {"picked": "mcc"})
    assert found["tune"] == found["evidence"] == found["default"] == 0.8
    assert found["entropy"] == found["evidence, stopped early"] == found["best"] == 0.9
    assert found["source-only"] == 0.7
    rows = {each["rule"]: list(each.values())[1:] for each in rows_of([found, found | {"evidence": 0.6}])}
    assert rows["evidence"] == ["70.0", "-20.0", "-10.0", "+0.0", "-10.0"]
