"""Which candidate `jumbot.tune` picks, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumbot.adaptation._evaluation.modularity import Evidence
from jumbot.adaptation._evaluation.regression import UNKNOWN, NumberEvidence
from jumbot.adaptation._runs.folder import read_results
from jumbot.adaptation._search import Search, Weighed
from jumbot.methods import SOURCE_ONLY

TIE = 0.002
"""A lead in evidence that decides nothing: another seed changes it by more."""
WHOLE_TARGETS = ("alda", "cdan-e", "dann", "deepjdot", "mcc", "rot")
"""Methods whose pages advise against them where the target lacks classes of the source."""


def verdict(search: Search, weighed: Sequence[Weighed]) -> dict[str, Any]:
    """The picked candidate, why it was, and all of them, best first; only whole runs can be picked.

    Of classes, the recipe's JUMBOT is kept, or source-only where that has more evidence, unless another candidate has
    more and surely respects the neighbourhoods of the target better; of several such the largest evidence wins.  Of
    numbers it wins in any case.  A lead of no more than `TIE` over the recipe's JUMBOT is a tie, which that wins.

    Where numbers are predicted and source-only predicts others than the source's, it is picked: see `UNKNOWN`.
    """
    whole = [each for each in weighed if each.whole]
    best = _best(whole, search.variants[1].label)
    unknown = next((each for each in whole if _is_unknown(each)), None)
    chosen = best if unknown is None else unknown
    rows = {each.run.variant.label: each.row(search.out) for each in weighed}
    picked = rows.pop(chosen.run.variant.label)
    rest = sorted(rows.values(), key=lambda row: (not row["whole"], -row["evidence"]))
    trained = {picked["candidate"], *rows}
    not_tried = [v.label for v in search.variants if v.label not in trained and v.label not in search.failed]
    said = [_cannot_know(chosen, rest)] if unknown is not None else _why(chosen, picked, rest, search.variants[1].label)
    return {
        "rule": chosen.evidence.rule,
        "picked": picked["candidate"],
        "default": search.variants[1].label,
        "steps": search.steps[1],
        "why": said
        + [f"Warning: {text}" for text in advised_against(chosen)]
        + _the_rest(picked, rest, search, not_tried),
        "candidates": [picked, *rest],
        "failed": search.failed,
        "not_tried": not_tried,
    }


def _best(whole: Sequence[Weighed], default: str) -> Weighed:
    """Of those in a tie the default; of equal ones the first, so that source-only is taken where nothing differs."""
    best = _largest(whole, default)
    usual = next((each for each in whole if each.run.variant.label == default), best)
    return usual if 0 < best.evidence.value - usual.evidence.value <= TIE else best


def _largest(whole: Sequence[Weighed], default: str) -> Weighed:
    """Of equal ones the first."""
    found = {each.run.variant.label: (each, each.evidence) for each in whole if isinstance(each.evidence, Evidence)}
    if default not in found or SOURCE_ONLY not in found:
        return max(whole, key=lambda each: each.evidence.value)
    kept, evidence = max(found[SOURCE_ONLY], found[default], key=lambda one: one[1].value)
    beyond = [each for each, own in found.values() if own.value > evidence.value and own.surely_beyond(evidence)]
    return max(beyond, key=lambda each: each.evidence.value, default=kept)


def _is_unknown(each: Weighed) -> bool:
    numbers = isinstance(each.evidence, NumberEvidence) and each.evidence.gap > UNKNOWN
    return numbers and each.run.variant.method == SOURCE_ONLY


def _cannot_know(chosen: Weighed, rest: Sequence[Mapping[str, Any]]) -> str:
    assert isinstance(chosen.evidence, NumberEvidence)
    whole = [row for row in rest if row["whole"]]
    best = f"; of the candidates that adapt, {whole[0]['candidate']} has the largest evidence" if whole else ""
    return (
        "Whether to adapt cannot be told without labels, so it was not done: source-only predicts numbers that lie "
        f"{chosen.evidence.gap:.2f} deviations from the source's. Either the target's numbers do differ, and then "
        "adaptation, which pulls them together, does harm; or its inputs were moved, and then it helps. If you know "
        f"that both domains have the same numbers, take another candidate{best}."
    )


def _why(chosen: Weighed, picked: Mapping[str, Any], rest: Sequence[Mapping[str, Any]], default: str) -> list[str]:
    """Why this one."""
    whole = [row for row in rest if row["whole"]]
    own = chosen.evidence.words()
    name, alone = picked["candidate"], picked["candidate"] == SOURCE_ONLY
    ahead = [row for row in whole if row["evidence"] > picked["evidence"]]
    near = max((row["evidence"] - picked["evidence"] for row in whole), default=-1.0)
    if name == default and abs(near) <= TIE:
        other = max(whole, key=lambda row: row["evidence"])["candidate"]
        ahead, tie = [], f"A tie: {name} has {own}, {other} {abs(near):.3f} {'more' if near > 0 else 'less'}."
    else:
        tie = ""
    more = f"{ahead[0]['candidate']}, with {ahead[0]['evidence']:.3f}," if ahead else ""
    if tie:
        said = [f"{tie} {name}, what the recipe takes, was kept."]
    elif more and alone:
        said = [f"Adaptation was not used: source-only has {own}, and {more} has not surely a larger modularity."]
    elif more and name == default:
        said = [f"{name}, what the recipe takes, was kept: it has {own}, and {more} not surely a larger modularity."]
    elif more:
        kept = next(row["candidate"] for row in whole if row["candidate"] in (default, SOURCE_ONLY))
        said = [f"{name} was chosen: it has {own} and surely a larger modularity than {kept}; {more} has not."]
    elif alone:
        beaten = f"; the best that adapts, {whole[0]['candidate']}, has {whole[0]['evidence']:.3f}" if whole else ""
        said = [f"Adaptation was not used: source-only has the largest evidence, {own}{beaten}."]
    else:
        next_one = f"; the next is {whole[0]['candidate']} with {whole[0]['evidence']:.3f}" if whole else ""
        said = [f"{name} was chosen: its evidence is the largest, {own}{next_one}."]
    if not alone:
        without = next((row for row in whole if row["candidate"] == SOURCE_ONLY), None)
        if without is not None and without is not whole[0]:
            said.append(f"Without adaptation, source-only has {without['evidence']:.3f}.")
        if picked["mass"] is not None and "tau" in picked["settings"]:
            said.append(f"tau is {picked['settings']['tau']:g}: {100 * picked['mass']:.0f} % of the mass moves.")
        if isinstance(chosen.evidence, NumberEvidence):
            said.append("That holds if the numbers of both domains are spread alike, which nothing here can tell.")
    return said


def advised_against(chosen: Weighed) -> list[str]:
    """A warning where the pages of the methods advise against the picked one: classes seem absent from the target."""
    method = chosen.run.variant.method
    results = read_results(chosen.run.folder) or {}
    absent = results.get("diagnosis", {}).get("absent_classes") or []
    if method not in WHOLE_TARGETS or not absent:
        return []
    what = "A source class seems" if len(absent) == 1 else f"{len(absent)} source classes seem"
    return [
        f"{what} absent from the target, and {method} is advised against there: it finds samples for every "
        f"class. Look at the predictions of {'that class' if len(absent) == 1 else 'those classes'}, or take jumbot."
    ]


def _the_rest(
    picked: Mapping[str, Any], rest: Sequence[Mapping[str, Any]], search: Search, not_tried: Sequence[str]
) -> list[str]:
    """What was stopped, not tried, or failed, and which part labels had."""
    said = []
    stopped = [row["candidate"] for row in rest if not row["whole"]]
    if stopped:
        said.append(f"{len(stopped)} of {len(rest) + 1} candidates were stopped at a third of the steps.")
    if not_tried:
        said.append(f"Not tried, because the time was up: {', '.join(not_tried)}.")
    said += [f"{name} failed: {reason}" for name, reason in search.failed.items()]
    known = [name for name in ("accuracy", "rmse") if picked.get(f"{name}_not_used") is not None]
    figures = {"accuracy": "accuracies", "rmse": "errors"}
    if known:
        return [*said, f"Labels of the target gave {figures[known[0]]}, and decided nothing."]
    return [*said, "No target label was used."]
