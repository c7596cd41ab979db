"""What does not go together, refused before any work is done: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jumbot.errors import ArgumentError
from jumbot.methods import check_predicts_numbers, options_class

if TYPE_CHECKING:
    from jumbot.data.reading import TaskName

CLASS_SCORES = ("entropy", "infomax", "snd")
_NUMBERS = "task='regression' predicts numbers, and"

FOR_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sampler": (lambda value: value == "stratified", "there are no classes to draw alike; leave it out."),
    "select": (
        lambda value: value in CLASS_SCORES,
        "this score is of classes; use last, smoothness, source_validation or transport.",
    ),
    "partial": (lambda value: value is not None, "there are no classes to keep; leave it out."),
    "thin": (lambda value: value is not None, "there are no classes to thin out; leave it out."),
    "proportions": (lambda value: value != "equal", "there are no classes whose shares could differ; leave it out."),
    "variant": (lambda value: value == "original", "the original DeepJDOT compares probabilities; leave it out."),
}
"""Options that numbers leave no sense: when, and why."""
FOR_CLASSES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "label_loss": (lambda value: value is not None, "classes have the cross-entropy; it is for task='regression'."),
    "select": (lambda value: value == "smoothness", "this score is of numbers; see jumbot adapt --help for others."),
}
"""Options that classes leave no sense."""


def check_together(task: TaskName | None, method: str, changes: Mapping[str, Any]) -> None:
    """Refuse what does not go with the task; None is a task that only the data will tell.

    >>> check_together("regression", "jumbot", {"select": "snd"})
    Traceback (most recent call last):
    jumbot.errors.ArgumentError: select: 'snd' came in, but task='regression' predicts numbers, and this score is of ...
    """
    if task == "regression":
        check_predicts_numbers(method)
    for option, (wrong, why) in {"regression": FOR_NUMBERS, "classification": FOR_CLASSES}.get(str(task), {}).items():
        if option in changes and wrong(changes[option]):
            why = f"{_NUMBERS} {why}" if task == "regression" else why
            raise ArgumentError(f"{option}: {changes[option]!r} came in, but {why}")


def sampler_of(task: TaskName | None, method: str) -> str:
    """How source minibatches are drawn, unless it is said: numbers have no classes to be stratified by."""
    return "shuffled" if task == "regression" else options_class(method).sampler
