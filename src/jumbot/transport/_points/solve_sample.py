"""`jumbot.solve_sample`: transport between clouds of points whose matrix of costs would not fit into memory."""

from __future__ import annotations

import math
from typing import Any, Required, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from jumbot._base.options import check_non_negative, check_whole
from jumbot.cost import COSTS, Cost, parse_cost
from jumbot.errors import UnsupportedError, hinting
from jumbot.transport._certificate import reachable
from jumbot.transport._checks import Array, as_tensor, read_clouds, read_start
from jumbot.transport._marginal import marginals
from jumbot.transport._points.engine_choice import Call, solve_one
from jumbot.transport._points.sample_solution import SampleSolution
from jumbot.transport._problem import Problem, check_reference, refuse_absent, weights_between
from jumbot.transport._solution import warn_of_statuses
from jumbot.transport.divergences import Divergence

MAX_ITERATIONS = 10_000


class _Settings(TypedDict, total=False):
    """The keywords of `solve_sample`, for its two signatures."""

    cost: str | Cost
    epsilon: Required[float]
    tau: float | tuple[float, float]
    divergence: str | Divergence
    reference: str
    mass: None
    tol: float
    max_iterations: int
    init: Any
    memory: int | None


@overload
def solve_sample(
    x: Tensor, y: Array, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> SampleSolution[Tensor]: ...
@overload
def solve_sample(
    x: ArrayLike, y: Array, a: Array | None = None, b: Array | None = None, **settings: Unpack[_Settings]
) -> SampleSolution[np.ndarray]: ...
@hinting
def solve_sample(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    cost: str | Cost = "sqeuclidean",
    epsilon: float,
    tau: float | tuple[float, float] = math.inf,
    divergence: str | Divergence = "kl",
    reference: str = "product",
    mass: None = None,
    tol: float = 1e-4,
    max_iterations: int = MAX_ITERATIONS,
    init: Any = None,
    memory: int | None = None,
) -> SampleSolution:
    r"""Entropic transport between clouds of points, with a certificate, in memory that is linear in their number.

    .. math::
        \min_{P \ge 0} \sum_{ij} c(x_i, y_j) P_{ij} + \varepsilon\, \mathrm{KL}(P \mid R)
        + \tau_a D_\varphi(P 1 \mid a) + \tau_b D_\varphi(P^\top 1 \mid b)

    The problem is that of `jumbot.solve`, but no matrix is stored: entries of the plan are computed in tiles when they
    are needed.  Tiles that cannot matter are left out, and the mass that they could have is part of `gap`.

    Parameters
    ----------
    x, y : arrays of shape (..., n, d) and (..., m, d)
        The points, torch or numpy, float32 or float64; leading axes are a batch of problems, solved one after the
        other.  Points on a GPU are solved on the CPU.
    a, b : arrays of shape (..., n) and (..., m), optional
        Weights of any positive mass, zeros allowed; by default uniform with mass one.
    cost : str or callable, default "sqeuclidean"
        "sqeuclidean", "euclidean", "cosine", "wfr" (-log cos^2 of the distance, infinite for pi/2 and more), or a
        callable that takes blocks `(k, d)` and `(l, d)` as tensors and returns `(k, l)`, for which all pairs are
        computed.
    epsilon : float
        Strength of the entropy, > 0; for exact plans, see `jumbot.solve`.
    tau, divergence, reference
        As in `jumbot.solve`.
    mass : None
        Not supported; for partial transport, see `jumbot.solve`.
    tol : float
        Bound on `SampleSolution.relative_gap`.
    max_iterations : int
        The largest number of sweeps.  If it is reached, a warning is given and `SampleSolution.status` says so.
    init : solution or pair of arrays, optional
        The solution of a similar problem, or its potentials (f, g), to start from.
    memory : int, optional
        The number of bytes that may be used in addition to the points; by default unlimited.

    Returns
    -------
    SampleSolution
        The fields of `jumbot.Solution` except `plan`; instead `apply`, `barycentric_map`, `top`, `row`, `sample` and
        `to_sparse`.  Ctrl-C returns the current result, with its true gap.

    Raises
    ------
    ArgumentError
        If an argument is invalid; `UnsupportedError` for `epsilon=0` and `mass`.

    Examples
    --------
    >>> import jumbot, numpy as np
    >>> x = np.random.default_rng(0).random((5000, 2))
    >>> sol = jumbot.solve_sample(x, x + 0.1, epsilon=0.01, tau=0.1)
    >>> sol.converged, bool(sol.relative_gap <= 1e-4), sol.barycentric_map().shape
    (True, True, (5000, 2))
    """
    epsilon = _check_offered(epsilon, mass)
    numpy = not isinstance(x, Tensor)
    x, y, batch = read_clouds(x, y)
    a = None if a is None else as_tensor(a, "a", x, numpy)
    b = None if b is None else as_tensor(b, "b", x, numpy)
    tol, limit = check_non_negative("tol", tol), check_whole("max_iterations", max_iterations, least=1)
    most = None if memory is None else check_whole("memory", memory, least=1)
    source, target = marginals(divergence, tau)
    check_reference(reference)
    n, m = x.shape[-2], y.shape[-2]
    like = torch.zeros(1, 1, 1, dtype=torch.float64).expand(1, n, m)
    weights = weights_between(a, b, (n, m), batch, source, target, x.dtype)
    if reference != "product":
        refuse_absent(source, weights[0], "a")
        refuse_absent(target, weights[1], "b")
    start = None if init is None else read_start(init, (n, m), batch, numpy=False)
    points = [z.detach().cpu().expand(*batch, *z.shape[-2:]).reshape(-1, *z.shape[-2:]) for z in (x, y)]
    ground = next((name for name, known in COSTS.items() if known is cost), cost)
    parse_cost(ground)
    call = Call(ground, reachable(tol, epsilon), limit, most)
    solved = []
    for k in range(math.prod(batch)):
        problem = Problem(like, weights[0][k : k + 1], weights[1][k : k + 1], epsilon, source, target, reference)
        begin = start and (start[0][k : k + 1], start[1][k : k + 1])
        solved.append(solve_one(problem, points[0][k], points[1][k], call, begin))
    graph = torch.is_grad_enabled() and any(z is not None and z.requires_grad for z in (x, y, a, b))
    solution: SampleSolution = SampleSolution(solved, batch, tol, limit, (x, y, a, b), numpy, graph)
    worst = max(s.proof.relative_gap for s in solved)
    warn_of_statuses(solution._statuses, worst, tol, stacklevel=4)  # past this function and its `hinting`
    return solution


def _check_offered(epsilon: Any, mass: Any) -> float:
    if mass is not None:
        raise UnsupportedError(
            "mass: partial transport is not supported from points; pass the cost matrix to jumbot.solve."
        )
    epsilon = check_non_negative("epsilon", epsilon)
    if epsilon == 0:
        raise UnsupportedError("epsilon: must be > 0 from points; exact plans need the matrix, see jumbot.solve.")
    return epsilon
