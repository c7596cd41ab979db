"""Every exception and warning that jumbot raises, as one tree."""

from __future__ import annotations


class JumbotError(Exception):
    """Base of all errors of this package: ``except jumbot.JumbotError`` catches each of them."""


class ArgumentError(JumbotError, ValueError):
    """An argument that cannot be right: the message names it, says what came in and how to fix it."""


class UnsupportedError(JumbotError, NotImplementedError):
    """A combination of arguments that is meaningful but not offered; said before any work is done."""


class MissingPackageError(JumbotError, ImportError):
    """A package that only some uses need is not installed, or does not import: the message says what to install."""


class UnboundedError(JumbotError, ValueError):
    """The problem has no minimum: some cost is so negative that transporting ever more mass pays."""


class NotFiniteError(JumbotError, ArithmeticError):
    """A loss or a feature became NaN or infinite during training; the message says where and what is kept."""


class NotConvergedWarning(UserWarning):
    """A solver stopped short of ``tol``; the result is still certified by its ``gap``."""
