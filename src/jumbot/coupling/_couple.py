"""`jumbot.couple`: two minibatches, re-paired by their transport plan."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import Seed, check, check_flag, check_non_negative, check_whole
from jumbot.cost import Cost, parse_cost, squared_euclidean
from jumbot.errors import ArgumentError, hinting
from jumbot.transport._checks import Array, called, check_dense, check_unmasked, from_numpy
from jumbot.transport._exact.assignment import permutation
from jumbot.transport._problem import Terms, make_problem
from jumbot.transport._solution import Generator, check_generator, uniform
from jumbot.transport._solve import solve
from jumbot.transport.divergences import Divergence


def condition_cost(conditions: Any, sizes: tuple[int, int], like: Tensor) -> Tensor:
    """weight |c0_i - c1_j|^2 of numbers; of labels (integers, texts, truth values) weight where they differ."""
    if not isinstance(conditions, tuple | list) or len(conditions) != 3:
        raise ArgumentError("conditions must be (c0, c1, weight): the conditions of x0 and x1, and their weight.")
    weight = check_non_negative("conditions", conditions[2])
    arrays = [_array(c, size, f"c{k}") for k, (c, size) in enumerate(zip(conditions[:2], sizes, strict=True))]
    numbers = [isinstance(c, Tensor) for c in arrays]
    if numbers[0] != numbers[1]:
        raise ArgumentError("conditions must both be labels or both be numbers, got one of each.")
    if not numbers[0]:
        kinds = [c.dtype.kind in "US" for c in arrays]
        if kinds[0] != kinds[1]:
            raise ArgumentError("conditions must both be texts or both be whole numbers, got one of each.")
        codes = np.unique(np.concatenate(arrays), axis=0, return_inverse=True)[1].reshape(-1)
        left, right = (torch.from_numpy(part).to(like.device) for part in np.split(codes, [sizes[0]]))
        return weight * (left[:, None] != right).to(like.dtype)
    left, right = (c.to(like) for c in arrays)
    if left.shape[1] != right.shape[1]:
        raise ArgumentError(f"conditions must have the same shape, got {left.shape[1]} and {right.shape[1]} numbers.")
    return weight * squared_euclidean(left, right)


def _array(condition: Any, size: int, name: str) -> Any:
    """Numbers as a tensor `(size, k)`, labels as an array `(size, k)`."""
    check_unmasked(condition, "conditions")
    if isinstance(condition, Tensor):
        condition = condition.detach()
        array: Any = condition if condition.is_floating_point() else condition.cpu().numpy()
    else:
        array = np.asarray(condition)
        array = from_numpy(array) if array.dtype.kind == "f" else array
    if array.ndim == 0 or len(array) != size:
        raise ArgumentError(f"conditions: {name} must have {size} rows, got the shape {tuple(array.shape)}.")
    if isinstance(array, Tensor):
        if not bool(array.isfinite().all()):
            raise ArgumentError(f"conditions: {name} contains NaN or infinite values.")
        return array.reshape(size, -1)
    if array.dtype.kind not in "iubUS":
        raise ArgumentError(f"conditions: {name} must hold numbers or labels, got the dtype {array.dtype}.")
    return array.reshape(size, -1)


_TIE = 1e-9  # of the largest entry: among pairs that the plan does not distinguish, the cheaper ones are taken


def find_pairs(
    cost: Tensor, terms: Terms, tol: float, draw: int | None, replace: bool | None, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows i and j, and by which factor mass grows from one to the other."""
    n, m = cost.shape
    count = n if draw is None else draw
    if replace is False and count > min(n, m):
        if draw is not None:
            raise ArgumentError(f"draw must be at most {min(n, m)} with replace=False, which uses each sample once.")
        count = m  # fewer columns than rows
    problem = make_problem(cost, None, None, terms)
    balanced = problem.source.exact and problem.target.exact
    if n == m and problem.epsilon == 0 and balanced and replace is not True and (replace is False or count == n):
        j = torch.from_numpy(permutation(cost.cpu().numpy())).to(cost.device)
        i = torch.arange(n, device=cost.device)
        if count < n:
            i = _some(torch.ones_like(cost[0]), count, generator)
        return i, j[i], torch.ones_like(cost[0, :1]).expand(count)
    solution = solve(cost, **terms._asdict(), tol=tol)
    if replace is False:
        i, j = _assigned(solution.plan, cost)
        if count < len(i):
            kept = _some(solution.plan[i, j], count, generator)
            i, j = i[kept], j[kept]
    else:
        i, j = solution.sample(count, generator)
    rows, columns = solution.marginals
    grown, shrunk = n * rows[i], m * columns[j]
    growth = torch.where(shrunk > 0, grown / torch.where(shrunk > 0, shrunk, 1.0), 0.0)
    return i, j, growth


