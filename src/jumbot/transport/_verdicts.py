"""What a certificate says in one sentence."""

from __future__ import annotations

import math

from jumbot.transport._evidence import Evidence
from jumbot.transport._given import Given

_RIGHT = 1e-4  # a relative gap up to which a plan counts as a solution
_OFF = 1e-3  # an error of a marginal from which on it is said: what rounding it takes is in the gap
_FINEST = 1e-12
_NOTHING = 1e-6  # of the mass: a plan with less has underflown


def verdicts(given: Given, found: Evidence, exact: bool) -> list[str]:
    """One sentence for each problem; `exact` says that the lower bound is the optimum but for 1e-10."""
    return [_verdict(given, found, k, exact) for k in range(len(found.gap))]


def _verdict(given: Given, found: Evidence, k: int, exact: bool) -> str:
    if bool(found.undefined[k]):
        return "not a plan: NaN or infinite entries"
    if float(found.negative[k]) < 0:
        return f"not a plan: negative entries, down to {float(found.negative[k]):.3g}"
    gap, mass = float(found.relative_gap[k]), float(found.mass[k])
    errors = [float(error[k]) for error in found.errors]
    there = min(float(given.a[k].sum()), float(given.b[k].sum()))
    if mass <= _NOTHING * there and (gap > _RIGHT or max(errors) > _OFF):
        return f"the plan is empty: its mass is {mass:.3g}, and the optimum moves more"
    if float(found.mass_error[k]) > _OFF:
        return f"the mass is off by {_percent(float(found.mass_error[k]))}"
    if max(errors) > _OFF:
        return _marginals(given, found, k, errors)
    if not bool(found.allowed[k]):
        return "not optimal: mass where the cost or the penalty is infinite"
    return by_gap(gap, exact)


def by_gap(gap: float, exact: bool) -> str:
    """What a relative gap says of a plan that is feasible."""
    if gap <= _RIGHT:
        return f"within {_bound(gap)} of the optimum"
    return f"not optimal: a relative gap of {'' if exact else 'up to '}{_percent(gap)}"


def _marginals(given: Given, found: Evidence, k: int, errors: list[float]) -> str:
    names = [name for name, error in zip(("source", "target"), errors, strict=True) if error > _OFF]
    return f"a marginal is off by {_percent(max(errors))} ({' and '.join(names)})"


def _percent(share: float) -> str:
    """A share, in percent.

    >>> _percent(0.0312), _percent(0.00042), _percent(1.5)
    ('3.1 %', '0.042 %', '150 %')
    """
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _bound(gap: float) -> str:
    """The power of ten that the gap does not exceed.

    >>> _bound(2e-7), _bound(1e-6), _bound(0.0)
    ('1e-6', '1e-6', '1e-12')
    """
    exponent = math.ceil(math.log10(max(gap, _FINEST)) - 1e-9)
    return f"1e{exponent}"
