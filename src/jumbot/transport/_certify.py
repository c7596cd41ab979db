"""`jumbot.certify`: the certificate of a plan or a pair of potentials from any library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from jumbot.cost import Cost
from jumbot.errors import ArgumentError, hinting
from jumbot.transport._checks import Array, read_potentials
from jumbot.transport._evidence import (
    Evidence,
    Given,
    evidence,
    marginal_error,
    read_plan,
    read_problem,
)
from jumbot.transport._problem import Terms, make_problem
from jumbot.transport._solution import Solution
from jumbot.transport._solve import MAX_ITERATIONS, find_outcome
from jumbot.transport.divergences import Divergence

_RIGHT = 1e-4  # a relative gap up to which a plan counts as a solution
_OFF = 1e-3  # errors of marginals above this are reported; smaller ones enter the gap by rounding
_FINEST = 1e-12
_BEYOND = 100.0  # times the value, above which a gap is not spelled out
_NOTHING = 1e-6  # of the mass: a plan with less has underflown


def _verdict(given: Given, found: Evidence, k: int, exact: bool) -> str:
    """One sentence on problem k; `exact` says that the lower bound is the optimum up to 1e-10."""
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
    """The verdict on a feasible plan by its relative gap."""
    if gap <= _RIGHT:
        return f"within {_bound(gap)} of the optimum"
    up_to = "" if exact or gap > _BEYOND else "up to "
    return f"not optimal: a relative gap of {up_to}{_percent(gap)}"


def _marginals(given: Given, found: Evidence, k: int, errors: list[float]) -> str:
    names = [name for name, error in zip(("source", "target"), errors, strict=True) if error > _OFF]
    return f"a marginal is off by {_percent(max(errors))} ({' and '.join(names)})"


def _percent(share: float) -> str:
    """A share, in percent.

    >>> _percent(0.0312), _percent(0.00042), _percent(1.5), _percent(5e300)
    ('3.1 %', '0.042 %', '150 %', 'more than 10,000 %')
    """
    if share > _BEYOND:
        return "more than 10,000 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _bound(gap: float) -> str:
    """The power of ten that the gap does not exceed.

    >>> _bound(2e-7), _bound(1e-6), _bound(0.0)
    ('1e-6', '1e-6', '1e-12')
    """
    exponent = math.ceil(math.log10(max(gap, _FINEST)) - 1e-9)
    return f"1e{exponent}"


_TOL = 1e-10  # of the lower bound if a plan comes without potentials


@dataclass(frozen=True)
class Certificate:
    """What a plan or a pair of potentials proves; for a batch, each field has the batch shape.

    The optimum of the problem lies in [`dual`, `value`].  Numbers are in float64, detached.

    Attributes
    ----------
    value : float or array
        The objective at the plan, after rounding to exact marginals.
    dual : float or array
        A lower bound of the optimum.
    gap : float or array
        value - dual >= 0, from an identity that does not subtract large numbers.
    relative_gap : float or array
        gap / (<abs(C), P> + tau_a D_a + tau_b D_b + epsilon mass), as in `Solution`.
    marginal_error : pair
        (source, target): by how much the plan as given misses the marginals that the problem prescribes,
        sum abs(P1 - a) over sum a; zero on a side with a finite tau, which allows every marginal.
    verdict : str, or array of str
        One sentence per problem.
    """

    value: Any
    dual: Any
    gap: Any
    relative_gap: Any
    marginal_error: tuple[Any, Any]
    verdict: Any

    def __repr__(self) -> str:
        if isinstance(self.verdict, str):
            return (
                f"Certificate({self.verdict!r}, value={float(self.value):.6g}, dual={float(self.dual):.6g}, "
                f"relative_gap={float(self.relative_gap):.1e})"
            )
        return f"Certificate(batch={self.verdict.shape}, relative_gap<={float(self.relative_gap.max()):.1e})"


@hinting
def certify(
    cost: Array | str | Cost | None = None,
    a: Array | None = None,
    b: Array | None = None,
    *,
    x: Array | None = None,
    y: Array | None = None,
    plan: Array | None = None,
    potentials: tuple[Array, Array] | None = None,
    epsilon: float,
    tau: float | tuple[float, float] = math.inf,
    divergence: str | Divergence = "kl",
    reference: str = "product",
    mass: float | None = None,
) -> Certificate:
    r"""How far a plan, or a pair of potentials, from any library is from the optimum of a transport problem.

    .. math::
        E(P) = \langle C, P\rangle + \varepsilon\, \mathrm{KL}(P \mid R)
        + \tau_a D_\varphi(P 1 \mid a) + \tau_b D_\varphi(P^\top 1 \mid b), \qquad
        D(f, g) \le \min E \le E(P)

    Parameters
    ----------
    cost : array of shape (..., n, m), str or callable
        The cost matrix C, torch or numpy; leading axes are a batch of problems.  With `x` and `y`, the name of the cost
        between points or a callable, by default "sqeuclidean".
    a, b : arrays of shape (..., n) and (..., m), optional
        Weights; by default uniform with mass one.
    x, y : arrays of shape (..., n, d) and (..., m, d), optional
        Points instead of a cost matrix.  Potentials are then certified in blocks of rows, so that memory is linear in
        the number of points.
    plan : array of shape (..., n, m), optional
        The plan P, from any library.
    potentials : pair of arrays, optional
        The pair (f, g) of :math:`P = R\, e^{(f + g - C)/\varepsilon}`, as `Solution.potentials`.  Without `plan` this P
        is certified; with it the potentials provide the lower bound.  Without potentials the lower bound is found by
        solving the problem.  At `epsilon=0` potentials determine no plan: `value` is then that of an optimal one.
    epsilon, tau, divergence, reference, mass
        The problem that the plan is meant to solve, as in `jumbot.solve`.

    Returns
    -------
    Certificate
        With `value`, `dual`, `gap`, `relative_gap`, `marginal_error` and `verdict`.

    Raises
    ------
    ArgumentError
        If arguments do not fit each other.  Errors inside a plan or potentials (negative entries, NaN) are reported by
        the verdict instead.

    Examples
    --------
    >>> import jumbot, numpy as np
    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> jumbot.certify(cost, plan=np.eye(2) / 2, epsilon=0.0).verdict
    'within 1e-12 of the optimum'
    >>> jumbot.certify(cost, plan=np.full((2, 2), 0.25), epsilon=0.0).verdict
    'not optimal: a relative gap of 100 %'
    >>> jumbot.certify(cost, plan=np.eye(2) / 2 * 1.03, epsilon=0.0).verdict
    'a marginal is off by 3 % (source and target)'
    """
    if plan is None and potentials is None:
        raise ArgumentError("plan, potentials must not both be None; pass what is to be certified.")
    terms = Terms(epsilon, tau, divergence, reference, mass)
    given = read_problem(cost, a, b, x, y, terms)
    pair = None
    if potentials is not None:
        pair = read_potentials("potentials", potentials, given.shape[1:], given.batch, given.numpy)
    matrix = None if plan is None else read_plan(plan, given)
    exact = False
    if pair is None or (matrix is None and given.epsilon == 0):
        left, right = (w.reshape(*given.batch, -1) for w in (given.a, given.b))
        problem = make_problem(given.matrix, left, right, terms)
        outcome = find_outcome(problem, None, _TOL, MAX_ITERATIONS)
        if pair is None:
            pair, exact = (outcome.f, outcome.g), outcome.all_within(_TOL)
        matrix = outcome.plan if matrix is None else matrix
    found = evidence(given, matrix, *pair)
    return _certificate(given, found, exact)


def _certificate(given: Given, found: Evidence, exact: bool) -> Certificate:
    sentences = [_verdict(given, found, k, exact) for k in range(len(found.gap))]

    def out(numbers: Tensor) -> Any:
        numbers = numbers.reshape(given.batch)
        return numbers.numpy() if given.numpy else numbers.to(given.device)

    words: Any = np.array(sentences, dtype=object).reshape(given.batch) if given.batch else sentences[0]
    errors = out(found.errors[0]), out(found.errors[1])
    value, dual = out(found.objective + given.constant), out(found.dual + given.constant)
    return Certificate(value, dual, out(found.gap), out(found.relative_gap), errors, words)


def of_solution(solution: Solution) -> Certificate:
    """The certificate that a `Solution` already contains."""
    found, shape = solution._outcome.certificate, solution._inputs[0].shape[:-2]

    def out(x: Tensor) -> Any:
        return x.numpy().reshape(shape) if solution._numpy else x.reshape(shape)

    sides = zip(solution._problem.sides, (found.rows, found.columns), strict=True)
    errors = [out(marginal_error(side, sums, weights.expand_as(sums))) for (side, weights), sums in sides]
    sentences = [by_gap(gap, exact=False) for gap in found.relative_gap.tolist()]
    words: Any = np.array(sentences, dtype=object).reshape(shape) if shape else sentences[0]
    value = solution._objective
    return Certificate(
        out(value), out(value - found.gap), out(found.gap), out(found.relative_gap), (errors[0], errors[1]), words
    )
