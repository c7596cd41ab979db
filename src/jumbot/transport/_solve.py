"""`jumbot.solve`: one function for every transport problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Required, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from jumbot._base.options import check_non_negative, check_whole
from jumbot.errors import UnboundedError, hinting
from jumbot.transport._certificate import reachable
from jumbot.transport._checks import Array, as_tensor, autocast, read_start, uncompiled
from jumbot.transport._gradients import Inputs
from jumbot.transport._outcome import AnyOutcome
from jumbot.transport._placement import LARGE, bytes_per_entry, check_room, placed
from jumbot.transport._problem import Problem, Terms, make_problem
from jumbot.transport._restated import (
    capped,
    divided,
    inner_tol,
    make_tilted,
    multiplied,
    start_in,
    unit,
    unmissed,
    untilted,
)
from jumbot.transport._solution import Solution, warn_of_statuses
from jumbot.transport.divergences import Divergence

MAX_ITERATIONS = 100_000


class _Settings(TypedDict, total=False):
    """The keywords of `solve`, for its two signatures."""

    epsilon: Required[float]
    tau: float | tuple[float, float]
    divergence: str | Divergence
    reference: str | Array
    mass: float | None
    tol: float
    max_iterations: int
    init: Solution | tuple[Array, Array] | None
    engine: str


@overload
def solve(
    cost: Tensor, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> Solution[Tensor]: ...
@overload
def solve(
    cost: ArrayLike, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> Solution[np.ndarray]: ...
@hinting
def solve(
    cost: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    epsilon: float,
    tau: float | tuple[float, float] = math.inf,
    divergence: str | Divergence = "kl",
    reference: str | Array = "product",
    mass: float | None = None,
    tol: float = 1e-10,
    max_iterations: int = MAX_ITERATIONS,
    init: Solution | tuple[Array, Array] | None = None,
    engine: str = "auto",
) -> Solution:
    r"""Optimal transport, balanced or unbalanced, entropic or exact, with a certificate.

    .. math::
        \min_{P \ge 0} \langle C, P\rangle + \varepsilon\, \mathrm{KL}(P \mid R)
        + \tau_a D_\varphi(P 1 \mid a) + \tau_b D_\varphi(P^\top 1 \mid b)

    Parameters
    ----------
    cost : array of shape (..., n, m)
        The cost matrix C, torch or numpy; leading axes are a batch of problems.  Half precision is solved and returned
        in float32, integers in float64.  `+inf` means "never matched" if tau is finite.
    a, b : arrays of shape (..., n) and (..., m), optional
        Weights of any positive mass, zeros allowed; by default uniform with mass one.  Their leading axes broadcast
        with those of the cost: `(k, n)` with a single cost `(n, m)` are k problems.
    epsilon : float
        Strength of the entropy; 0 solves exactly (balanced, KL, TV and partial transport).
    tau : float or pair of float, default math.inf
        Penalty for violating the marginals, or a pair (source, target); `math.inf` makes a marginal exact.
    divergence : str or Divergence, default "kl"
        "kl", "tv", "chi2", "l2" (tau/2 times the squared violation, as in POT), "range(lo,hi)" (marginals within [lo a,
        hi a]; leave tau out), "power(p)", or a `Divergence`.
    reference : {"product", "ones"} or array of shape (..., n, m), default "product"
        R: "product" is a b' (the paper), "ones" the all-ones matrix (its published code); or your own matrix >= 0
        (POT's `c`), where pairs with a zero are never matched.
    mass : float, optional
        Transport exactly this mass (partial transport), with the default tau and divergence.
    tol : float, default 1e-10
        Bound on `Solution.relative_gap`.  The error of the plan and of gradients is of the order of its square root.
    max_iterations : int
        The largest number of sweeps.  If it is reached, a warning is given and `Solution.status` says so.
    init : Solution or pair of arrays, optional
        The solution of a similar problem, or its potentials, to start from; it affects the speed, not the result.
    engine : {"auto", "cpu", "device"}, default "auto"
        Where a problem on a GPU is solved: on the GPU ("device"), on the CPU ("cpu"), or depending on its size
        ("auto"), because for small problems launching GPU operations takes longer than solving on the CPU.  The result
        is on the device of the cost.

    Returns
    -------
    Solution
        The plan, its cost and its certificate; a single problem is a batch of one, squeezed.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, the shapes do not match, or no plan meets both marginals.
    jumbot.UnboundedError
        If some cost is so negative that transporting ever more mass pays.
    jumbot.TooLargeError
        If the problem does not fit into memory.

    Examples
    --------
    >>> import torch, jumbot
    >>> cost = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    >>> solution = jumbot.solve(cost, epsilon=0.0, tau=1.0)
    >>> solution.plan
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]], dtype=torch.float64)
    """
    if torch.compiler.is_compiling() or autocast(cost):
        return _apart(
            cost,
            a,
            b,
            epsilon=epsilon,
            tau=tau,
            divergence=divergence,
            reference=reference,
            mass=mass,
            tol=tol,
            max_iterations=max_iterations,
            init=init,
            engine=engine,
        )
    numpy = not isinstance(cost, Tensor)
    cost = as_tensor(cost, "cost", numpy=numpy)
    a = None if a is None else as_tensor(a, "a", cost, numpy)
    b = None if b is None else as_tensor(b, "b", cost, numpy)
    R = None if isinstance(reference, str) else as_tensor(reference, "reference", cost, numpy)
    epsilon, given = check_non_negative("epsilon", epsilon), cost.device
    cost, a, b, R = placed(engine, epsilon, cost, a, b, R)
    cost = _broadcast(cost, a, b)
    if cost.device.type == "cpu" and cost.numel() >= LARGE:
        exact = tau == math.inf or (isinstance(tau, tuple | list) and math.inf in tau)
        each = bytes_per_entry(epsilon, exact, mass is not None)
        check_room("cost", cost.numel(), each, f"to solve problems of shape {tuple(cost.shape)}")
    terms = Terms(epsilon, tau, divergence, reference if R is None else R, mass)
    problem = (make_problem if R is None else make_tilted)(cost, a, b, terms)
    tol = check_non_negative("tol", tol)
    limit = check_whole("max_iterations", max_iterations, least=1)
    start = None if init is None else read_start(init, cost.shape[-2:], cost.shape[:-2], numpy, cost.device)
    solution = solve_problem(problem, start, tol, limit, (cost, a, b), numpy, device=given)
    warn_if_short(solution)
    return solution


def _apart(cost: Array, *weights: Array | None, **settings: Any) -> Solution:
    """`solve` out of the reach of `torch.compile` and `torch.autocast`."""
    if torch.compiler.is_compiling():  # one break of the graph, instead of one for each decision and each field read
        return _uncompiled(cost, *weights, **settings)
    with torch.autocast(autocast(cost) or "cpu", enabled=False):
        return solve(cost, *weights, **settings)


def _broadcast(cost: Tensor, a: Tensor | None, b: Tensor | None) -> Tensor:
    """The cost as a batch where only the weights are one: `(k, n)` against `(n, m)` are k problems."""
    batches = [x.shape[:-1] for x in (a, b) if x is not None and x.ndim > 1]
    if cost.ndim < 2 or not batches:
        return cost
    try:
        batch = torch.broadcast_shapes(cost.shape[:-2], *batches)
    except RuntimeError:
        return cost  # `check_weights` says which of them does not fit
    return cost if batch == cost.shape[:-2] else cost.expand(*batch, *cost.shape[-2:])


def _read(*arguments: Any, **settings: Any) -> Solution:
    """`solve`, with all fields read."""
    solution = solve(*arguments, **settings)
    for name, field in vars(Solution).items():
        if isinstance(field, cached_property):
            getattr(solution, name)
    return solution


_uncompiled: Callable[..., Solution] = uncompiled(_read, "jumbot.solve")


def find_outcome(
    problem: Problem,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
    limit: int,
    symmetric: bool = False,
    swept: int = 0,
) -> AnyOutcome:
    """By the engine that fits; `symmetric` promises equal sides, `swept` is the number of sweeps that led to
    `start`."""
    if not problem.well_scaled and (cheaper := capped(problem)) is not None:
        found = find_outcome(cheaper, start, tol, limit, symmetric, swept)
        if unmissed(found):
            return found
    if not problem.well_scaled and (by := unit(problem)) != 1.0:
        try:
            found = find_outcome(divided(problem, by), start_in(start, by), tol, limit, symmetric, swept)
        except UnboundedError as error:
            raise error.times(by) from None
        return multiplied(found, by)
    tol = reachable(tol, problem.epsilon)
    if problem.epsilon == 0:
        from jumbot.transport._exact.solver import solve_unregularised

        return solve_unregularised(problem, start, tol, limit)
    from jumbot.transport._entropic.solver import solve_entropic

    return solve_entropic(problem, start, tol, limit, symmetric, swept)


def solve_problem(
    problem: Problem,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
    limit: int,
    inputs: Inputs,
    numpy: bool,
    symmetric: bool = False,
    device: torch.device | None = None,
) -> Solution:
    """Solve a checked problem; `inputs` are what gradients are taken in, the answer goes to `device`."""
    outcome = untilted(problem, find_outcome(problem, start, inner_tol(problem, tol), limit, symmetric))
    graph = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    return Solution(problem, outcome, tol, limit, inputs, numpy, graph, device or inputs[0].device)


def warn_if_short(*solutions: Solution, stacklevel: int = 4) -> None:
    """One `NotConvergedWarning` for all problems that stopped above `tol`.

    The `stacklevel` is that of a call from the public function itself, past its `hinting`.
    """
    if short := [s for s in solutions if not s._all_converged]:
        statuses = [status for s in solutions for status in s._statuses.tolist()]
        worst = max(float(s._outcome.certificate.relative_gap.max()) for s in short)
        warn_of_statuses(statuses, worst, short[0]._tol, stacklevel + 1)
