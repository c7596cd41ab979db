"""The outcome of a run, for its first sentence: did adaptation help, how good is it, what to look at next."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumbot.adaptation._evaluation.decision import FEW, Harm
from jumbot.adaptation._evaluation.diagnosis import one_class
from jumbot.adaptation._runs.folder import LITTLE
from jumbot.methods import SOURCE_ONLY
from jumbot.report._presence import HARM, absent_classes, baseline_accuracy, data_remarks, unchanged, warnings_of
from jumbot.report._records import RunRecord, number
from jumbot.report._words import capital, estimated, listed, percent, percent_whole


@dataclass(frozen=True)
class Mark:
    """A share with its interval on a line; places are in per cent of the line."""

    name: str
    text: str
    low: float
    at: float
    width: float


@dataclass(frozen=True)
class Answer:
    """The first box of a report: `mood` is its colour, `place` where the link of `next` leads."""

    helped: str
    mood: str
    sure: str = ""
    next: str = ""
    place: str = ""
    marks: Sequence[Mark] = ()
    ends: tuple[str, str] = ("", "")
    reference: str = ""


def answer(run: RunRecord) -> Answer:
    """Did adaptation help, how sure is it, what to look at next."""
    if run.final.get("task") == "regression":
        return Answer(_numbers(run), _helped(run)[1], reference=_reference(run))
    place = "predictions" if run.accuracy is None or not run.samples else "samples"
    place = "data" if data_remarks(run) else "warnings" if warnings_of(run) else place
    then = capital(_next(run)) if place in ("data", "warnings") or run.samples or run.predictions else ""
    marks, ends = _marks(run)
    return Answer(*_helped(run), _how_good(run), then, place, marks, ends, _reference(run))


def _reference(run: RunRecord) -> str:
    return capital(" ".join(describe_references(run)).removeprefix("For reference, "))


def verdict(run: RunRecord) -> str:
    """The answer in two or three sentences."""
    if run.final.get("task") == "regression":
        return _numbers(run)
    then = _next(run)
    return " ".join(filter(None, (_helped(run)[0], _how_good(run), f"Next: {then}" if then else "")))


def _marks(run: RunRecord) -> tuple[list[Mark], tuple[str, str]]:
    """Shares of correct predictions, the baseline's first: measured with labels, or estimated without."""
    found: list[tuple[str, float, float, float]] = []
    alone = () if run.method == SOURCE_ONLY else (("source-only baseline of this run", run.baseline),)
    for name, evaluated in (*alone, (run.method, run.final)):
        value = run.accuracy and (baseline_accuracy(run) if evaluated is run.baseline else run.accuracy)
        size = run.final.get("n")
        if value is not None:
            spread = 2 * (value * (1 - value) / size) ** 0.5 if size else 0.0
            found.append((name, value, max(value - spread, 0.0), min(value + spread, 1.0)))
        elif (
            run.accuracy is None and (estimate := evaluated.get("estimated_accuracy")) and estimate["value"] is not None
        ):
            found.append((name, estimate["value"], estimate["low"], estimate["high"]))
    if not found:
        return [], ("", "")
    return marks_of(found, percent if run.accuracy is not None else lambda value: f"about {percent_whole(value)}")


def marks_of(
    found: Sequence[tuple[str, float, float, float]], written: Callable[[float], str]
) -> tuple[list[Mark], tuple[str, str]]:
    """(name, share, low, high) on one line up to 100 %, and what its ends are."""
    start = max(math.floor(10 * min(low for _, _, low, _ in found) - 0.5), 0) / 10
    marks = [
        Mark(
            name,
            written(value),
            _place(low, start),
            _place(value, start),
            round(max(_place(high, start) - _place(low, start), 0.0), 1),
        )
        for name, value, low, high in found
    ]
    return marks, (percent_whole(start), percent_whole(1.0))


def _place(value: float, start: float) -> float:
    return round(100 * (value - start) / (1 - start), 1)


