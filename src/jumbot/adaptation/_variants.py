"""Methods with options: `NAME:OPTION=VALUE`, as `jumbot compare --methods` takes them, and the candidates of `tune`.

The candidates are no adaptation, other methods, and JUMBOT at five values of tau.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from jumbot._base.options import MOST, Bounds, check
from jumbot._settings.reading import Reading, TaskName
from jumbot.adaptation._config import PARTS, check_changes, make_config, option_names
from jumbot.errors import ArgumentError, suggest, suggest_option
from jumbot.methods import METHODS, SOURCE_ONLY, options_class

_WORDS = {"none": None, "true": True, "false": False}


@dataclass(frozen=True)
class Variant:
    """A method and changes to its options or training; `label` is its name in the table."""

    label: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Its label as a folder name that is valid on every system."""
        return self.label.replace(":", "-").replace(" ", "-")


def read_variant(text: str) -> Variant:
    """NAME, or NAME:OPTION=VALUE,OPTION=VALUE.

    >>> read_variant("dann:reversal_steps=none,weight=0.5").changes
    {'reversal_steps': None, 'weight': 0.5}
    """
    method, colon, rest = text.partition(":")
    changes: dict[str, Any] = {}
    for one in rest.split(",") if colon else ():
        name, equals, value = one.partition("=")
        name = name.strip().replace("-", "_")
        if not name or not equals or not value.strip():
            raise ArgumentError(f"methods: got {text!r}; write NAME or NAME:OPTION=VALUE,OPTION=VALUE.")
        if name in changes:
            raise ArgumentError(f"methods: {text!r} gives {name} twice.")
        changes[name] = _value(value.strip())
    return Variant(text, method, changes)


def share_changes(
    methods: Sequence[str],
    recipe: str | None,
    common: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[tuple[Variant, dict[str, Any]]]:
    """The changes of each method: those of the `common` ones that it has (dann has no tau), its `own` by the names in
    `methods`, and those in its name.

    >>> [changes for _, changes in share_changes(["jumbot", "dann:weight=2"], "table", {"tau": 0.3, "steps": 9})]
    [{'tau': 0.3, 'steps': 9}, {'steps': 9, 'weight': 2}]
    """
    variants = [read_variant(check("methods", name, str)) for name in dict.fromkeys(methods)]
    known = [option_names(variant.method) for variant in variants]
    if not variants:
        raise ArgumentError(f"methods: none given; {suggest('', METHODS)}")
    for option in common:
        if not any(option in names for names in known):
            every = sorted(set().union(*known))
            raise ArgumentError(f"{option}: not an option of {', '.join(methods)}; {suggest_option(option, every)}")
    shared = []
    for variant, names in zip(variants, known, strict=True):
        changes = {option: value for option, value in common.items() if option in names}
        shared.append((variant, changes | dict((own or {}).get(variant.label, {})) | dict(variant.changes)))
        check_changes(variant.method, recipe, shared[-1][1])
    return shared


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


PARTIAL = {"eta1": 0.3, "eta2": 1.5, "eta3": 10.0, "tau": 0.24}
"""The paper's partial settings as multiples of its general ones, with twice its tau."""
_PARTIAL_FROM = 20.0  # eta3 / tau: 1 to 2 in the general settings, 80 and more in the partial ones
TAUS = (1.0, 2.0, 0.5, 4.0, 0.25)
"""Multiples of a setting's own tau, in the order in which they are tried."""
_OTHERS: dict[TaskName, tuple[str, ...]] = {
    "classification": ("deepjdot", "mcc", "m-pot", "elot"),
    "regression": ("deepjdot", "dann"),
}
"""Methods that are tried besides source-only and JUMBOT."""
FIRST = 2
"""Candidates that are always trained whole: source-only and the recipe's JUMBOT."""
Candidates = Annotated[int, Bounds(at_least=FIRST, at_most=MOST)]
"""The largest number of candidates."""


def candidates(recipe: str, task: TaskName = "classification") -> tuple[Variant, ...]:
    """The candidates for a recipe, the most promising first; the first two are source-only and the recipe's JUMBOT.

    >>> [candidate.label for candidate in candidates("table")][:8]
    ['source-only', 'jumbot partial tau=0.12', 'jumbot tau=0.5', 'deepjdot', 'mcc', 'm-pot', 'elot',
    'jumbot partial tau=0.24']
    >>> candidates("table")[2].changes
    {'eta1': 0.01, 'eta2': 0.5, 'eta3': 1.0, 'tau': 0.5}
    >>> [candidate.label for candidate in candidates("table", "regression")]
    ['source-only', 'jumbot tau=2', 'deepjdot', 'dann', 'jumbot tau=4', 'jumbot tau=1', 'jumbot tau=8',
    'jumbot tau=0.5']
    """
    options = make_config(None, "jumbot", recipe, {"views": "whole"}, task).options
    given = {name: float(getattr(options, name)) for name in PARTIAL}
    others = [Variant(name, name) for name in _OTHERS[task]]
    if task == "regression":
        first, *more = (_jumbot("jumbot", {"tau": given["tau"]}, factor) for factor in TAUS)
        return (Variant(SOURCE_ONLY, SOURCE_ONLY), first, *others, *more)
    is_partial = given["eta3"] / given["tau"] > _PARTIAL_FROM
    other = {name: value * PARTIAL[name] ** (-1 if is_partial else 1) for name, value in given.items()}
    words = ("jumbot partial", "jumbot") if is_partial else ("jumbot", "jumbot partial")
    tuned = [
        _jumbot(word, settings, factor) for factor in TAUS for word, settings in zip(words, (given, other), strict=True)
    ]
    return (Variant(SOURCE_ONLY, SOURCE_ONLY), *tuned[:2], *others, *tuned[2:])


def _jumbot(word: str, settings: dict[str, float], factor: float) -> Variant:
    changes = {**settings, "tau": settings["tau"] * factor}
    changes = {name: float(f"{value:.6g}") for name, value in changes.items()}
    return Variant(f"{word} tau={changes['tau']:g}", "jumbot", changes)


def check_shared(recipe: str | None, options: Mapping[str, Any], task: TaskName | None = None) -> None:
    """Refuse, before any data are read, options that no candidate has, and values that are invalid for all.

    >>> check_shared("table", {"tau": 0.3})
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: tau: got 0.3; tune chooses the options of methods itself. ...
    """
    shared = {field.name for part in PARTS.values() for field in fields(part)}
    owned = {field.name for name in METHODS for field in fields(options_class(name))}
    for option, value in options.items():
        if option not in shared and option in owned:
            raise ArgumentError(
                f"{option}: got {value!r}; tune chooses the options of methods itself. Leave it out, or pass it to "
                f"adapt with a method."
            )
        if option not in shared:
            known = sorted(shared | {field.name for field in fields(Reading)})
            raise ArgumentError(
                f"{option} is not an option of training, network, inputs or reading; {suggest_option(option, known)}"
            )
    if options.get("select") == "oracle":
        raise ArgumentError("select: 'oracle' uses target labels, which tune must not; choose another rule.")
    for method in (SOURCE_ONLY, "jumbot", *_OTHERS[task or "classification"]):
        check_changes(method, recipe, options, task)
