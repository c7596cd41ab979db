"""The report's sentences: what was done, what came out, and what each number means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumbot.adaptation.judgement.selection import RULES, SCORES
from jumbot.report.comparison import NONE
from jumbot.report.html import Html, render
from jumbot.report.records import RunRecord

EVALUATION = "evaluation: labels that training never saw"

ORACLE_WARNING = (
    "The labels of the target chose the model (rule “oracle”). Its accuracy is therefore a bound for study: on data "
    "without labels nobody can choose so, and the figure must not be compared with those of other rules."
)

SCORE_TITLES = {
    "entropy": "entropy of the predictions",
    "infomax": "information maximisation",
    "snd": "soft neighbourhood density",
    "smoothness": "smoothness of the predicted numbers",
    "source_validation": "accuracy on held-out source samples",
    "transport": "transport value",
}
SCORE_WORDS = {
    "entropy": (
        "How undecided the model is on target samples. A model that calls everything one class looks perfect here."
    ),
    "infomax": (
        "Decided on each sample, yet using all classes. It is misled where the target's classes are of unequal size."
    ),
    "snd": (
        "How densely target samples that get the same answer sit together. Misled by a model that gives one "
        "answer only."
    ),
    "smoothness": (
        "How far neighbours among the target samples get like numbers (Moran's I). A smooth prediction may be wrong."
    ),
    "source_validation": "Whether the source is still classified well. It says nothing about the target.",
    "transport": "What it costs to carry target samples to source samples. Comparable within one run only.",
}

GLOSSARY = {
    "source, target": "The data with labels that the model learns from, and the data that it shall hold on.",
    "accuracy": (
        "The share of target samples that get the right class. It needs target labels; they are used for this figure "
        "and for nothing else, unless the rule of selection is “oracle”."
    ),
    "seed": (
        "The number from which everything random of a run follows. Several seeds show how much of a difference is "
        "chance."
    ),
    "rule of selection": (
        "Which of the models along the training is kept. “last” takes the last one; the others take the best by a "
        "label-free score; “oracle” looks at the target labels and is a bound, not a result."
    ),
    "transport plan": (
        "For each batch: which source sample is carried to which target sample, and with how much mass."
    ),
}

HOW = {
    "table": (
        "Share of target samples classified rightly, in per cent. Over several seeds: mean ± standard deviation. "
        "The best of a column is bold; differences smaller than the spread mean little."
    ),
    "class_table": (
        "Accuracy of each class first, then the mean over classes: every class counts alike, however rare. Far "
        "below the table above, it says that rare classes are sacrificed to common ones."
    ),
    "accuracy": (
        "Share of target samples classified rightly, measured on the way. Training does not see these labels, nor "
        "does the choice of the model, unless its rule is “oracle”. A curve that rises and then falls for good "
        "tells that adaptation went on too long or hurts."
    ),
    "mass": (
        "How much of a batch the transport plan carries; 100 % is all of it. Unbalanced transport leaves out "
        "samples that match nothing: lower is bolder, near 0 the plan does nothing (raise tau), and exact "
        "transport is always at 100 %. (With the reference “ones” a plan may carry more than 100 %.)"
    ),
    "wrong": (
        "The part of the plan that joins a source sample to a target sample of another class. It teaches the "
        "model wrong labels, so lower is better. It needs target labels, and is measured only."
    ),
    "losses": (
        "What training makes small. “source” is the error on labelled source samples; the others pull the target "
        "towards the source. A term that grows without bound means a learning rate or a weight that is too high."
    ),
    "scores": (
        "What can be measured without any target label. Look for a jump or a reversal where training went wrong; "
        "no single score is proof."
    ),
    "per_class": (
        "One row per class, one dot per method: the share of that class's target samples that are classified rightly."
        " A class far to the left of the others is the one to look at."
    ),
    "confusion": (
        "Row: what the sample is. Column: what the model calls it. Numbers are per cent of the row, so a perfect "
        "model has 100 along the diagonal; a dark cell beside it names two classes that are mixed up."
    ),
    "embedding": (
        "Circles are source samples, crosses target samples{colouring}. Each map is drawn anew (t-SNE): near points "
        "are alike, but the distance between far groups, and turns, mean nothing."
    ),
    "proportions": (
        "Which share of the target each class has. “estimated” comes from the transport plan, in which every "
        "explained sample has one vote; “predicted” counts the model's answers{true}. Where the two disagree, "
        "distrust the predictions of that class."
    ),
    "diagnosis": (
        "Computed without target labels, on the model that was kept. Unexplained: samples that resemble no source"
        " sample. Explained mass: what the target receives, beside what the source receives from itself. "
        "Disagreement: samples that lie among source samples of another class than the predicted one. Above 30 % "
        "unexplained or disagreement, expect predictions worse than without adaptation."
    ),
    "scatter": (
        "Left, a dot per target sample, on the dashed line where its number is predicted rightly; a cloud that lies "
        "flat says that little more than the mean was learned."
    ),
    "spread": (
        "Distributions: the source's numbers, and those predicted for the target. Transport assumes that both are "
        "spread alike; if you expect other numbers in the target than in the source, adaptation pulls them towards "
        "those of the source and does harm."
    ),
    "origins": (
        "How much of a target sample comes from which source, by the transport plan: the mean over all samples, then "
        "over those of each predicted class. A source with a small share lies far from the target, or its labels "
        "contradict what is predicted there. predictions.csv has the shares of each sample."
    ),
    "unexplained": (
        "Target samples to which the plan brought the least mass: no source sample explains them. Look at these "
        "first; they may be of no known class, corrupt, or of a kind that the source lacks. 1 is what a typical "
        "source sample receives from the source; below 0.25 a sample counts as unexplained."
    ),
    "ranks": (
        "Rank 1 is the best method on a task; the dot is the mean over tasks. Methods inside the grey band are so"
        " close to the best that {tasks} tasks cannot tell them apart (Nemenyi's test at 5 %)."
    ),
    "wins": (
        "On how many tasks the method of the row is more accurate than that of the column. Orange: it wins more "
        "often than it loses; blue: the reverse."
    ),
}


def percent(value: float | None) -> str:
    """A share in per cent, one digit.

    >>> percent(0.98249).split()
    ['98.2', '%']
    """
    return NONE if value is None else f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def percent_whole(value: float) -> str:
    """A share in per cent, no digit.

    >>> percent_whole(0.283).split()
    ['28', '%']
    """
    return f"{100 * value:.0f}\N{NO-BREAK SPACE}%"


def listed(names: Sequence[str], most: int = 12) -> str:
    """`a, b and c`; what exceeds `most` is counted.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def describe_run(run: RunRecord) -> Html:
    """One run in a few sentences; which rule chose the model is said always."""
    rule = RULES[run.rule] + ("" if run.results is None else f", step {run.results['selected_step']:,}")
    return render(
        "run.html", run=run, adapted=run.method != "source-only", what=_what(run), rule=rule,
        of_source=f"{run.config['source']['n']:,} ", of_target=f"{run.config['target']['n']:,} ",
        classes=f", {len(run.classes)} classes" if run.classes else "", choices=describe_choice(run),
        outcome=_outcome(run),
    )  # fmt: skip


