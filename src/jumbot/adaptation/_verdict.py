"""Which candidate `jumbot.tune` chooses, and the sentences that explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot.adaptation._evaluation.decision import decide
from jumbot.adaptation._evaluation.measures import UNKNOWN, NumberEvidence
from jumbot.adaptation._evaluation.modularity import Evidence
from jumbot.adaptation._runs.folder import CUT, read_results
from jumbot.adaptation._search import Search, Weighed
from jumbot.methods import SOURCE_ONLY

TIE = 0.002
"""A lead in score that is not significant: another seed changes it by more."""
RULE = (
    "source-only or the recipe's JUMBOT by the rule of harm, as in jumbot.adapt, unless another that passes it has "
    "a higher score and, for classes, a significantly larger modularity"
)
WHOLE_TARGETS = ("alda", "cdan-e", "dann", "deepjdot", "mcc", "rot")
"""Methods that are not recommended if the target lacks classes of the source."""


def verdict(search: Search, weighed: Sequence[Weighed]) -> dict[str, Any]:
    """The picked candidate, the reasons, and all candidates, best first; only full runs can be picked.

    The rule of harm of `decision` chooses between source-only and the recipe's JUMBOT, as in `jumbot.adapt`.  Another
    candidate replaces the chosen one if that rule prefers it to source-only, it has a higher score, by more than `TIE`,
    and for classes a significantly larger modularity; of several such candidates the one with the highest score is
    picked.

    If source-only predicts numbers that differ from the source's, it is picked: see `UNKNOWN`.
    """
    default = search.variants[1].label
    whole = {each.run.variant.label: each for each in weighed if each.whole}
    chosen, reasons = _pick(whole, default)
    unknown = next((each for each in whole.values() if _is_unknown(each)), None)
    if unknown is not None:
        chosen, reasons = unknown, []
    rows = {each.run.variant.label: each.row(search.out) for each in weighed}
    picked = rows.pop(chosen.run.variant.label)
    rest = sorted(rows.values(), key=lambda row: (not row["whole"], -row["evidence"]))
    trained = {picked["candidate"], *rows}
    not_tried = [v.label for v in search.variants if v.label not in trained and v.label not in search.failed]
    reasons = [_cannot_know(chosen, rest)] if unknown is not None else [*reasons, *_more(chosen, picked)]
    return {
        "rule": RULE,
        "picked": picked["candidate"],
        "default": default,
        "steps": search.steps[1],
        "why": reasons
        + [f"Warning: {text}" for text in advised_against(chosen)]
        + _the_rest(picked, rest, search, not_tried),
        "candidates": [picked, *rest],
        "failed": search.failed,
        "not_tried": not_tried,
    }


def _pick(whole: Mapping[str, Weighed], default: str) -> tuple[Weighed, list[str]]:
    """The picked candidate, and why."""
    usual, alone = whole.get(default), whole.get(SOURCE_ONLY)
    if usual is None or alone is None:  # one of the two failed, so there is no comparison
        only = usual or alone or max(whole.values(), key=lambda each: each.evidence.value)
        missing = default if usual is None else SOURCE_ONLY
        return only, [f"{_name(only)} was kept: {missing} could not be trained, so there was no comparison."]
    if usual.harm is None:
        return alone, [f"{SOURCE_ONLY} was chosen: the source has too few samples to hold some out."]
    decision = decide(usual.harm, default)
    kept = usual if decision.method == default else alone
    higher = [
        each
        for each in whole.values()
        if each.harm is not None and each.harm.helps and each.evidence.value > kept.evidence.value
    ]
    beyond = kept.evidence.value + TIE
    sure = [each for each in higher if each.evidence.value > beyond and _surely_beyond(each, kept)]
    reasons = [_capital(decision.why)]
    if not sure:
        if higher:
            best = max(higher, key=lambda each: each.evidence.value)
            but = f"by at most {TIE:g}, which is a tie"
            if best.evidence.value > beyond:
                but = "but not a significantly larger modularity"
            reasons.append(
                f"{_name(best)} has a higher score, {best.evidence.words()}, than {_name(kept)}, "
                f"{kept.evidence.words()}, {but}, so it was not chosen."
            )
        return kept, reasons
    best = max(sure, key=lambda each: each.evidence.value)
    surely = " and a significantly larger modularity" if isinstance(best.evidence, Evidence) else ""
    reasons.append(
        f"{_name(best)} was chosen over {_name(kept)}: its score is higher, {best.evidence.words()} against "
        f"{kept.evidence.words()}{surely}, with no sign of harm compared with {SOURCE_ONLY}."
    )
    return best, reasons


def _surely_beyond(each: Weighed, kept: Weighed) -> bool:
    """Numbers have no modularity: only their score counts."""
    if not isinstance(each.evidence, Evidence) or not isinstance(kept.evidence, Evidence):
        return True
    return each.evidence.surely_beyond(kept.evidence)


def _name(each: Weighed) -> str:
    return each.run.variant.label


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _is_unknown(each: Weighed) -> bool:
    numbers = isinstance(each.evidence, NumberEvidence) and each.evidence.gap > UNKNOWN
    return numbers and each.run.variant.method == SOURCE_ONLY


def _cannot_know(chosen: Weighed, rest: Sequence[Mapping[str, Any]]) -> str:
    assert isinstance(chosen.evidence, NumberEvidence)
    whole = [row for row in rest if row["whole"]]
    best = f"; of the candidates that adapt, {whole[0]['candidate']} has the highest score" if whole else ""
    return (
        "Whether adaptation helps cannot be determined without labels, so the model was not adapted: source-only "
        f"predicts numbers that differ from the source's by {chosen.evidence.gap:.2f} standard deviations. If the "
        "target's numbers do differ, adaptation does harm; if its inputs have moved, adaptation helps. If you know "
        f"that both domains have the same numbers, use another candidate{best}."
    )


def _more(chosen: Weighed, picked: Mapping[str, Any]) -> list[str]:
    """Further remarks on a candidate that adapts."""
    reasons: list[str] = []
    if chosen.run.variant.method == SOURCE_ONLY:
        return reasons
    if picked["mass"] is not None and "tau" in picked["settings"]:
        reasons.append(f"tau is {picked['settings']['tau']:g}: {100 * picked['mass']:.0f} % of the mass moves.")
    if isinstance(chosen.evidence, NumberEvidence):
        reasons.append(
            "This assumes that the numbers have the same distribution in both domains, which cannot be checked here."
        )
    return reasons


def advised_against(chosen: Weighed) -> list[str]:
    """A warning if the picked method is not recommended because classes seem absent from the target."""
    method = chosen.run.variant.method
    results = read_results(chosen.run.folder)
    absent = () if results is None else results.diagnosis.absent_classes
    if method not in WHOLE_TARGETS or not absent:
        return []
    what = "A source class seems" if len(absent) == 1 else f"{len(absent)} source classes seem"
    return [
        f"{what} absent from the target, and {method} is not recommended then, because it finds samples for every "
        f"class. Check the predictions of {'that class' if len(absent) == 1 else 'those classes'}, or use jumbot."
    ]


def _is_cut(folder: Path) -> bool:
    results = read_results(folder)
    return results is not None and any(remark.startswith(CUT) for remark in results.remarks)


def _the_rest(
    picked: Mapping[str, Any], rest: Sequence[Mapping[str, Any]], search: Search, not_tried: Sequence[str]
) -> list[str]:
    """What was stopped, not tried, or failed, and whether labels were used."""
    reasons = []
    stopped = [row["candidate"] for row in rest if not row["whole"]]
    if stopped:
        reasons.append(f"{len(stopped)} of {len(rest) + 1} candidates were stopped at a third of the steps.")
    cut = [row["candidate"] for row in (picked, *rest) if _is_cut(search.out / row["folder"])]
    if cut:
        reasons.append(f"Cut short, because the time budget is small: {', '.join(cut)}.")
    if not_tried:
        reasons.append(f"Not tried, because the time budget ended: {', '.join(not_tried)}.")
    reasons += [f"{name} failed: {reason}" for name, reason in search.failed.items()]
    known = [name for name in ("accuracy", "rmse") if picked.get(f"{name}_not_used") is not None]
    figures = {"accuracy": "accuracies", "rmse": "errors"}
    if known:
        return [*reasons, f"Target labels gave {figures[known[0]]}, but were not used."]
    return [*reasons, "No target label was used."]
