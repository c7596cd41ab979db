"""Minibatches re-paired by transport: the couplings of flow matching and of other generative models."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError
from jumbot.options import Seed, check
from jumbot.transport.checks import Array, check_dense, check_flag, check_number, from_numpy
from jumbot.transport.divergences import Divergence
from jumbot.transport.draws import Generator, check_generator
from jumbot.transport.problem import make_problem
from jumbot.transport.solve import solve

Points = TypeVar("Points", Tensor, np.ndarray)


class _Settings(TypedDict, total=False):
    """The keywords of `couple`, for its three signatures."""

    divergence: str | Divergence
    mass: float | None
    cost: str | Cost
    tol: float


@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: Literal[False] = False, **settings: Unpack[_Settings],
) -> tuple[Points, Points]: ...  # fmt: skip
@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: Literal[True], **settings: Unpack[_Settings],
) -> tuple[Points, Points, Points, Points]: ...  # fmt: skip
@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: bool, **settings: Unpack[_Settings],
) -> tuple[Points, ...]: ...  # fmt: skip
def couple(
    x0: Array,
    x1: Array,
    epsilon: float = 0.0,
    tau: float | tuple[float, float] = math.inf,
    seed: int | None = None,
    generator: Generator | None = None,
    *,
    divergence: str | Divergence = "kl",
    mass: float | None = None,
    cost: str | Cost = "sqeuclidean",
    tol: float = 1e-6,
    return_index: bool = False,
) -> tuple[Array, ...]:
    r"""A minibatch re-paired by its plan P: rows :math:`(x_{0,i}, x_{1,j})` with :math:`(i, j) \sim P / \sum P`.

    Balanced, exact and between equally many points (the default) the plan is a permutation, and nothing is drawn: x0
    comes back as it is and each row of x1 exactly once.  In every other case `len(x0)` pairs are drawn with
    replacement: with `epsilon > 0` from the entropic plan, with a finite `tau` (or `mass`) from the normalised
    unbalanced (or partial) plan, in which points without a counterpart hardly appear.

    Parameters
    ----------
    x0, x1
        `(n, ...)` and `(m, ...)` with the same trailing shape and dtype, both torch or both numpy.  Rows of torch
        tensors keep their gradients; none passes through the plan.
    epsilon, tau, divergence, mass, tol
        The problem between both minibatches, as in `jumbot.solve`, each point of weight 1/n or 1/m.
    cost
        "sqeuclidean", "euclidean", "cosine", "wfr" (-log cos^2 of the distance, infinite from pi/2 on), or a callable
        that takes the points as `(n, d)` and `(m, d)` and returns `(n, m)`.
    seed, generator
        One of them at most: a whole number, or a `torch.Generator` or `numpy.random.Generator` that is carried from
        one minibatch to the next.  Without either each call draws anew; the global generators are left alone.
    return_index
        Also return i and j, for what belongs to the points: `labels1[j]`.

    Examples
    --------
    >>> import jumbot, torch
    >>> x0, x1 = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[2.5], [0.5], [1.5]])
    >>> jumbot.couple(x0, x1)[1].flatten()
    tensor([0.5000, 1.5000, 2.5000])
    >>> z0, z1, i, j = jumbot.couple(x0, x1, epsilon=0.1, tau=1.0, seed=0, return_index=True)
    >>> bool((z1 == x1[j]).all())
    True
    """
    check_dense(x0, "x0")
    check_dense(x1, "x1")
    numpy = not isinstance(x0, Tensor)
    x0, x1 = (np.asarray(x0), np.asarray(x1)) if numpy and not isinstance(x1, Tensor) else (x0, x1)
    points0, points1 = _points(x0, x1)
    generator, tol = _generator(seed, generator), check_number("tol", tol, least=0)
    return_index = check_flag("return_index", return_index)
    matrix = parse_cost(cost)(points0, points1)
    if not isinstance(matrix, Tensor) or matrix.shape != (len(x0), len(x1)):
        found = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
        raise ArgumentError(f"cost: the callable returned {found}, not a tensor of shape {(len(x0), len(x1))}.")
    if not math.isfinite(float(matrix.sum())):  # one look at the costs is quicker than one at every coordinate
        for name, points in (("x0", points0), ("x1", points1)):
            if not bool(torch.isfinite(points).all()):
                raise ArgumentError(f"{name}: holds NaN or infinite values; clean them first.")
    i, j = _pairs(matrix.detach(), epsilon, tau, divergence, mass, tol, generator)
    index = (i.numpy(), j.numpy()) if numpy else (i, j)
    pair = x0[index[0]], x1[index[1]]
    return (*pair, *index) if return_index else pair


def _pairs(
    cost: Tensor, epsilon: float, tau: Any, divergence: str | Divergence, mass: float | None, tol: float,
    generator: Generator,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    n, m = cost.shape
    problem = make_problem(
        cost, None, None, epsilon=epsilon, tau=tau, divergence=divergence, reference="product", mass=mass
    )
    if n == m and problem.epsilon == 0 and problem.source.exact and problem.target.exact:
        from jumbot.transport.exact.assignment import permutation  # numba takes a moment to load

        j = torch.from_numpy(permutation(cost.cpu().numpy())).to(cost.device)
        return torch.arange(n, device=cost.device), j
    solution = solve(cost, epsilon=epsilon, tau=tau, divergence=divergence, mass=mass, tol=tol)
    return solution.sample(n, generator)


def _points(x0: Any, x1: Any) -> tuple[Tensor, Tensor]:
    """Both minibatches as `(n, d)`, detached, in a dtype that costs can be computed in, or what is wrong with them."""
    if isinstance(x0, Tensor) != isinstance(x1, Tensor):
        kinds = ["torch" if isinstance(x, Tensor) else "numpy" for x in (x0, x1)]
        raise ArgumentError(f"x0, x1: {kinds[0]} beside {kinds[1]}; pass both as torch or both as numpy.")
    if x0.ndim == 0 or x1.ndim == 0 or x0.shape[1:] != x1.shape[1:] or 0 in (*x0.shape, *x1.shape):
        raise ArgumentError(
            f"x0, x1: shapes {tuple(x0.shape)} and {tuple(x1.shape)}; they must be (n, ...) and (m, ...) with the same "
            "trailing shape, not empty."
        )
    if x0.dtype != x1.dtype:
        raise ArgumentError(f"x0, x1: {x0.dtype} beside {x1.dtype}; convert one of them.")
    if isinstance(x0, Tensor) and x0.device != x1.device:
        raise ArgumentError(f"x0, x1: on {x0.device} and on {x1.device}; move one of them.")
    out = []
    for name, x in (("x0", x0), ("x1", x1)):
        if not isinstance(x, Tensor):
            if x.dtype.kind not in "fiub":
                raise ArgumentError(f"{name}: dtype {x.dtype}; pass numbers.")
            x = from_numpy(x.astype(np.float32 if x.dtype == np.float32 else np.float64, copy=False))
        if x.is_complex():
            raise ArgumentError(f"{name}: dtype {x.dtype}; pass real numbers.")
        flat = x.detach().reshape(len(x), -1)
        if flat.dtype not in (torch.float32, torch.float64):
            flat = flat.float() if flat.is_floating_point() else flat.double()
        out.append(flat)
    return out[0], out[1]


def _generator(seed: int | None, generator: Generator | None) -> Generator:
    if seed is None:
        return check_generator(generator)
    if generator is not None:
        raise ArgumentError("seed, generator: both came in; pass one of them.")
    return np.random.default_rng(check("seed", seed, Seed))
