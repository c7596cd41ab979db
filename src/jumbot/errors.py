"""Every exception and warning that jumbot raises, as one tree."""

from __future__ import annotations


class JumbotError(Exception):
    """Base of all errors of this package: ``except jumbot.JumbotError`` catches each of them."""


class ArgumentError(JumbotError, ValueError):
    """An argument that cannot be right: the message names it, says what came in and how to fix it."""


class UnsupportedError(JumbotError, NotImplementedError):
    """A combination of arguments that is meaningful but not offered; said before any work is done."""


class UnboundedError(JumbotError, ValueError):
    """The problem has no minimum: some cost is so negative that transporting ever more mass pays."""


class NotConvergedWarning(UserWarning):
    """A solver stopped short of ``tol``; the result is still certified by its ``gap``."""
