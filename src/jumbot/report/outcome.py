"""What came of a run, for its first sentence: did adaptation help, how good is it, what to look at next."""

from __future__ import annotations

from collections.abc import Mapping

from jumbot.report.presence import warnings_of
from jumbot.report.records import RunRecord, number
from jumbot.report.words import estimated, listed, percent

_NOTICED = 0.05  # a difference of estimates that is no accident of the estimate


def verdict(run: RunRecord) -> str:
    """Did adaptation help, how sure is it, what to look at next: in two or three sentences."""
    if run.final.get("task") == "regression":
        return _numbers(run)
    return " ".join(filter(None, (_helped(run), _how_good(run), _next(run))))


def _numbers(run: RunRecord) -> str:
    """The verdict where numbers are predicted."""
    rmse, r2 = number(run.final.get("rmse")), number(run.final.get("r2"))
    harm = " Adaptation probably did harm, see the warnings." if warnings_of(run) else ""
    if rmse is None:
        return f"How far the predicted numbers are off cannot be told without true ones.{harm}"
    several = run.final.get("per_output") or ()
    if len(several) > 1:
        each = [f"{one.get('name')} by {one['rmse']:.4g}" for one in several]
        return f"The predicted numbers are off, as roots of mean squares: {listed(each)}.{harm}"
    share = "" if r2 is None else f" (R2 {r2:.2f})"
    off = f"The predicted numbers are off by {rmse:.4g}, the root of the mean square{share}"
    return f"{off}, by true ones that training never saw.{harm}"


def _helped(run: RunRecord) -> str:
    """Whether adaptation helped, by labels where there are any."""
    if run.method == "source-only":
        return "Nothing was adapted: this is the classifier of the source, as it is."
    before, beside = baseline_accuracy(run), run.baseline
    if run.accuracy is not None and before is not None:
        change, size = run.accuracy - before, run.final.get("n")
        changed = number(beside.get("changed"))
        # two standard errors of a paired difference: only predictions that changed can make one
        spread = 2 * ((0.5 if changed is None else changed) / size) ** 0.5 if isinstance(size, int) and size else 0.0
        figures = f"{percent(run.accuracy)} instead of {percent(before)} of the predictions are right"
        if abs(change) <= spread:
            return f"Adaptation made no difference that is more than chance: {figures}."
        return f"Adaptation {'helped' if change > 0 else 'did harm'}: {figures}."
    warned = [each for each in warnings_of(run) if each.startswith("negative transfer")]
    if warned:
        return f"Adaptation probably did harm ({len(warned)} sign{'s' * (len(warned) > 1)}, see the warnings)."
    with_, without = _value_of(run.final.get("estimated_accuracy")), _value_of(beside.get("estimated_accuracy"))
    if with_ is None or without is None:
        return "Whether adaptation helped cannot be told without labels."
    if with_ > without + _NOTICED:
        return "Adaptation seems to have helped, as far as can be told without labels."
    if with_ < without - _NOTICED:
        return "Adaptation seems to have done harm, as far as can be told without labels."
    return "Adaptation seems to have changed little, as far as can be told without labels."


def _how_good(run: RunRecord) -> str:
    estimate = run.final.get("estimated_accuracy")
    about = estimated(estimate)
    if run.accuracy is not None:
        alone = "" if baseline_accuracy(run) is not None and run.method != "source-only" else (
            f"{percent(run.accuracy)} of the target predictions are right, by labels that training never saw. "
        )  # fmt: skip
        return alone + (f"Without labels the estimate was {about}." if about else "")
    if about:
        return f"Probably {about} of the target predictions are right."
    why = estimate.get("why") if isinstance(estimate, Mapping) else None
    return f"How many of the predictions are right cannot be told without labels{f': {why}' if why else ''}."


def _next(run: RunRecord) -> str:
    if warnings_of(run):
        return "Next: read the warnings, and the samples that nothing explains."
    if run.accuracy is None:
        return (
            "Next: check a few predictions of each class by eye; a class that is taken for another as a whole, as "
            "where columns or names were exchanged, cannot be seen without labels."
        )
    changed = number(run.baseline.get("changed"))
    if changed:
        return f"Next: look at the samples whose class changed ({percent(changed)} of the target)."
    return "Next: look at the samples that are least explained." if run.samples or run.predictions else ""


def mood(run: RunRecord) -> str:
    """ "good", "bad" or nothing, for the colour beside the verdict."""
    said = _helped(run)
    return "bad" if "harm" in said else "good" if "helped" in said and "cannot" not in said else ""


def _value_of(estimate: object) -> float | None:
    return number(estimate.get("value")) if isinstance(estimate, Mapping) else None


def baseline_accuracy(run: RunRecord) -> float | None:
    """On the same target labels, of the classifier that saw the source alone."""
    found = number(run.baseline.get("accuracy"))
    return run.accuracy_before if found is None else found


def describe_baseline(run: RunRecord) -> str:
    """The classifier that saw the source alone, in a sentence; nothing where the run has none."""
    if run.method == "source-only" or not run.baseline:
        return ""
    accuracy, about = number(run.baseline.get("accuracy")), estimated(run.baseline.get("estimated_accuracy"))
    figures = [] if accuracy is None else [f"{percent(accuracy)} of its predictions are right"]
    figures += [f"without labels {about}"] if about else []
    changed = number(run.baseline.get("changed"))
    figures += [] if changed is None else [f"adaptation changed {percent(changed)} of the predictions"]
    return f"Baseline ({run.baseline.get('what')}): {'; '.join(figures)}."


def evidence(run: RunRecord) -> list[str]:
    """What is known of the predictions, a sentence each, with labels and without."""
    found = []
    if run.accuracy is not None:
        mean = "" if run.mean_class_accuracy is None else f" ({percent(run.mean_class_accuracy)}, mean over classes)"
        found.append(f"Accuracy on target labels that training never saw: {percent(run.accuracy)}{mean}.")
    if baseline := describe_baseline(run):
        found.append(baseline)
    estimate = run.final.get("estimated_accuracy")
    if isinstance(estimate, Mapping):
        found.append(f"Without labels: {estimated(estimate) or 'no estimate'}; {estimate.get('why')}.")
    if (share := number(run.diagnosis.get("unexplained_share"))) is not None:
        found.append(f"Target samples that no source sample explains: {percent(share)}.")
    absent = run.diagnosis.get("absent_classes") or []
    if absent:
        found.append(f"Classes that seem absent from the target: {listed([run.classes[c] for c in absent])}.")
    return found
