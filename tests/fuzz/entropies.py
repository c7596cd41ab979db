"""phi, phi* and phi'_infinity of every divergence of the contract, in extended precision, and as conic models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Extended = np.longdouble


@dataclass(frozen=True)
class Entropy:
    """phi on [lower, upper], zero at 1; a range other than [0, inf) is a hard constraint."""

    phi: Callable[[Array], Array]
    conjugate: Callable[[Array], Array]  # sup_{x >= 0} s x - phi(x), for s <= recession
    recession: float
    model: Callable[[Any, Array], Any] | None = None  # sum_i a_i phi(x_i / a_i) in cvxpy, a > 0
    lower: float = 0.0
    upper: float = math.inf

    @property
    def hard(self) -> bool:
        return self.lower > 0 or self.upper < math.inf

    @property
    def must_match(self) -> bool:
        """Whether a point of positive weight may not be left out: phi(0) is infinite."""
        with np.errstate(divide="ignore"):
            return self.lower > 0 or bool(np.isinf(self.phi(np.zeros(1, Extended))[0]))


def xlogx(x: Array) -> Array:
    return x * np.log(np.where(x > 0, x, 1))


def entropy(name: str) -> Entropy:
    """The entropy that the name stands for.

    >>> float(entropy("chi2").phi(np.array(3.0)))
    4.0
    """
    word, _, rest = name.partition("(")
    if not rest:
        return _PLAIN[word]
    return {"range": _range, "power": _power}[word](*map(float, rest.rstrip(")").split(",")))


def _cvxpy() -> Any:
    import cvxpy

    return cvxpy


def _scaled_square(x: Any, a: Array) -> Any:
    return _cvxpy().sum(_cvxpy().multiply(1 / a, _cvxpy().square(x - a)))


def _range(lower: float, upper: float) -> Entropy:
    def conjugate(s: Array) -> Array:
        return np.where(s > 0, (upper if upper < math.inf else 0) * s, lower * s)

    def phi(x: Array) -> Array:
        return np.where((x >= lower) & (x <= upper), 0, np.inf)

    return Entropy(phi, conjugate, math.inf if upper < math.inf else 0.0, None, lower, upper)


def _power(p: float) -> Entropy:
    def phi(x: Array) -> Array:
        return (x**p - p * (x - 1) - 1) / (p * (p - 1))

    def conjugate(s: Array) -> Array:
        return (np.maximum(1 + (p - 1) * s, 0) ** (Extended(p) / (p - 1)) - 1) / p

    def model(x: Any, a: Array) -> Any:
        powers = _cvxpy().sum(_cvxpy().multiply(a ** (1 - p), _cvxpy().power(x, p)))
        return (powers - p * _cvxpy().sum(x - a) - a.sum()) / (p * (p - 1))

    return Entropy(phi, conjugate, math.inf if p > 1 else 1 / (1 - p), model)


_PLAIN = {
    "kl": Entropy(lambda x: xlogx(x) - x + 1, np.expm1, math.inf, lambda x, a: _cvxpy().sum(_cvxpy().kl_div(x, a))),
    "tv": Entropy(
        lambda x: np.abs(x - 1), lambda s: np.maximum(s, -1), 1.0, lambda x, a: _cvxpy().sum(_cvxpy().abs(x - a))
    ),
    "chi2": Entropy(lambda x: (x - 1) ** 2, lambda s: np.where(s > -2, s + s * s / 4, -1), math.inf, _scaled_square),
    "balanced": _range(1.0, 1.0),
}
