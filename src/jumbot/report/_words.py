"""The report's sentences: what was done, the results, and what each number means."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jumbot.adaptation._evaluation.selection import RULES, SCORES
from jumbot.methods import SOURCE_ONLY
from jumbot.report._comparison import NONE
from jumbot.report._page import Html, render
from jumbot.report._records import RunRecord

EVALUATION = "evaluation: labels that training never saw"

ORACLE_WARNING = (
    "The model was chosen with target labels (rule 'oracle'). Its accuracy is therefore only an upper bound: "
    "it cannot be reached without labels and must not be compared with that of other rules."
)


def _texts() -> dict[str, dict[str, str]]:
    tables = tomllib.loads(files("jumbot.report").joinpath("words.toml").read_text(encoding="utf-8"))
    return {table: {name: " ".join(text.split()) for name, text in texts.items()} for table, texts in tables.items()}


_TEXTS = _texts()
HOW = _TEXTS["how"]
"""How to read each picture and table."""
GLOSSARY, SCORE_TITLES, SCORE_WORDS = _TEXTS["glossary"], _TEXTS["score_titles"], _TEXTS["scores"]
TUNING = _TEXTS["tuning"]
"""What the columns of `tune` are."""


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


def capital(text: str) -> str:
    """A text that begins a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def listed(names: Sequence[str], most: int = 12) -> str:
    """`a, b and c`; what exceeds `most` is counted.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def describe_run(run: RunRecord) -> Html:
    """One run in a few sentences; always with the rule that chose the model."""
    rule = RULES[run.rule] + ("" if run.results is None else f", step {run.results['selected_step']:,}")
    return render(
        "run.html",
        run=run,
        adapted=run.method != SOURCE_ONLY,
        what="a predictor of numbers" if run.final.get("task") == "regression" else "a classifier",
        rule=rule,
        of_source=f"{run.config['source']['n']:,} ",
        of_target=f"{run.config['target']['n']:,} ",
        classes=f", {len(run.classes)} classes" if run.classes else "",
        choices=describe_choice(run),
    )


def describe_choice(run: RunRecord) -> list[str]:
    """What was decided about the settings and why: the sentences of `jumbot tune`, or the effect of tau."""
    if run.why:
        return list(run.why)
    sentences, tau = [], run.options.get("tau")
    if run.mass is not None and isinstance(tau, int | float):
        sentences.append(f"tau is {tau:g}: {percent_whole(run.mass)} of the mass moves at the end of training.")
    return sentences + [f"{capital(each)}." for each in (run.results or {}).get("decisions", ())]


def estimated(estimate: Mapping[str, Any] | None) -> str:
    """`about 83 % (90 % interval 70 to 96 %)`, or nothing where there is no estimate."""
    if estimate is None or estimate["value"] is None:
        return ""
    low, high = f"{100 * estimate['low']:.0f}", percent_whole(estimate["high"])
    return f"about {percent_whole(estimate['value'])} (90 % interval {low} to {high})"


def score_title(name: str) -> str:
    """Name and direction of a label-free score."""
    title = SCORE_TITLES.get(name, name.replace("_", " "))
    if name not in SCORES:
        return title
    return f"{title} ({'higher' if SCORES[name].higher_is_better else 'lower'} is better)"
