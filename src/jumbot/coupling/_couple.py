"""`jumbot.couple`: two minibatches, re-paired by their transport plan."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from jumbot.cost import Cost, parse_cost
from jumbot.coupling._conditions import condition_cost
from jumbot.coupling._pairs import find_pairs
from jumbot.errors import ArgumentError, hinting
from jumbot.options import Seed, check
from jumbot.transport.checks import Array, check_dense, check_flag, check_number, check_whole, from_numpy
from jumbot.transport.divergences import Divergence
from jumbot.transport.draws import Generator, check_generator

Points = TypeVar("Points", Tensor, np.ndarray)


class _Settings(TypedDict, total=False):
    """The keywords of `couple`, for its three signatures."""

    divergence: str | Divergence
    mass: float | None
    cost: str | Cost
    tol: float
    conditions: tuple[Any, Any, float] | None
    draw: int | None
    replace: bool | None


@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: Literal[False] = False,
    return_mass: Literal[False] = False, **settings: Unpack[_Settings],
) -> tuple[Points, Points]: ...  # fmt: skip
@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: Literal[True],
    return_mass: Literal[False] = False, **settings: Unpack[_Settings],
) -> tuple[Points, Points, Points, Points]: ...  # fmt: skip
@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: Literal[False] = False,
    return_mass: Literal[True], **settings: Unpack[_Settings],
) -> tuple[Points, Points, Points]: ...  # fmt: skip
@overload
def couple(
    x0: Points, x1: Points, epsilon: float = 0.0, tau: float | tuple[float, float] = math.inf, seed: int | None = None,
    generator: Generator | None = None, *, return_index: bool = False, return_mass: bool = False,
    **settings: Unpack[_Settings],
) -> tuple[Points, ...]: ...  # fmt: skip
@hinting
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
    conditions: tuple[Any, Any, float] | None = None,
    draw: int | None = None,
    replace: bool | None = None,
    return_mass: bool = False,
) -> tuple[Array, ...]:
    r"""A minibatch re-paired by its plan P: rows :math:`(x_{0,i}, x_{1,j})` with :math:`(i, j) \sim P / \sum P`.

    Balanced, exact and between equally many points (the default) the plan is a permutation, and nothing is drawn: x0
    comes back as it is and each row of x1 exactly once.  In every other case pairs are drawn with
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
        "sqeuclidean", "euclidean", "cosine", "wfr" (for growth: infinite from a distance of pi/2 on), or a callable
        that takes the points as `(n, d)` and `(m, d)` and returns `(n, m)`.
    seed, generator
        One of them at most: a whole number, or a `torch.Generator` or `numpy.random.Generator` that is carried from
        one minibatch to the next.  Without either each call draws anew; the global generators are left alone.
    return_index
        Also return i and j, for what belongs to the points: `labels1[j]`.
    conditions
        `(c0, c1, weight)`: what the pairs should have in common, one row for each of x0 and x1.  Numbers add
        `weight * |c0 - c1|^2` to the cost; labels (integers, texts) add `weight` where they differ.
    draw
        How many pairs to return, more or fewer than there are points; `len(x0)` by default.
    replace
        None: as described above.  True: always drawn from the plan, with replacement.  False: each sample at most once,
        by rounding the plan to the assignment that holds most of its mass; fewer pairs than that (`draw`) are chosen
        among them by their mass, without replacement.
    return_mass
        Also return, last, by which factor mass grows along each pair,
        :math:`\frac{(P 1)_i / a_i}{(P^\top 1)_j / b_j}`: one for balanced plans, the growth of the source points with
        `tau=(t, math.inf)`.

    Returns
    -------
    tuple
        x0 and x1 paired row by row; then i and j with `return_index`; then the growth with `return_mass`.

    Raises
    ------
    ArgumentError
        Where arguments do not fit each other, by name, or the plan has no mass.

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
    return_index, return_mass = check_flag("return_index", return_index), check_flag("return_mass", return_mass)
    replace = None if replace is None else check_flag("replace", replace)
    draw = None if draw is None else check_whole("draw", draw, least=1)
    matrix = parse_cost(cost)(points0, points1)
    if not isinstance(matrix, Tensor) or matrix.shape != (len(x0), len(x1)):
        found = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
        raise ArgumentError(f"cost: the callable returned {found}, not a tensor of shape {(len(x0), len(x1))}.")
    if not math.isfinite(float(matrix.sum())):  # one look at the costs is quicker than one at every coordinate
        for name, points in (("x0", points0), ("x1", points1)):
            if not bool(torch.isfinite(points).all()):
                raise ArgumentError(f"{name}: holds NaN or infinite values; clean them first.")
    matrix = matrix.detach()
    if conditions is not None:
        matrix = matrix + condition_cost(conditions, (len(x0), len(x1)), matrix)
    settings = {"epsilon": epsilon, "tau": tau, "divergence": divergence, "mass": mass}
    pairs = find_pairs(matrix, settings, tol, draw, replace, generator)
    i, j, growth = (x.numpy() if numpy else x for x in (pairs.i, pairs.j, pairs.growth))
    return x0[i], x1[j], *((i, j) if return_index else ()), *((growth,) if return_mass else ())


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