def describe_choice(run: RunRecord) -> list[str]:
    """What was decided about the settings and why: the words of `jumbot tune`, or what tau came to."""
    if run.why:
        return list(run.why)
    said, tau = [], run.options.get("tau")
    if run.mass is not None and isinstance(tau, int | float):
        said.append(f"tau is {tau:g}: {percent_whole(run.mass)} of the mass moves at the end of training.")
    return said + [f"{each[:1].upper()}{each[1:]}." for each in (run.results or {}).get("decisions", ())]


def estimated(estimate: Mapping[str, Any] | None) -> str:
    """`about 83 % (70 to 96 %)`, or nothing where there is no estimate."""
    if estimate is None or estimate["value"] is None:
        return ""
    low, high = f"{100 * estimate['low']:.0f}", percent_whole(estimate["high"])
    return f"about {percent_whole(estimate['value'])} ({low} to {high})"


def _what(run: RunRecord) -> str:
    return "a predictor of numbers" if run.final.get("task") == "regression" else "a classifier"


def _outcome(run: RunRecord) -> str:
    if run.final.get("task") == "regression":  # the verdict has said it
        return ""
    if run.accuracy is None:
        return (
            "No target labels were given, so the accuracy on the target is not known; the label-free scores and the "
            "warnings below are what there is to go by."
        )
    text = f"On target labels that training never saw, it is right in {percent(run.accuracy)} of the cases"
    if run.mean_class_accuracy is not None:
        text += f" ({percent(run.mean_class_accuracy)} as the mean over classes)"
    before = run.accuracy_before
    if before is not None and run.method != "source-only":
        change = run.accuracy - before
        verb = "up from" if change > 0.0005 else "down from" if change < -0.0005 else "the same as"
        text += f", {verb} {percent(before)} before adaptation"
    return text + "."


def score_title(name: str) -> str:
    """Name and direction of a label-free score."""
    title = SCORE_TITLES.get(name, name.replace("_", " "))
    if name not in SCORES:
        return title
    return f"{title} ({'higher' if SCORES[name].higher_is_better else 'lower'} is better)"