def _numbers(run: RunRecord) -> str:
    """The summary for predicted numbers."""
    rmse, r2 = run.final.get("rmse"), number(run.final.get("r2"))
    harm = " Adaptation probably did harm, see the warnings." if _harmful(run) else ""
    if rmse is None:
        return f"The error of the predicted numbers cannot be determined without true numbers.{harm}"
    several = run.final.get("per_output") or ()
    if len(several) > 1:
        each = [f"{one.get('name')} by {one['rmse']:.4g}" for one in several]
        return f"Root mean squared errors of the predicted numbers: {listed(each)}.{harm}"
    share = "" if r2 is None else f" (R2 {r2:.2f})"
    off = f"The root mean squared error of the predicted numbers is {rmse:.4g}{share}"
    return f"{off}, measured with true numbers that training never saw.{harm}"


def _helped(run: RunRecord) -> tuple[str, str]:
    """Whether adaptation helped, by labels where there are any; and "good", "bad" or nothing, for the colour of it."""
    decision = run.final.get("decision") or {}
    if run.method == SOURCE_ONLY:
        why = "" if decision.get("asked", True) else f" {capital(decision['why'])}"
        return f"Not adapted: this classifier was trained on the source alone.{why}", ""
    before = baseline_accuracy(run)
    if run.accuracy is not None and before is not None:
        change, spread = run.accuracy - before, _chance(run)
        figures = f"{percent(run.accuracy)} instead of {percent(before)} of the predictions are right"
        if abs(change) <= spread:
            return f"Adaptation made no significant difference: {figures}.", ""
        if change > 0 and (mean := run.mean_class_accuracy) is not None and _one_class(run):
            by = "Adaptation raised the accuracy by predicting nearly everything as one class"
            return f"{by}: {figures}; the mean over classes is {percent(mean)}.", ""
        what, mood = ("helped", "good") if change > 0 else ("did harm", "bad")
        return f"Adaptation {what}: {figures}.", mood
    if unchanged(run):
        return "Adaptation changed none of the predictions of source-only.", ""
    if warned := _harmful(run):
        signs = f"{len(warned)} sign{'s' * (len(warned) > 1)}, see the warnings"
        return f"Adaptation probably did harm ({signs}).", "bad"
    harm = decision.get("harm")
    if run.accuracy is not None:  # labels that have nothing to be compared with
        return "Whether adaptation helped cannot be determined without a source-only baseline.", ""
    if harm is None:
        return "Whether adaptation helped cannot be determined without labels.", ""
    if harm["changed"] < FEW:
        return "Adaptation changed hardly any prediction.", ""
    if Harm(**harm).helps and not _unsure(run):
        return "Adaptation seems to have helped (judged without labels).", "good"
    return "Whether adaptation helped cannot be determined without labels; there is no sign of harm.", ""


def _one_class(run: RunRecord) -> bool:
    """Whether nearly one class is predicted where the labels have several."""
    counts = run.confusion
    return counts is not None and bool(one_class(counts.sum(0) / counts.sum(), counts.sum(1) / counts.sum()))


def _harmful(run: RunRecord) -> list[str]:
    """The warnings that indicate harm."""
    return [each for each in warnings_of(run) if each.startswith(HARM)]


def _unsure(run: RunRecord) -> bool:
    """Whether figures in favour of adaptation are meaningless: no accuracy can be estimated, or no mass was moved."""
    estimate = run.final.get("estimated_accuracy")
    return (estimate is not None and estimate["value"] is None) or (run.mass is not None and run.mass < LITTLE)


def _chance(run: RunRecord) -> float:
    """Two standard errors of the paired difference to the baseline: only predictions that changed can make one."""
    changed, size = run.baseline.get("changed", 0.5), run.final.get("n")
    return float(2 * (changed / size) ** 0.5) if size else 0.0


def _by_labels(run: RunRecord) -> str:
    size = run.final.get("n")
    if not size:
        return "Measured with labels that training never saw."
    return (
        f"Measured with {size:,} labels that training never saw; a difference of less than {100 * _chance(run):.1f} "
        "points may be due to chance."
    )


