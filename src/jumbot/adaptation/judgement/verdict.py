"""Which candidate `jumbot.tune` picks, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumbot.adaptation.judgement.candidates import SOURCE_ONLY
from jumbot.adaptation.judgement.search import Search, Weighed


def verdict(search: Search, weighed: Sequence[Weighed]) -> dict[str, Any]:
    """The picked candidate, why it was, and all of them, best first; only whole runs can be picked."""
    rows = [each.row(search.out) for each in weighed]
    whole = [row for row in rows if row["whole"]]
    picked = max(whole, key=lambda row: row["evidence"])  # the first of equal ones
    rest = sorted((row for row in rows if row is not picked), key=lambda row: (not row["whole"], -row["evidence"]))
    trained = {row["candidate"] for row in rows}
    not_tried = [v.label for v in search.variants if v.label not in trained and v.label not in search.failed]
    return {
        "rule": "the largest evidence = modularity + agreement",
        "picked": picked["candidate"],
        "default": search.variants[1].label,
        "steps": search.steps[1],
        "why": sentences(picked, rest, search, not_tried),
        "candidates": [picked, *rest],
        "failed": search.failed,
        "not_tried": not_tried,
    }


def sentences(
    picked: Mapping[str, Any], rest: Sequence[Mapping[str, Any]], search: Search, not_tried: Sequence[str]
) -> list[str]:
    """What was decided and why."""
    whole = [row for row in rest if row["whole"]]
    own = f"{picked['evidence']:.3f} (modularity {picked['modularity']:.3f} + agreement {picked['agreement']:.3f})"
    said = []
    if picked["candidate"] == SOURCE_ONLY:
        beaten = f"; the best that adapts, {whole[0]['candidate']}, has {whole[0]['evidence']:.3f}" if whole else ""
        said.append(f"Adaptation was not used: source-only has the largest evidence, {own}{beaten}.")
    else:
        next_one = f"; the next is {whole[0]['candidate']} with {whole[0]['evidence']:.3f}" if whole else ""
        said.append(f"{picked['candidate']} was chosen: its evidence is the largest, {own}{next_one}.")
        without = next((row for row in whole if row["candidate"] == SOURCE_ONLY), None)
        if without is not None and without is not whole[0]:
            said.append(f"Without adaptation, source-only has {without['evidence']:.3f}.")
        if picked["mass"] is not None and "tau" in picked["settings"]:
            said.append(f"tau is {picked['settings']['tau']:g}: {100 * picked['mass']:.0f} % of the mass moves.")
    stopped = [row["candidate"] for row in rest if not row["whole"]]
    if stopped:
        said.append(f"{len(stopped)} of {len(rest) + 1} candidates were stopped at a third of the steps.")
    if not_tried:
        said.append(f"Not tried, because the time was up: {', '.join(not_tried)}.")
    said += [f"{name} failed: {reason}" for name, reason in search.failed.items()]
    known = picked["accuracy_not_used"] is not None
    said.append("Labels of the target gave accuracies, and decided nothing." if known else "No target label was used.")
    return said
