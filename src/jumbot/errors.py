"""Every exception and warning that jumbot raises, as one tree."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Control characters except tab and newline; characters that change the direction of text or end a line invisibly;
# surrogates, which UTF-8 cannot encode; characters that XML does not allow.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def escaped(text: object) -> str:
    r"""Text for people to read: control characters, which names in data may contain, are escaped as in Python.

    A terminal would interpret them, and XML and HTML cannot contain them.

    >>> print(escaped("ca\x1b[31mt\x00"), escaped("two\nlines"))
    ca\x1b[31mt\x00 two
    lines
    """
    return _UNSEEN.sub(lambda found: repr(found[0])[1:-1], str(text))


def one_line(text: object) -> str:
    r"""The same for a name, on one line.

    >>> print(one_line("two\nlines"))
    two\nlines
    """
    return escaped(text).replace("\n", r"\n").replace("\t", r"\t")


class JumbotError(Exception):
    """Base of all errors of this package: ``except jumbot.JumbotError`` catches each of them."""

    def __str__(self) -> str:
        return escaped(super().__str__())


class ArgumentError(JumbotError, ValueError):
    """An invalid argument; the message gives its name, what it must be and what it is.

    Attributes
    ----------
    argument : str or None
        The name of the argument, such as "tau"; None if no single argument is wrong.
    remedy : dict
        Options with which the call would work, such as `{"drop": ("notes",)}`; empty if unknown.

    Examples
    --------
    >>> ArgumentError("tau must be a number > 0, got -1.").argument
    'tau'
    >>> ArgumentError("Both clouds must have the same dimension.", argument="y").argument
    'y'
    """

    def __init__(
        self, message: str = "", *, argument: str | None = None, remedy: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        found = _LEADING_NAME.match(message)
        self.argument = argument or (found[1] if found else None)
        self.remedy = dict(remedy or {})


#: The argument that a message begins with: "tau must be ...", "init (f): ...", "source 2: ...".
_NAME = r"([a-z_]\w*|[A-Z]\b|X_\w+)(?: \([\w ]+\)| \d+)?"
_LEADING_NAME = re.compile(_NAME + r"(?::|(?= (?:must|has|have|contains|needs|cannot|does|is)\b))")


class UnsupportedError(JumbotError, NotImplementedError):
    """A combination of arguments that is meaningful but not supported; raised before any work is done."""


class MissingPackageError(JumbotError, ImportError):
    """An optional package is not installed or cannot be imported; the message says what to install."""


class UnboundedError(JumbotError, ValueError):
    """The problem has no minimum: some cost is so negative that transporting ever more mass pays.

    >>> raise UnboundedError("cost must be at least {least:g}", least=-1.0).times(2.0)
    Traceback (most recent call last):
    jumbot.errors.UnboundedError: cost must be at least -2
    """

    def __init__(self, message: str, **amounts: float) -> None:
        super().__init__(message.format(**amounts) if amounts else message)
        self._message, self._amounts = message, amounts

    def times(self, unit: float) -> UnboundedError:
        """The same error in the units of the caller, if the problem was solved in others."""
        return UnboundedError(self._message, **{name: unit * amount for name, amount in self._amounts.items()})


class TooLargeError(JumbotError, MemoryError):
    """A problem that does not fit into memory; raised before anything is allocated."""


class NotFiniteError(JumbotError, ArithmeticError):
    """A loss or a feature became NaN or infinite during training; the message says where and what is kept."""


class Stopped(KeyboardInterrupt):
    """A signal, Ctrl-C or SIGTERM, stopped the work.  The message says how to continue, if possible."""

    def __init__(self, how: str = "", signal: int = 2) -> None:
        super().__init__(how)
        self.signal = signal


class NotConvergedWarning(UserWarning):
    """A solver stopped short of ``tol``; the result is still certified by its ``gap``."""


class CacheWarning(UserWarning):
    """Compiled functions cannot be read from disk or stored there: they are compiled again, which takes seconds."""


class DataWarning(UserWarning):
    """Something about the data is unusual: other units, missing values, unknown categories; the report repeats it."""


class NoTargetWarning(UserWarning):
    """An estimator was fitted without a target: it has adapted to the source itself, which has no effect."""


class NegativeTransferWarning(UserWarning):
    """Adaptation has probably made the predictions worse than those of a classifier that saw the source alone."""


def suggest(word: object, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: the closest known word, and all known words.

    >>> suggest("DAN", ["jumbot", "dann"])
    "did you mean 'dann'? Known: jumbot, dann."
    >>> suggest("x", [f"model{i}" for i in range(1000)])
    'there are 1000 others.'
    """
    names = list(known)
    by_small = {name.lower(): name for name in reversed(names)}
    near = difflib.get_close_matches(str(word).lower(), by_small, n=1, cutoff=0.6)
    listed = f"Known: {', '.join(names) or 'none'}." if len(names) <= 60 else f"there are {len(names)} others."
    return (f"did you mean {by_small[near[0]]!r}? " if near else "") + listed


#: What other libraries call our arguments.
_MEANT = {
    "labels": "label",
    "label_column": "label",
    "target_column": "label",
    "ids": "id",
    "reg": "epsilon",
    "blur": "epsilon",
    "eps": "epsilon",
    "reg_m": "tau",
    "reach": "tau",
    "lr": "learning_rate",
    "n_steps": "steps",
    "num_steps": "steps",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "numItermax": "max_iterations",
    "max_iter": "max_iterations",
    "stopThr": "tol",
    "random_state": "seed",
}


def suggest_option(word: str, known: Iterable[str]) -> str:
    """`suggest` for the name of an argument, which may have another name elsewhere.

    >>> suggest_option("labels", ["label", "tau"])
    "did you mean 'label'?"
    """
    names = list(known)
    return f"did you mean {_MEANT[word]!r}?" if _MEANT.get(word) in names else suggest(word, names)


def hinting(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with an error about an unknown keyword that suggests the right one.

    >>> hinting(lambda epsilon: epsilon)(reg=0.1)
    Traceback (most recent call last):
    TypeError: <lambda>() got an unexpected keyword argument 'reg'; did you mean 'epsilon'?
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            names = inspect.signature(function).parameters
            unknown = [name for name in kwargs if name not in names]
            if not unknown or error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # raised inside the function, not by the call
            close = difflib.get_close_matches(unknown[0], names, n=1)
            meant = _MEANT.get(unknown[0]) if _MEANT.get(unknown[0]) in names else close[0] if close else None
            raise TypeError(f"{error}" + (f"; did you mean {meant!r}?" if meant else "")) from None

    return call


def need(module: str, purpose: str, extra: str, package: str | None = None) -> Any:
    """The module, or an error that names the extra of jumbot that installs it.

    >>> need("nothing_of_that_name", "drawing", "adapt")
    Traceback (most recent call last):
    jumbot.errors.MissingPackageError: drawing needs nothing_of_that_name, which is not installed; install it with: ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error, purpose, extra, package or module.partition(".")[0]) from error


def missing(error: ImportError, purpose: str, extra: str, package: str | None = None) -> MissingPackageError:
    """The message for a failed import."""
    absent = isinstance(error, ModuleNotFoundError)
    name = (error.name or "").partition(".")[0] if absent else package
    state = "is not installed" if absent else f"does not import ({error})"
    found = _PACKAGES.get(name or "", name)
    return MissingPackageError(
        f"{purpose} needs {found}, which {state}; install it with: pip install 'jumbot[{extra}]'."
    )


_PACKAGES = {"PIL": "Pillow", "sklearn": "scikit-learn"}  # where the module has another name