def _how_good(run: RunRecord) -> str:
    estimate = run.final.get("estimated_accuracy")
    about = estimated(estimate)
    if run.accuracy is not None:
        alone = (
            _by_labels(run)
            if baseline_accuracy(run) is not None and run.method != SOURCE_ONLY
            else (f"{percent(run.accuracy)} of the target predictions are right, by labels that training never saw.")
        )
        return " ".join(filter(None, [alone, f"Without labels the estimate was {about}." if about else ""]))
    if estimate and about and run.classes and estimate["value"] < 1 / len(run.classes):
        return (
            "How many of the predictions are right cannot be determined without labels: the estimate, "
            f"{about.removeprefix('about ')}, is below chance level."
        )
    if about:
        return f"Probably {about} of the target predictions are right."
    why = f": {estimate['why']}" if estimate else ""
    return f"How many of the predictions are right cannot be determined without labels{why}."


def _next(run: RunRecord) -> str:
    """What to do or to look at now, as the end of a sentence."""
    if data_remarks(run):
        return "fix the problems in the data listed above, and adapt again; the figures below may be meaningless."
    if warnings_of(run):
        return "read the warnings, and look at the unexplained samples."
    if run.accuracy is None:
        return (
            "check a few predictions of each class by eye; two classes that are swapped as a whole, for "
            "example because names were exchanged, cannot be detected without labels."
        )
    if changed := run.baseline.get("changed"):
        return f"look at the samples whose class changed ({percent(changed)} of the target)."
    return "look at the samples that are least explained." if run.samples or run.predictions else ""


def describe_baseline(run: RunRecord) -> str:
    """The source-only baseline in a sentence; nothing if the run has none."""
    if run.method == SOURCE_ONLY or not run.baseline:
        return ""
    accuracy, about = run.baseline.get("accuracy"), estimated(run.baseline["estimated_accuracy"])
    figures = [] if accuracy is None else [f"{percent(accuracy)} of its predictions are right"]
    figures += [f"without labels {about}"] if about else []
    figures.append(f"adaptation changed {percent(run.baseline['changed'])} of the predictions")
    return f"Baseline ({run.baseline['what']}): {'; '.join(figures)}."


def describe_references(run: RunRecord) -> list[str]:
    """The figures of plain models trained on the source alone, and a sentence if one is clearly ahead."""
    found = run.final.get("references")
    if not found:
        return []
    accuracy = found["measure"] == "accuracy"

    def figure(one: Mapping[str, Any]) -> str:
        return percent(one["held_out"]) if accuracy else f"R2 {one['held_out']:.2f}"

    each = []
    for one in found["models"]:
        about = estimated(one["estimated_accuracy"])
        there = f", {about} on the target, estimated without labels" if about else ""
        each.append(f"{one['name']} {figure(one)}{there}")
    sentences = [
        f"For reference, on {found['n']:,} held-out source samples: {run.method} {figure(found)}; {'; '.join(each)}."
    ]
    own = (run.final.get("estimated_accuracy") or {}).get("value")
    for one in found["models"]:
        if not one["ahead"]:
            continue
        value = (one["estimated_accuracy"] or {}).get("value")
        there = "whether it is also ahead on the target cannot be determined without labels"
        if own is not None and value is not None:
            too = "also" if value > own else "not"
            there = f"by the estimate, it is {too} ahead on the target"
        figures = f"{figure(one)} against {figure(found)}"
        sentences.append(f"The model of {one['name']} is clearly ahead on the source ({figures}); {there}.")
    return sentences


def evidence(run: RunRecord) -> list[str]:
    """What is known about the predictions, one sentence each, with labels and without."""
    found = []
    if run.accuracy is not None:
        mean = "" if run.mean_class_accuracy is None else f" ({percent(run.mean_class_accuracy)}, mean over classes)"
        found.append(f"Accuracy on target labels that training never saw: {percent(run.accuracy)}{mean}.")
    if baseline := describe_baseline(run):
        found.append(baseline)
    if estimate := run.final.get("estimated_accuracy"):
        found.append(f"Without labels: {estimated(estimate) or 'no estimate'}; {estimate['why']}.")
    found += describe_references(run)
    if run.diagnosis:
        share = percent(run.diagnosis["unexplained_share"])
        found.append(f"Target samples that no source sample explains: {share}.")
    if absent := absent_classes(run):
        found.append(f"Classes that seem absent from the target: {listed(absent)}.")
    return found