def _assigned(plan: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
    """The assignment on which the plan has most mass; each row, or each column if they are fewer, once."""
    from scipy.optimize import linear_sum_assignment

    finite = torch.where(cost.isfinite(), cost, 0.0)
    finite_cost = torch.where(cost.isfinite(), cost, 2 * finite.abs().max() + 1)
    score = plan / plan.max().clamp_min(1e-300) - _TIE * finite_cost / finite_cost.abs().max().clamp_min(1e-300)
    i, j = linear_sum_assignment(score.cpu().double().numpy(), maximize=True)
    return torch.from_numpy(i).to(cost.device), torch.from_numpy(j).to(cost.device)


def _some(weights: Tensor, count: int, generator: Generator) -> Tensor:
    """Places of `count` different entries, drawn by weight one after the other (by the largest of Gumbel keys)."""
    noise = uniform((1, len(weights)), generator)[0].to(weights.device).clamp_min(1e-300)
    keys = weights.double().log() - (-noise.log()).log()
    return keys.topk(count).indices.sort().values


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
    x0: Points,
    x1: Points,
    epsilon: float = 0.0,
    tau: float | tuple[float, float] = math.inf,
    seed: int | None = None,
    generator: Generator | None = None,
    *,
    return_index: Literal[False] = False,
    return_mass: Literal[False] = False,
    **settings: Unpack[_Settings],
) -> tuple[Points, Points]: ...
@overload
def couple(
    x0: Points,
    x1: Points,
    epsilon: float = 0.0,
    tau: float | tuple[float, float] = math.inf,
    seed: int | None = None,
    generator: Generator | None = None,
    *,
    return_index: Literal[True],
    return_mass: Literal[False] = False,
    **settings: Unpack[_Settings],
) -> tuple[Points, Points, Points, Points]: ...
@overload
def couple(
    x0: Points,
    x1: Points,
    epsilon: float = 0.0,
    tau: float | tuple[float, float] = math.inf,
    seed: int | None = None,
    generator: Generator | None = None,
    *,
    return_index: Literal[False] = False,
    return_mass: Literal[True],
    **settings: Unpack[_Settings],
) -> tuple[Points, Points, Points]: ...
@overload
def couple(
    x0: Points,
    x1: Points,
    epsilon: float = 0.0,
    tau: float | tuple[float, float] = math.inf,
    seed: int | None = None,
    generator: Generator | None = None,
    *,
    return_index: bool = False,
    return_mass: bool = False,
    **settings: Unpack[_Settings],
) -> tuple[Points, ...]: ...
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
    is returned unchanged and each row of x1 exactly once.  In every other case pairs are drawn with
    replacement: with `epsilon > 0` from the entropic plan, with a finite `tau` (or `mass`) from the normalised
    unbalanced (or partial) plan, in which points without a counterpart hardly appear.

    Parameters
    ----------
    x0, x1 : arrays of shape (n, ...) and (m, ...)
        The minibatches, with the same trailing shape and dtype, both torch or both numpy.  Rows of torch tensors keep
        their gradients, but no gradient flows through the plan.
    epsilon, tau, divergence, mass, tol
        The problem between the minibatches, as in `jumbot.solve`, with weights 1/n and 1/m; `tol` is 1e-6 by default.
    cost : str or callable, default "sqeuclidean"
        "sqeuclidean", "euclidean", "cosine", "wfr" (for growth; infinite for distances of pi/2 and more), or a
        callable that takes points `(n, d)` and `(m, d)` and returns `(n, m)`.
    seed : int, optional
        Random seed.  Without `seed` or `generator`, each call draws different pairs; global generators are not used.
    generator : torch.Generator or numpy.random.Generator, optional
        Used instead of `seed`, for example for all minibatches of a training run.
    return_index : bool, default False
        Also return i and j, to reorder what belongs to the points: `labels1[j]`.
    conditions : tuple (c0, c1, weight), optional
        What the pairs should have in common, one row for each row of x0 and of x1.  Numbers add
        `weight * |c0 - c1|^2` to the cost; labels (integers, strings) add `weight` if they differ.
    draw : int, optional
        The number of pairs to return; by default `len(x0)`.
    replace : bool, optional
        By default as described above.  True always draws from the plan with replacement.  False uses each sample at
        most once: the plan is rounded to the assignment with the largest share of its mass, and if `draw` is smaller,
        pairs are drawn from it by mass, without replacement.
    return_mass : bool, default False
        Also return, last, the factor by which mass grows along each pair,
        :math:`\frac{(P 1)_i / a_i}{(P^\top 1)_j / b_j}`: one for balanced plans, the growth of the source points with
        `tau=(t, math.inf)`.

    Returns
    -------
    tuple
        x0 and x1 paired row by row; then i and j with `return_index`; then the growth with `return_mass`.

    Raises
    ------
    ArgumentError
        If arguments do not fit each other, or the plan has no mass.

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
    generator, tol = _generator(seed, generator), check_non_negative("tol", tol)
    return_index, return_mass = check_flag("return_index", return_index), check_flag("return_mass", return_mass)
    replace = None if replace is None else check_flag("replace", replace)
    draw = None if draw is None else check_whole("draw", draw, least=1)
    matrix = called(parse_cost(cost), points0, points1)
    if not math.isfinite(float(matrix.sum())):  # one look at the costs is quicker than one at every coordinate
        for name, points in (("x0", points0), ("x1", points1)):
            if not bool(torch.isfinite(points).all()):
                raise ArgumentError(f"{name}: contains NaN or infinite values; clean them first.")
    matrix = matrix.detach()
    if conditions is not None:
        matrix = matrix + condition_cost(conditions, (len(x0), len(x1)), matrix)
    terms = Terms(epsilon, tau, divergence, mass=mass)
    pairs = find_pairs(matrix, terms, tol, draw, replace, generator)
    i, j, growth = (x.numpy() for x in pairs) if numpy else pairs
    return x0[i], x1[j], *((i, j) if return_index else ()), *((growth,) if return_mass else ())


def _points(x0: Any, x1: Any) -> tuple[Tensor, Tensor]:
    """Both minibatches as `(n, d)`, detached, in a dtype that costs can be computed in, or an error."""
    if isinstance(x0, Tensor) != isinstance(x1, Tensor):
        kinds = ["torch" if isinstance(x, Tensor) else "numpy" for x in (x0, x1)]
        raise ArgumentError(f"x0, x1: {kinds[0]} and {kinds[1]}; pass both as torch or both as numpy.")
    if x0.ndim == 0 or x1.ndim == 0 or x0.shape[1:] != x1.shape[1:] or 0 in (*x0.shape, *x1.shape):
        raise ArgumentError(
            f"x0, x1: shapes {tuple(x0.shape)} and {tuple(x1.shape)}; they must be (n, ...) and (m, ...) with the same "
            "trailing shape, not empty."
        )
    if x0.dtype != x1.dtype:
        raise ArgumentError(f"x0, x1: {x0.dtype} and {x1.dtype}; convert one of them.")
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
        raise ArgumentError("seed, generator: both were given; pass one of them.")
    return np.random.default_rng(check("seed", seed, Seed))
