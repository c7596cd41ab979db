"""Methods, one file each; `METHODS` names them, and a file is imported when its method is first used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jumbot._base.options import check_word
from jumbot.errors import ArgumentError, suggest_option
from jumbot.methods import options as _options
from jumbot.methods.options import MethodOptions

if TYPE_CHECKING:
    from jumbot.methods.base import Method
else:
    from jumbot._base.lazy import lazy

    __getattr__, __dir__, _ = lazy(__name__, {"Method": "base"})

__all__ = ["METHODS", "Method", "MethodOptions", "make_method", "method_class", "method_options", "options_class"]

SOURCE_ONLY = "source-only"
METHODS = {
    SOURCE_ONLY: "source_only:SourceOnly",
    "deepjdot": "deepjdot:DeepJDOT",
    "jumbot": "jumbot:Jumbot",
    "m-pot": "mpot:MPOT",
    "elot": "elot:ELOT",
    "dann": "dann:DANN",
    "cdan-e": "cdan:CDAN",
    "alda": "alda:ALDA",
    "rot": "rot:ROT",
    "mcc": "mcc:MCC",
    "pada": "pada:PADA",
    "etn": "etn:ETN",
    "ba3us": "ba3us:BA3US",
}
"""Their names, and where each is: file and class."""


def method_class(name: str) -> type[Method]:
    """The class of a method.

    Parameters
    ----------
    name : str
        A key of `METHODS`.

    Returns
    -------
    type of Method
        The class; its file is imported now.

    Raises
    ------
    jumbot.ArgumentError
        If the name is unknown.

    Examples
    --------
    >>> method_class("jumbot").Options().tau
    0.5
    """
    file, attribute = _entry(name)
    found: type[Method] = getattr(import_module(f"jumbot.methods.{file}"), attribute)
    return found


def options_class(name: str) -> type[MethodOptions]:
    """The dataclass of a method's options; of class X it is XOptions, found without importing the method.

    Parameters
    ----------
    name : str
        A key of `METHODS`.

    Returns
    -------
    type of MethodOptions
        The dataclass.

    Raises
    ------
    jumbot.ArgumentError
        If the name is unknown.

    Examples
    --------
    >>> options_class("mcc")().temperature
    2.5
    """
    found: type[MethodOptions] | None = getattr(_options, f"{_entry(name)[1]}Options", None)
    return method_class(name).Options if found is None else found


def method_options(name: str, options: Mapping[str, Any]) -> MethodOptions:
    """The options of a method: its defaults with changes.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    options : mapping of str to value
        The changes.

    Returns
    -------
    MethodOptions
        The checked options.

    Raises
    ------
    jumbot.ArgumentError
        If the method has no such option, or a value is not of its kind.

    Examples
    --------
    >>> method_options("jumbot", {"tau": 2.0}).tau
    2.0
    """
    cls = options_class(name)
    known = [field.name for field in fields(cls)]
    for option in options:
        if option not in known:
            raise ArgumentError(f"{option}: not an option of {name}; {suggest_option(option, known)}")
    return cls(**options)


def make_method(
    name: str,
    options: MethodOptions | Mapping[str, Any] | None = None,
    *,
    features: int,
    classes: int,
    label_loss: str = "cross-entropy",
) -> Method:
    """A method for a network of this width.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    options : MethodOptions or mapping, optional
        Its options; by default those of its authors.
    features : int
        Width of the embedding.
    classes : int
        How many classes, or numbers to predict.
    label_loss : {"cross-entropy", "squared", "huber"}, default "cross-entropy"
        What a wrong prediction costs; the last two are for numbers.

    Returns
    -------
    Method
        The method, with the layers that it owns.

    Raises
    ------
    jumbot.ArgumentError
        If the name or an option is unknown, or the method does not predict numbers.

    Examples
    --------
    >>> make_method("jumbot", {"tau": 2.0}, features=8, classes=3).options.tau
    2.0
    """
    if options is None or isinstance(options, Mapping):
        options = method_options(name, options or {})
    if label_loss != "cross-entropy":
        check_predicts_numbers(name)
    made = method_class(name)(options, features=features, classes=classes)
    made.use_label_loss(label_loss)
    return made


def check_predicts_numbers(name: str) -> None:
    """Refuse a method that is for classes alone."""
    if not options_class(name).predict_numbers:
        raise ArgumentError(f"method: {name} is for classes; with task='regression' use {', '.join(for_numbers())}.")


def for_numbers() -> list[str]:
    """The methods that predict numbers too.

    >>> for_numbers()
    ['source-only', 'deepjdot', 'jumbot', 'dann']
    """
    return [name for name in METHODS if options_class(name).predict_numbers]


def _entry(name: str) -> tuple[str, str]:
    file, attribute = METHODS[check_word("method", name, METHODS)].split(":")
    return file, attribute
