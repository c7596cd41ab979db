"""The Sinkhorn divergence: entropic transport without its bias."""

from __future__ import annotations

import math
from typing import Any, Required, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from jumbot._base.options import check_non_negative, check_whole
from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError, hinting
from jumbot.transport import _debiased, _placement
from jumbot.transport._checks import Array, as_tensor, autocast, read_clouds, uncompiled
from jumbot.transport._debiased import debiased, excess_mass, finer
from jumbot.transport._placement import bytes_per_entry, check_room, on_cpu, placed, returned
from jumbot.transport._problem import Terms, make_problem
from jumbot.transport._solution import Solution
from jumbot.transport._solve import MAX_ITERATIONS, solve_problem, warn_if_short
from jumbot.transport.divergences import Divergence


class _Settings(TypedDict, total=False):
    """The keywords of `sinkhorn_divergence`, for its two signatures."""

    cost: str | Cost
    epsilon: Required[float]
    tau: float
    divergence: str | Divergence
    tol: float
    max_iterations: int
    engine: str


@overload
def sinkhorn_divergence(
    x: Tensor, y: Array, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> Tensor: ...
@overload
def sinkhorn_divergence(
    x: ArrayLike, y: Array, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> np.ndarray: ...
@hinting
def sinkhorn_divergence(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    cost: str | Cost = "sqeuclidean",
    epsilon: float,
    tau: float = math.inf,
    divergence: str | Divergence = "kl",
    tol: float = 1e-10,
    max_iterations: int = MAX_ITERATIONS,
    engine: str = "auto",
) -> Array:
    r"""How far apart two weighted point clouds are; zero for equal ones.

    .. math::
        S(\alpha, \beta) = \mathrm{OT}(\alpha, \beta) - \tfrac12 \mathrm{OT}(\alpha, \alpha)
        - \tfrac12 \mathrm{OT}(\beta, \beta) + \tfrac\varepsilon2 (m_\alpha - m_\beta)^2

    The values of the three problems enter on the side that makes the result an upper bound, so it is never negative
    where e^{-C/epsilon} is a positive definite kernel.

    Parameters
    ----------
    x, y : arrays of shape (..., n, d) and (..., m, d)
        The points, torch or numpy; leading axes are a batch of problems.
    a, b : arrays of shape (..., n) and (..., m), optional
        Weights of any positive mass; uniform of mass one by default.
    cost : str or callable, default "sqeuclidean"
        The ground cost, by name or as a function `(x, y) -> C`.
    epsilon : float
        Strength of the entropy.
    tau : float, default math.inf
        Strength of the marginal penalties, one number: a pair would not be symmetric.
    divergence : str or Divergence, default "kl"
        The marginal penalty, as in `jumbot.solve`.
    tol : float, default 1e-10
        Bound on the relative gap; the three problems are solved more tightly than this.
    max_iterations : int
        The largest number of sweeps.
    engine : {"auto", "cpu", "device"}, default "auto"
        Where points on a GPU are solved, as in `jumbot.solve`.

    Returns
    -------
    Tensor or ndarray
        One value per problem, of the batch shape (numpy in, numpy out), differentiable in x, y, a and b.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or the shapes do not match.

    Examples
    --------
    >>> import torch, jumbot
    >>> x = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> float(jumbot.sinkhorn_divergence(x, x + 2, epsilon=0.1, tau=10.0)) > 0
    True
    """
    if torch.compiler.is_compiling() or autocast(x):
        return _apart(
            x,
            y,
            a,
            b,
            cost=cost,
            epsilon=epsilon,
            tau=tau,
            divergence=divergence,
            tol=tol,
            max_iterations=max_iterations,
            engine=engine,
        )
    numpy = not isinstance(x, Tensor)
    if isinstance(tau, tuple | list):
        raise ArgumentError("tau: got a pair, but the Sinkhorn divergence is symmetric; pass one number.")
    x, y, _ = read_clouds(x, y)
    a = None if a is None else as_tensor(a, "a", x, numpy)
    b = None if b is None else as_tensor(b, "b", x, numpy)
    ground = parse_cost(cost)
    tol, epsilon = finer(check_non_negative("tol", tol)), check_non_negative("epsilon", epsilon)
    limit = check_whole("max_iterations", max_iterations, least=1)
    # all three where the largest is: their values are subtracted in float64
    batch, size = x.shape[:-2].numel(), max(x.shape[-2], y.shape[-2])
    engine = "cpu" if on_cpu(engine, x.device.type, batch, size, size, epsilon) else "device"
    terms = Terms(epsilon, tau, divergence)
    if batch == 1 and epsilon > 0 and size * size > _placement.LARGEST_MATRIX and engine == "cpu":
        result = _streamed((x, y, a, b), cost, terms, tol, limit)
    else:
        result = _by_matrices((x, y, a, b), ground, terms, tol, limit, engine)
    result = returned(result, x.dtype, x.device)
    return result.detach().numpy() if numpy else result


def _by_matrices(inputs: Any, ground: Cost, terms: Terms, tol: float, limit: int, engine: str) -> Tensor:
    """Of clouds whose three matrices fit into memory."""
    x, y, a, b = inputs
    epsilon = terms.epsilon
    if engine == "cpu":
        n, m = x.shape[-2], y.shape[-2]
        # three costs and three plans are kept, and one of the problems is being solved
        kept, entries = x.dtype.itemsize + 8, x.shape[:-2].numel() * (n * m + n * n + m * m)
        each = kept + bytes_per_entry(epsilon, terms.tau == math.inf, False) / 3
        check_room("x, y", entries, each, f"the divergence of {n:,} and {m:,} points", announce=True)
    if _debiased.fits(ground, x, y):
        solutions = _debiased.solve_three(inputs, terms, tol, limit)
        warn_if_short(*solutions, stacklevel=5)
        return _debiased.divergence(inputs, solutions)

    def transport(u: Tensor, v: Tensor, p: Tensor | None, q: Tensor | None) -> Solution:
        c, p, q = placed(engine, epsilon, ground(u, v), p, q)
        problem = make_problem(c, p, q, terms)
        return solve_problem(problem, None, tol, limit, (c, p, q), False, symmetric=u is v)

    between, *within = transport(x, y, a, b), transport(x, x, a, a), transport(y, y, b, b)
    warn_if_short(between, *within, stacklevel=5)
    (value, _), (value_x, gap_x), (value_y, gap_y) = (s._in_double for s in (between, *within))
    found: Tensor = debiased(value, value_x - gap_x, value_y - gap_y, epsilon, excess_mass(*between._inputs[1:]))
    return found


def _streamed(inputs: Any, cost: str | Cost, terms: Terms, tol: float, limit: int) -> Tensor:
    """Of clouds whose matrices would not fit: the three problems from their points."""
    from jumbot.transport._points.solve_sample import solve_sample

    x, y, a, b = inputs
    shape = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    how: Any = {"cost": cost, "tol": tol, "max_iterations": limit}
    how |= {"epsilon": terms.epsilon, "tau": terms.tau, "divergence": terms.divergence}
    found = [solve_sample(*clouds, **how) for clouds in ((x, y, a, b), (x, x, a, a), (y, y, b, b))]
    gaps = [torch.tensor(s._solved[0].proof.gap, dtype=torch.float64) for s in found]
    values = [s._in_double.reshape(()) for s in found]
    below = values[1] - gaps[1], values[2] - gaps[2]
    return debiased(values[0], *below, terms.epsilon, excess_mass(a, b)).reshape(shape)


def _apart(x: Array, *others: Array | None, **settings: Any) -> Any:
    """`sinkhorn_divergence` out of the reach of `torch.compile` and `torch.autocast`."""
    if torch.compiler.is_compiling():  # one break of the graph, instead of one for each decision
        return _uncompiled(x, *others, **settings)
    with torch.autocast(autocast(x) or "cpu", enabled=False):
        return sinkhorn_divergence(x, *others, **settings)


_uncompiled = uncompiled(sinkhorn_divergence, "jumbot.sinkhorn_divergence")
