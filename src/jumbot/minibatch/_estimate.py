"""`jumbot.estimate`: the minibatch estimators of transport, with their uncertainty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict, Unpack, overload

import numpy as np
import torch

from jumbot._base.distributed import gather, group, share, sum_over_processes
from jumbot._base.options import Seed, check, check_flag, check_non_negative, check_positive, check_whole
from jumbot._base.progress import progress
from jumbot.cost import Cost, parse_cost
from jumbot.errors import ArgumentError, NotConvergedWarning, hinting
from jumbot.minibatch import _sampling as sampling
from jumbot.minibatch._costs import Minibatches
from jumbot.minibatch._estimator import BiasCurve, Estimate, PlanBuilder
from jumbot.minibatch._losses import Loss
from jumbot.minibatch._sampling import Points, as_weights
from jumbot.minibatch._variance import Influence, amplitude
from jumbot.transport._checks import check_same_columns
from jumbot.transport._marginal import marginals
from jumbot.transport.divergences import Divergence

#: The complete estimator is refused above this many pairs of subsets.
MOST_PAIRS = 1_000_000
_COMPARED = 4096  # minibatches on which derivatives are compared with h itself
_FIRST_STAGE = 128  # minibatches from which `precision` first judges the spread
_CHUNK_ENTRIES = 1 << 21  # of the cost matrices of a chunk: malloc keeps arrays of at most 32 MB for reuse


class _Settings(TypedDict, total=False):
    """The keywords of `estimate` but m, for its two signatures."""

    k: int | Literal["all"] | None
    precision: float | None
    loss: str
    cost: str | Cost
    epsilon: Required[float]
    tau: float | tuple[float, float]
    divergence: str | Divergence
    reference: str
    tol: float
    seed: int
    plan: bool
    chunk: int | None
    cost_bound: float | None
    budget: int


@overload
def estimate(x: Any, y: Any, a: Any = None, b: Any = None, *, m: int, **settings: Unpack[_Settings]) -> Estimate: ...
@overload
def estimate(
    x: Any, y: Any, a: Any = None, b: Any = None, *, m: Sequence[int], **settings: Unpack[_Settings]
) -> BiasCurve: ...
@hinting
def estimate(
    x: Any,
    y: Any,
    a: Any = None,
    b: Any = None,
    *,
    m: int | Sequence[int],
    k: int | Literal["all"] | None = None,
    precision: float | None = None,
    loss: str = "transport",
    cost: str | Cost = "sqeuclidean",
    epsilon: float,
    tau: float | tuple[float, float] = math.inf,
    divergence: str | Divergence = "kl",
    reference: str = "product",
    tol: float = 1e-6,
    seed: int = 0,
    plan: bool = False,
    chunk: int | None = None,
    cost_bound: float | None = None,
    budget: int = 100_000,
) -> Estimate | BiasCurve:
    r"""The average transport loss between minibatches of two data sets.

    .. math::
        \bar h^m = \mathbb{E}_{I, J}\, h(x_I, y_J), \qquad
        \tilde h^m_k = \frac1k \sum_{(I, J) \in D_k} h(x_I, y_J)

    with h the value of `jumbot.solve` or the Sinkhorn divergence between m points of each side, and the complete
    estimator over all subsets (`k="all"`) or the incomplete one over k drawn pairs.

    Parameters
    ----------
    x, y : arrays of shape (n_x, d) and (n_y, d), or paths
        The points: numpy (also memory-mapped), torch, or the path of an `.npy` or `.npz` file.
    a, b : arrays of shape (n_x,) and (n_y,), optional
        Weights of the points; by default uniform with mass one.  Subsets are drawn uniformly with the weights a[I] n/m,
        so that the lifted weights average to a.  If both marginals are exact, points are drawn by weight with
        replacement and have equal weights in the minibatch.
    m : int or list of int
        Points per side in a minibatch.  A list gives one estimate for each, as a `BiasCurve`.
    k : int or "all", optional
        The number of minibatches.
    precision : float, optional
        Instead of k: draw minibatches until the 95 % interval for the complete estimator has this half-width, or
        `budget` is reached.
    loss : {"transport", "sinkhorn_divergence"}, default "transport"
        The loss h between two minibatches.
    cost : str or callable, default "sqeuclidean"
        The ground cost, by name or as a function `(x, y) -> C` of batches of points.
    epsilon, tau, divergence, reference, tol
        The problem of each minibatch, as in `jumbot.solve`; `tol` is 1e-6 by default.
    seed : int, default 0
        Minibatch i depends on (seed, i) only, not on chunks, threads or processes.
    plan : bool, default False
        Also compute the average plan, lifted to all points, as a sparse matrix: `Estimate.plan`.
    chunk : int, optional
        The number of minibatches solved at once, which limits the memory.
    cost_bound : float, optional
        An upper bound of the ground cost for `Estimate.bound`, if bounding boxes of the data give none.
    budget : int
        The largest number of minibatches that `precision` may draw.

    Returns
    -------
    Estimate or BiasCurve
        The mean over minibatches with its uncertainty; for a list of sizes, one estimate each.  Under `torchrun` the
        minibatches are split among the processes, and every one returns the same numbers.  Ctrl-C returns what is done
        so far, marked by `.interrupted`.

    Raises
    ------
    jumbot.ArgumentError
        If an argument is out of its range, or `k="all"` means too many pairs of subsets.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) + 1
    >>> result = jumbot.estimate(x, y, m=32, k=200, epsilon=0.1, tau=1.0)
    >>> low, high = result.interval()
    >>> low < result.value < high
    True
    """
    check_same_columns("x, y", x, y)
    source, target = _read_points(x, y, cost)
    sizes = _check_sizes(m, source, target)
    k, seed, plan = _check_count(k, precision), check("seed", seed, Seed), check_flag("plan", plan)
    weights = as_weights("a", a, source.n), as_weights("b", b, target.n)
    epsilon, tol = check_non_negative("epsilon", epsilon), check_non_negative("tol", tol)
    h = Loss(loss, epsilon, tau, divergence, reference, tol)
    constrained = all(side.hard for side in marginals(divergence, tau, exact=epsilon == 0))
    chunk = None if chunk is None else check_whole("chunk", chunk, least=1)
    budget = check_whole("budget", budget, least=2)
    parse_cost(cost)
    bound = None if cost_bound is None else check_non_negative("cost_bound", cost_bound)
    found = []
    for size in sizes:
        at_once = max(1, _CHUNK_ENTRIES // (size * size)) if chunk is None else chunk
        work = _Work(source, target, weights, size, h, cost, constrained, seed, at_once, plan)
        found.append(_estimated(work, k, precision, budget, bound))
    return BiasCurve(tuple(found)) if _several(m) else found[0]


def _several(m: Any) -> bool:
    return isinstance(m, Sequence | np.ndarray) and not isinstance(m, str) and np.ndim(m) > 0


def _check_sizes(m: Any, x: Points, y: Points) -> list[int]:
    sizes = [check_whole("m", size, least=1) for size in (m if _several(m) else [m])]
    if not sizes:
        raise ArgumentError("m must have at least one minibatch size, got an empty list.")
    for name, points in (("x", x), ("y", y)):
        if max(sizes) > points.n:
            raise ArgumentError(f"m: {max(sizes)} is more than the {points.n} points of {name}; use m <= {points.n}.")
    return sizes


def _check_count(k: Any, precision: Any) -> Any:
    """`k` as a number, "all", or None where `precision` is given instead."""
    if (k is None) == (precision is None):
        raise ArgumentError("k, precision: pass exactly one of them (k a number or 'all').")
    if precision is not None:
        check_positive("precision", precision)
    if isinstance(k, str) and k != "all":
        raise ArgumentError(f"k: got {k!r}; pass a number, or 'all'.")
    return k if k is None or k == "all" else check_whole("k", k, least=1)


def _estimated(work: _Work, k: Any, precision: float | None, budget: int, cost_bound: float | None) -> Estimate:
    """The estimate at one minibatch size."""
    if k == "all":
        work.run_all(_count_pairs(work))
    elif precision is None:
        work.run(k)
    else:
        work.run_until(precision, budget)
    if work.short:
        warnings.warn(
            f"{work.short} minibatches stopped above tol = {work.loss.tol:g}; each still has its certified gap.",
            NotConvergedWarning,
            stacklevel=4,  # past `estimate` and `hinting`
        )
    return work.result(complete=k == "all", cost_bound=cost_bound)


def _read_points(x: Any, y: Any, cost: str | Cost) -> tuple[Points, Points]:
    """Both clouds, in one space in which the cost is defined."""
    source, target = Points.of("x", x), Points.of("y", y)
    if source.shape != target.shape:
        raise ArgumentError(f"x, y: points of shapes {source.shape} and {target.shape}; both must have the same shape.")
    if len(source.shape) > 1 and not callable(cost):
        raise ArgumentError(
            f"x, y: points of shape {source.shape}; named costs need rows of coordinates: pass x.reshape(len(x), -1), "
            "or a callable as cost."
        )
    return source, target


def _count_pairs(work: _Work) -> int:
    """How many pairs of subsets the complete estimator has, if there is one and it can be computed."""
    pairs = sampling.count_pairs(work.x.n, work.y.n, work.m)
    if work.constrained and any(w is not None for w in work.weights):
        raise ArgumentError(
            "k: with exact marginals and non-uniform weights minibatches are drawn with replacement, "
            "so there is no complete estimator over subsets; pass a number."
        )
    if pairs > MOST_PAIRS:
        raise ArgumentError(
            f"k: 'all' means {pairs:.3g} pairs of subsets here, more than {MOST_PAIRS:,}; pass a number, such as "
            "k=1000, and look at .standard_error('complete')."
        )
    return pairs


@dataclass
class _Work:
    """The minibatches computed so far."""

    x: Points
    y: Points
    weights: tuple[np.ndarray | None, np.ndarray | None]
    m: int
    loss: Loss
    ground: str | Cost
    constrained: bool
    seed: int
    chunk: int
    keep_plan: bool

    def __post_init__(self) -> None:
        self.values = np.empty(0)
        self.influence = Influence(self.x.n), Influence(self.y.n)
        self.builder = PlanBuilder(self.x.n, self.y.n) if self.keep_plan else None
        self.short = 0
        self.interrupted = False
        self.by_weight = tuple(np.cumsum(w) if self.constrained and w is not None else None for w in self.weights)

    def _draw(self, first: int, count: int, side: int) -> np.ndarray:
        cumulative = self.by_weight[side]
        if cumulative is not None:
            return sampling.draw_by_weight(self.seed, first, count, side, cumulative, self.m)
        return sampling.draw_subsets(self.seed, first, count, side, (self.x, self.y)[side].n, self.m)

    def _batch_weights(self, index: np.ndarray, side: int) -> torch.Tensor | None:
        weights = self.weights[side]
        if weights is None:
            return None
        if self.by_weight[side] is not None:
            return torch.full(index.shape, float(weights.sum()) / self.m, dtype=torch.float64, device="cpu")
        return torch.from_numpy(weights[index] * ((self.x, self.y)[side].n / self.m))

    def _solve(self, I: np.ndarray, J: np.ndarray) -> np.ndarray:
        """Losses of the minibatches (I, J); their slopes and plans are added up on the way."""
        batch_weights = self._batch_weights(I, 0), self._batch_weights(J, 1)
        out = self.loss(Minibatches(self.x, self.y, I, J, self.ground), *batch_weights, plan=self.keep_plan)
        for side, (index, slopes) in enumerate(zip((I, J), out.slopes, strict=True)):
            w = batch_weights[side]
            # the derivative in a weight, times what the weight would be if uniform, scaled to m
            # (with "ones" it is infinite at a weight of zero, which plays no part)
            scaled = slopes if w is None else np.where(w.numpy() > 0, slopes, 0.0) * w.numpy() * self.m
            self.influence[side].add(index, scaled)
        if self.builder is not None and out.plan is not None:
            self.builder.add(I, J, out.plan)
        self.short += len(out.unsolved)
        return out.value

    def _collect(self, total: int, blocks: Iterator[tuple[int, np.ndarray, np.ndarray]], first: int) -> None:
        """Run this process's blocks of the minibatches first <= i < first + total, then share the values."""
        values = np.full(total, np.nan)
        done = np.zeros(total)
        try:
            with progress(total, "minibatches") as advance:
                for at, I, J in blocks:
                    values[at - first : at - first + len(I)] = self._solve(I, J)
                    done[at - first : at - first + len(I)] = 1
                    advance(len(I))
        except KeyboardInterrupt:
            self.interrupted = True
        shared = sum_over_processes(np.concatenate([np.nan_to_num(values), done, [float(self.interrupted)]]))
        self.interrupted = bool(shared[-1])
        self.values = np.concatenate([self.values, shared[:total][shared[total:-1] > 0]])

    def _blocks(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        low, high = share(first, last)
        for at in range(low, high, self.chunk):
            count = min(self.chunk, high - at)
            yield at, self._draw(at, count, 0), self._draw(at, count, 1)

    def run(self, k: int) -> None:
        """Up to minibatch number k."""
        first = len(self.values)
        self._collect(k - first, self._blocks(first, k), first)

    def run_all(self, pairs: int) -> None:
        rank, world = group()

        def blocks() -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
            at = 0
            for number, (I, J) in enumerate(sampling.all_pairs(self.x.n, self.y.n, self.m, self.chunk)):
                if number % world == rank:
                    yield at, I, J
                at += len(I)

        self._collect(pairs, blocks(), 0)

    def run_until(self, precision: float, budget: int) -> None:
        """Two stages: estimate the spread from the first minibatches and draw as many as it requires; check, and draw
        more if needed.

        Using only the spread, and rarely, preserves the coverage of the final interval.
        """
        self.run(min(_FIRST_STAGE, budget))
        while len(self.values) < budget and not self.interrupted:
            k = len(self.values)
            spread = float(self.values.std(ddof=1))
            needed = math.ceil((_quantile(k - 1) * spread / precision) ** 2)
            if needed <= k:
                return
            self.run(min(budget, max(needed + needed // 20, k + k // 10 + 1)))

    def _amplitude(self, influence: list[Influence], complete: bool) -> float:
        """Draw the first minibatches again (their indices cost next to nothing) and compare h with its derivatives."""
        count = min(len(self.values), _COMPARED)
        if self.interrupted or not all(side.tracked for side in influence):
            return 1.0
        if complete:
            blocks = sampling.all_pairs(self.x.n, self.y.n, self.m, count)
            I, J = next(blocks)
        else:
            I, J = self._draw(0, count, 0), self._draw(0, count, 1)
        predicted = influence[0].mean_slope(I) + influence[1].mean_slope(J)
        return amplitude(self.values[:count], predicted)

    def result(self, complete: bool, cost_bound: float | None) -> Estimate:
        if len(self.values) == 0:
            raise KeyboardInterrupt  # stopped before the first chunk was done: there is nothing to return
        influence = [side.reduced() for side in self.influence]
        concentration = [
            1 / points.n if by is None or w is None else float((w**2).sum() / w.sum() ** 2)
            for points, by, w in zip((self.x, self.y), self.by_weight, self.weights, strict=True)
        ]
        variances = np.array([side.variance() for side in influence])
        variances *= self._amplitude(influence, complete) ** 2
        plan = None
        if self.builder is not None:
            self.builder.parts = [part for parts in gather(self.builder.parts) for part in parts]
            plan = self.builder.average(len(self.values))
        masses = [1.0 if w is None else float(w.sum()) for w in self.weights]
        return Estimate(
            values=self.values,
            m=self.m,
            n=(self.x.n, self.y.n),
            complete=complete and not self.interrupted,
            point_variances=(float(variances[0]), float(variances[1])),
            degrees=(influence[0].degrees(), influence[1].degrees()),
            concentrations=(concentration[0], concentration[1]),
            interrupted=self.interrupted,
            plan=plan,
            loss=self.loss,
            masses=(masses[0], masses[1]),
            points=(self.x, self.y),
            cost_name=self.ground,
            cost_bound=cost_bound,
        )


def _quantile(dof: float) -> float:
    """Student's t for 95 %."""
    from scipy.stats import t

    return float(t.ppf(0.975, max(dof, 1)))
