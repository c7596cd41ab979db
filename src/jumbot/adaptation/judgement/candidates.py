"""What `jumbot.tune` tries: no adaptation, two other methods, and JUMBOT with two kinds of settings at five taus."""

from __future__ import annotations

from jumbot.adaptation.config import make_config
from jumbot.adaptation.runs.variants import Variant

PARTIAL = {"eta1": 0.3, "eta2": 1.5, "eta3": 10.0, "tau": 0.24}
"""The settings for targets that lack classes, as multiples of the general ones: `table-partial` beside `table`."""
TAUS = (1.0, 2.0, 0.5, 4.0, 0.25)
"""Multiples of a setting's own tau, in the order in which they are tried."""
SOURCE_ONLY = "source-only"


def candidates(recipe: str) -> tuple[Variant, ...]:
    """The candidates for a recipe, the most promising first; the first two are source-only and the recipe's JUMBOT.

    >>> [candidate.label for candidate in candidates("table")][:7]
    ['source-only', 'jumbot tau=0.5', 'jumbot partial tau=0.12', 'deepjdot', 'mcc', 'jumbot tau=1',
    'jumbot partial tau=0.24']
    >>> candidates("table")[2].changes
    {'eta1': 0.003, 'eta2': 0.75, 'eta3': 10.0, 'tau': 0.12}
    """
    options = make_config(None, "jumbot", recipe, {}).options
    given = {name: float(getattr(options, name)) for name in PARTIAL}
    is_partial = recipe.endswith("-partial")
    other = {name: value * PARTIAL[name] ** (-1 if is_partial else 1) for name, value in given.items()}
    words = ("jumbot partial", "jumbot") if is_partial else ("jumbot", "jumbot partial")
    tuned = [
        _jumbot(word, settings, factor) for factor in TAUS for word, settings in zip(words, (given, other), strict=True)
    ]
    others = [Variant(name, name) for name in ("deepjdot", "mcc")]
    return (Variant(SOURCE_ONLY, SOURCE_ONLY), *tuned[:2], *others, *tuned[2:])


def _jumbot(word: str, settings: dict[str, float], factor: float) -> Variant:
    changes = {**settings, "tau": settings["tau"] * factor}
    changes = {name: float(f"{value:.6g}") for name, value in changes.items()}
    return Variant(f"{word} tau={changes['tau']:g}", "jumbot", changes)
