"""The paper's lemmas and theorems as functions, with the constants that their proofs give.

Costs lie in [0, M] and the reference is the product a b' throughout.  Where the paper prints another constant,
`printed=True` gives that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from jumbot._base.lazy import public
from jumbot._base.options import check_flag, check_non_negative, check_positive, check_whole, check_word
from jumbot.errors import ArgumentError, UnsupportedError
from jumbot.transport._marginal import L2Marginal, Marginal, marginals
from jumbot.transport.divergences import Divergence

__all__ = [
    "deviation_bound",
    "divergence_bound",
    "loss_bound",
    "marginal_bound",
    "mass_bound",
    "outlier_lower_bound",
    "outlier_upper_bound",
    "value_bound",
]
__dir__ = public(__name__)

Tau = float | tuple[float, float]
_MOST = 10**18  # theory may count more than a computer draws


def outlier_upper_bound(value: float, mean_cost: float, *, zeta: float, tau: float, epsilon: float = 0.0) -> float:
    r"""Lemma 1.1: an outlier z of mass 1 - zeta costs unbalanced transport no more than its own mass.

    .. math::
        \mathrm{OT}(\zeta\alpha + (1-\zeta)\delta_z, \beta) \le \zeta\, \mathrm{OT}(\alpha, \beta)
        + (1-\zeta)\, s\, (1 - e^{-m(z)/s}), \qquad s = 2\tau + \varepsilon

    for KL and probability measures.  The paper states epsilon = 0; its proof holds for any epsilon, with this s.

    Parameters
    ----------
    value : float
        OT(alpha, beta), the value without the outlier.
    mean_cost : float
        m(z), the mean of C(z, y) over beta.
    zeta : float
        The mass of alpha in the contaminated measure, between 0 and 1.
    tau : float
        Strength of the marginal penalty.
    epsilon : float, default 0
        Strength of the entropy.

    Returns
    -------
    float
        An upper bound of the value with the outlier.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is not a number in its range.

    Examples
    --------
    >>> outlier_upper_bound(0.3, 1e9, zeta=0.9, tau=0.5)  # however far away z is
    0.37
    """
    value, mean_cost = check_non_negative("value", value), check_non_negative("mean_cost", mean_cost)
    zeta = _fraction("zeta", zeta)
    scale = 2 * check_positive("tau", tau) + check_non_negative("epsilon", epsilon)
    return zeta * value - (1 - zeta) * scale * math.expm1(-mean_cost / scale)


def outlier_lower_bound(value: float, cost: Any, g: Any, b: Any = None, *, zeta: float) -> float:
    r"""Lemma 1.2, corrected: the further away an outlier z of mass 1 - zeta is, the more it costs balanced transport.

    .. math::
        \mathrm{OT}(\zeta\alpha + (1-\zeta)\delta_z, \beta) \ge \zeta\, \mathrm{OT}(\alpha, \beta)
        + (1-\zeta) \Big( \min_y \big[C(z, y) - g(y)\big] + \int g\, d\beta \Big)

    for epsilon = 0 and probability measures.  The paper allows any y* of the support in place of the minimiser, and
    then the inequality is false.

    Parameters
    ----------
    value : float
        OT(alpha, beta), the value without the outlier.
    cost : array of shape (m,)
        C(z, y_j), the costs from the outlier to the points of beta.
    g : array of shape (m,)
        The optimal potentials on the points of beta.
    b : array of shape (m,), optional
        The weights of beta; uniform by default.
    zeta : float
        The mass of alpha in the contaminated measure, between 0 and 1.

    Returns
    -------
    float
        A lower bound of the value with the outlier.

    Raises
    ------
    jumbot.ArgumentError
        If the shapes differ, or `b` does not sum to 1.

    Examples
    --------
    >>> outlier_lower_bound(0.0, [100.0, 81.0], [0.0, 0.0], zeta=0.9)
    8.1
    """
    value, zeta = check_non_negative("value", value), _fraction("zeta", zeta)
    cost, g = _numbers("cost", cost), _numbers("g", g)
    b = np.full(g.shape, 1 / max(g.size, 1)) if b is None else _numbers("b", b)
    if not (cost.ndim == 1 and cost.size > 0 and cost.shape == g.shape == b.shape):
        raise ArgumentError(
            f"cost, g, b: shapes {cost.shape}, {g.shape}, {b.shape}; each must be one number per point."
        )
    if not abs(float(b.sum()) - 1) < 1e-6 or float(b.min()) < 0:
        raise ArgumentError(f"b: got weights of mass {float(b.sum()):g}; the lemma requires mass 1.")
    held = b > 0
    return zeta * value + (1 - zeta) * (float((cost - g)[held].min()) + float(g[held] @ b[held]))


def value_bound(
    cost_bound: float,
    mass_a: float = 1.0,
    mass_b: float = 1.0,
    *,
    epsilon: float,
    tau: Tau = math.inf,
    divergence: str | Divergence = "kl",
) -> float:
    r"""Lemma 2.1: transport between masses m_a and m_b at costs in [0, M] is bounded by its value at the plan a b'.

    .. math::
        0 \le \mathrm{OT}(a, b, C) \le M m_a m_b + \tau_a m_a \varphi(m_b) + \tau_b m_b \varphi(m_a)

    Where a b' breaks a constraint (exact marginals of a mass other than one) the nearest multiple s a b' that keeps
    it takes its place: M, tau phi(.) and the entropy are then taken at s.

    Parameters
    ----------
    cost_bound : float
        M, the largest cost.
    mass_a, mass_b : float, default 1
        The masses of both sides.
    epsilon : float
        Strength of the entropy.
    tau : float or pair of floats, default math.inf
        Strength of the marginal penalties; `math.inf` makes a marginal exact.
    divergence : str or Divergence, default "kl"
        The marginal penalty, as in `jumbot.solve`.

    Returns
    -------
    float
        An upper bound of the value of every such problem.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or no plan meets both marginals.

    Examples
    --------
    >>> value_bound(4.0, epsilon=0.1, tau=0.5)
    4.0
    """
    cost_bound = check_non_negative("cost_bound", cost_bound)
    mass_a, mass_b = check_positive("mass_a", mass_a), check_positive("mass_b", mass_b)
    source, target = marginals(divergence, tau)
    s = _feasible_multiple(mass_a, mass_b, source, target)
    return (
        s * cost_bound * mass_a * mass_b
        + check_non_negative("epsilon", epsilon) * mass_a * mass_b * _kl(s)
        + mass_a * _price(source, s * mass_b)
        + mass_b * _price(target, s * mass_a)
    )


def divergence_bound(
    cost_bound: float,
    mass_a: float = 1.0,
    mass_b: float = 1.0,
    *,
    epsilon: float,
    tau: float = math.inf,
    divergence: str | Divergence = "kl",
) -> float:
    r"""Lemma 2.1 for the Sinkhorn divergence, corrected for unequal masses.

    .. math::
        |S(a, b)| \le M \big(m_a m_b + \tfrac12 (m_a^2 + m_b^2)\big) + \tau m_a \varphi(m_b) + \tau m_b \varphi(m_a)
        + \tau m_a \varphi(m_a) + \tau m_b \varphi(m_b) + \tfrac\varepsilon2 (m_a - m_b)^2

    where the paper prints 2 M m_a m_b, which leaves too little for the self terms.  The right side also bounds the
    width of the interval in which S lies.

    Parameters
    ----------
    cost_bound : float
        M, the largest cost.
    mass_a, mass_b : float, default 1
        The masses of both sides.
    epsilon : float
        Strength of the entropy.
    tau : float, default math.inf
        Strength of the marginal penalties.
    divergence : str or Divergence, default "kl"
        The marginal penalty, as in `jumbot.solve`.

    Returns
    -------
    float
        An upper bound of every such divergence.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or `tau` is a pair.

    Examples
    --------
    >>> divergence_bound(4.0, epsilon=0.1, tau=0.5)
    8.0
    """
    if isinstance(tau, tuple | list):
        raise ArgumentError("tau: got a pair, but the Sinkhorn divergence is symmetric; pass one number.")
    mass_a, mass_b = check_positive("mass_a", mass_a), check_positive("mass_b", mass_b)

    def bound(p: float, q: float) -> float:
        return value_bound(cost_bound, p, q, epsilon=epsilon, tau=tau, divergence=divergence)

    within = (bound(mass_a, mass_a) + bound(mass_b, mass_b)) / 2
    return bound(mass_a, mass_b) + within + epsilon / 2 * (mass_a - mass_b) ** 2


def loss_bound(
    cost_bound: float,
    mass_a: float = 1.0,
    mass_b: float = 1.0,
    *,
    loss: str,
    epsilon: float,
    tau: Any = math.inf,
    divergence: str | Divergence = "kl",
) -> float:
    """`value_bound` for the loss "transport", `divergence_bound` for "sinkhorn_divergence".

    Parameters
    ----------
    cost_bound : float
        The largest cost.
    mass_a, mass_b : float, default 1
        The masses of both sides.
    loss : {"transport", "sinkhorn_divergence"}
        Which loss is bounded.
    epsilon : float
        Strength of the entropy.
    tau : float or pair of floats, default math.inf
        Strength of the marginal penalties.
    divergence : str or Divergence, default "kl"
        The marginal penalty, as in `jumbot.solve`.

    Returns
    -------
    float
        An upper bound of the loss.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or the loss is unknown.

    Examples
    --------
    >>> loss_bound(4.0, loss="sinkhorn_divergence", epsilon=0.1, tau=0.5)
    8.0
    """
    bounds: dict[str, Callable[..., float]] = {"transport": value_bound, "sinkhorn_divergence": divergence_bound}
    return bounds[check_word("loss", loss, bounds)](
        cost_bound, mass_a, mass_b, epsilon=epsilon, tau=tau, divergence=divergence
    )


def mass_bound(
    cost_bound: float,
    mass_a: float = 1.0,
    mass_b: float = 1.0,
    *,
    epsilon: float,
    tau: Tau = math.inf,
    divergence: str | Divergence = "kl",
    cost_least: float = 0.0,
) -> float:
    r"""Lemma 2.2: a bound on the mass of every optimal plan, the largest p for which

    .. math::
        p \min C + \tau_a m_a \varphi(p/m_a) + \tau_b m_b \varphi(p/m_b)
        + \varepsilon m_a m_b\, \varphi_{KL}\big(p/(m_a m_b)\big) \le \text{value\_bound}.

    The left side is below the objective of any plan of mass p (Jensen), the right side above the optimum.  The
    paper shows that such a p exists and prints none.

    Parameters
    ----------
    cost_bound : float
        The largest cost.
    mass_a, mass_b : float, default 1
        The masses of both sides.
    epsilon : float
        Strength of the entropy.
    tau : float or pair of floats, default math.inf
        Strength of the marginal penalties.
    divergence : str or Divergence, default "kl"
        The marginal penalty, as in `jumbot.solve`.
    cost_least : float, default 0
        A lower bound of the cost.

    Returns
    -------
    float
        The bound; `math.inf` where a divergence lets mass grow for nothing.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range.

    Examples
    --------
    >>> mass_bound(1.0, epsilon=0.0, tau=0.5)
    2.718
    """
    limit = value_bound(cost_bound, mass_a, mass_b, epsilon=epsilon, tau=tau, divergence=divergence)
    cost_least = check_non_negative("cost_least", cost_least)
    if cost_least > cost_bound:
        raise ArgumentError(f"cost_least: got {cost_least:g}, above cost_bound = {cost_bound:g}.")
    source, target = marginals(divergence, tau)

    def excess(p: float) -> float:
        penalty = mass_a * _price(source, p / mass_a) + mass_b * _price(target, p / mass_b)
        return p * cost_least + penalty + epsilon * mass_a * mass_b * _kl(p / (mass_a * mass_b)) - limit

    cap = min(source.divergence.upper * mass_a, target.divergence.upper * mass_b)
    # the mass of the plan behind `limit` fulfils the inequality, and the left side is convex in p
    low = high = _feasible_multiple(mass_a, mass_b, source, target) * mass_a * mass_b
    while high < cap and excess(high) <= 0:
        high *= 2
        if high > 1e300:
            return math.inf  # epsilon = 0 and a divergence that lets mass grow for nothing
    high = min(high, cap)
    if excess(high) <= 0:
        return cap
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return high


def deviation_bound(
    loss_bound: float, *, n: int, m: int, k: int | None = None, delta: float, printed: bool = False
) -> float:
    r"""Theorem 1.1: with probability 1 - delta over the data and the draw of k minibatches,

    .. math::
        |\tilde h^m_k - E_h| \le M_h \sqrt{\frac{\log(4/\delta)}{2 \lfloor n/m \rfloor}}
        + M_h \sqrt{\frac{2 \log(4/\delta)}{k}}.

    Two events of probability delta/2 each make log(4/delta); the paper prints log(2/delta).  For the complete
    estimator the first term remains alone, with log(2/delta) (Lemma 5).

    Parameters
    ----------
    loss_bound : float
        M_h, a bound of the loss of one minibatch; see `jumbot.bounds.loss_bound`.
    n : int
        The number of points; with clouds of different sizes, the smaller one.
    m : int
        Points per side in a minibatch.
    k : int, optional
        The number of minibatches; None for the complete estimator.
    delta : float
        The probability that the bound fails, strictly between 0 and 1.
    printed : bool, default False
        Use the constant as the paper prints it.

    Returns
    -------
    float
        The largest deviation.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or m > n.

    Examples
    --------
    >>> deviation_bound(1.0, n=1000, m=10, k=500, delta=0.05)
    0.280
    """
    loss_bound, delta = check_non_negative("loss_bound", loss_bound), _fraction("delta", delta, strict=True)
    n, m = check_whole("n", n, least=1, most=_MOST), check_whole("m", m, least=1, most=_MOST)
    if m > n:
        raise ArgumentError(f"m: got {m}, but there are only n = {n} points; draw at most that many.")
    events = 2 if check_flag("printed", printed) or k is None else 4
    data = math.sqrt(math.log(events / delta) / (2 * (n // m)))
    draw = 0.0 if k is None else math.sqrt(2 * math.log(events / delta) / check_whole("k", k, least=1, most=_MOST))
    return loss_bound * (data + draw)


def marginal_bound(mass: float, *, k: int, delta: float, printed: bool = False) -> float:
    r"""Theorem 1.2: for each row i, with probability 1 - delta over the draw of k minibatches,

    .. math::
        |(\tilde\Pi^m_k 1)_i - (\bar\Pi^m 1)_i| \le \mathfrak M \sqrt{\frac{\log(2/\delta)}{2k}}.

    This is what the proof's last line gives; the paper prints twice as much.

    Parameters
    ----------
    mass : float
        The largest mass of a minibatch plan; see `mass_bound`.
    k : int
        The number of minibatches.
    delta : float
        The probability that the bound fails, strictly between 0 and 1.
    printed : bool, default False
        Use the constant as the paper prints it.

    Returns
    -------
    float
        The largest deviation of a row's mass.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range.

    Examples
    --------
    >>> marginal_bound(1.0, k=500, delta=0.05)
    0.0607
    """
    mass, delta = check_non_negative("mass", mass), _fraction("delta", delta, strict=True)
    bound = mass * math.sqrt(math.log(2 / delta) / (2 * check_whole("k", k, least=1, most=_MOST)))
    return 2 * bound if check_flag("printed", printed) else bound


def _fraction(name: str, value: Any, strict: bool = False) -> float:
    number = check_positive(name, value) if strict else check_non_negative(name, value)
    if number > 1 or (strict and number == 1):
        raise ArgumentError(f"{name} must lie {'strictly ' if strict else ''}between 0 and 1, got {number:g}.")
    return number


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"{name}: got {type(values).__name__}; pass an array of numbers.") from error
    if not np.isfinite(found).all():
        raise ArgumentError(f"{name}: contains NaN or infinity; pass finite numbers.")
    return found


def _feasible_multiple(mass_a: float, mass_b: float, source: Marginal, target: Marginal) -> float:
    """The s nearest to one for which s a b' keeps the constraints on both marginals."""
    low = max(source.divergence.lower / mass_b, target.divergence.lower / mass_a)
    high = min(source.divergence.upper / mass_b, target.divergence.upper / mass_a)
    if low > high * (1 + 1e-6):
        raise ArgumentError(f"mass_a, mass_b: no plan between {mass_a:g} and {mass_b:g} meets both marginals.")
    return min(max(1.0, low), high)


def _price(side: Marginal, ratio: float) -> float:
    """tau phi(ratio), zero for constraints."""
    if isinstance(side, L2Marginal):
        raise UnsupportedError("divergence: there are no bounds for 'l2', whose penalty depends on the weights.")
    x = torch.tensor(ratio, dtype=torch.float64, device="cpu")
    return 0.0 if side.hard else side.tau * float(side.divergence.phi(x))


def _kl(x: float) -> float:
    return x * math.log(x) - x + 1
