"""What `jumbot.estimate` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot._base.options import check_non_negative, check_word
from jumbot.cost import Cost
from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_unmasked

if TYPE_CHECKING:
    from jumbot.minibatch._losses import Loss
    from jumbot.minibatch._sampling import Points


@dataclass(frozen=True)
class LiftedPlan:
    """(1/k) sum over minibatches of Q_I' P Q_J, an n_x x n_y matrix with at most k m^2 entries.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array
        The plan; entries of points drawn together several times are summed exactly.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> x = np.arange(6.0)[:, None]
    >>> jumbot.estimate(x, x, m=3, k=20, epsilon=0.1, plan=True).plan.shape
    (6, 6)
    """

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        """(n_x, n_y)."""
        return self.matrix.shape

    @property
    def mass(self) -> float:
        """The sum of the plan."""
        return float(self.matrix.sum())

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """The mass that leaves each point of x, and that each point of y receives."""
        return np.asarray(self.matrix.sum(axis=1)).ravel(), np.asarray(self.matrix.sum(axis=0)).ravel()

    def barycentric_map(self, y: Any, missing: Any = None) -> np.ndarray:
        """Where each point of x goes: the mean of `y` under its row of the plan, `(n_x, d)`.

        Points that send no mass get their row of `missing` (for example x itself), or NaN.
        """
        y, rows = self._points("y", y, self.shape[1]), self.marginals[0]
        out = np.full((self.shape[0], *y.shape[1:]), np.nan)
        if missing is not None:
            given = self._points("missing", missing, self.shape[0])
            if given.shape != out.shape:
                raise ArgumentError(f"missing must have the shape {out.shape}, got {given.shape}.")
            out[:] = given
        sent = rows > 0
        moved = (self.matrix @ y.reshape(len(y), -1))[sent] / rows[sent, None]
        out[sent] = moved.reshape(-1, *y.shape[1:])
        return out

    @staticmethod
    def _points(name: str, points: Any, count: int) -> np.ndarray:
        check_unmasked(points, name)
        found = np.asarray(points.detach().cpu() if hasattr(points, "detach") else points, dtype=np.float64)
        if found.ndim == 0 or len(found) != count:
            raise ArgumentError(f"{name} must have {count} points, as the plan has, got the shape {found.shape}.")
        return found

    def to_scipy(self) -> Any:
        """The plan as a `scipy.sparse.csr_array`."""
        return self.matrix

    def to_dense(self) -> np.ndarray:
        """The plan as a numpy array."""
        return self.matrix.toarray()


class PlanBuilder:
    """Collects minibatch plans as triplets, sixteen bytes per entry, and sums them once."""

    def __init__(self, n_x: int, n_y: int) -> None:
        self.shape = n_x, n_y
        self.index = np.int32 if max(n_x, n_y) < 2**31 else np.int64
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, I: np.ndarray, J: np.ndarray, plans: np.ndarray) -> None:
        """`I` `(c, m)`, `J` `(c, m)`, `plans` `(c, m, m)`."""
        kept = plans > 0
        rows = np.broadcast_to(I[:, :, None].astype(self.index), plans.shape)[kept]
        columns = np.broadcast_to(J[:, None, :].astype(self.index), plans.shape)[kept]
        self.parts.append((rows, columns, plans[kept]))

    def average(self, k: int) -> LiftedPlan:
        from scipy import sparse

        rows, columns, values = (np.concatenate([part[i] for part in self.parts]) for i in range(3))
        self.parts.clear()
        values /= k
        return LiftedPlan(sparse.coo_array((values, (rows, columns)), shape=self.shape).tocsr())


class Bound(float):
    """A bound, with the bound of the ground cost that it uses and where that comes from."""

    cost_bound: float
    origin: str


@dataclass(frozen=True, repr=False)
class Estimate:
    """The mean of `values`, one per minibatch, and how far it may be off; what `jumbot.estimate` returns.

    Attributes
    ----------
    values : array of shape (k,)
        The loss of each minibatch.
    m : int
        Points per side in a minibatch.
    n : pair of int
        Points of x and of y.
    complete : bool
        Whether all pairs of subsets were used.
    point_variances, degrees, concentrations : pairs of float
        What the interval for the population is computed from: the variance that the points of each side cause, its
        degrees of freedom, and how unequal the weights are.
    interrupted : bool
        Whether Ctrl-C ended the draw.
    plan : LiftedPlan or None
        The average plan, where it was asked for.
    loss, masses, points, cost_name, cost_bound
        What was estimated, on which data; `bound` reads them.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> x = np.arange(6.0)[:, None]
    >>> jumbot.estimate(x, x + 1, m=3, k=20, epsilon=0.1).k
    20
    """

    values: np.ndarray
    m: int
    n: tuple[int, int]
    complete: bool
    point_variances: tuple[float, float]
    degrees: tuple[float, float]
    concentrations: tuple[float, float]
    interrupted: bool
    plan: LiftedPlan | None
    loss: Loss
    masses: tuple[float, float]
    points: tuple[Points, Points] = field(repr=False)
    cost_name: str | Cost = "sqeuclidean"
    cost_bound: float | None = None

    @cached_property
    def value(self) -> float:
        """The estimate: the mean of `values`."""
        try:
            return math.fsum(self.values) / len(self.values)
        except OverflowError:  # of the sum, not of the mean
            return math.fsum(self.values / len(self.values))

    @property
    def k(self) -> int:
        """Minibatches used."""
        return len(self.values)

    @cached_property
    def _spread(self) -> float:
        """The variance of h over minibatches of this data."""
        return float(self.values.var(ddof=1)) if self.k > 1 else math.nan

    def _variances(self, target: str) -> tuple[float, float]:
        """(what the draw adds, what comes from the data)."""
        check_word("target", target, ("population", "complete"))
        draw = 0.0 if self.complete else self._spread / self.k
        if target == "complete":
            return draw, 0.0
        first = sum(v * c for v, c in zip(self.point_variances, self.concentrations, strict=True))
        # what h owes to interactions of points, at the rate of second-order terms
        rest = max(self._spread + first - sum(self.point_variances) / self.m, 0.0) if self.k > 1 else 0.0
        return draw, first + rest * (self.m / self.n[0]) * (self.m / self.n[1])

    def standard_error(self, target: str = "population") -> float:
        """Estimate the standard error of the mean.

        Parameters
        ----------
        target : {"population", "complete"}, default "population"
            "population" includes the errors of the data and of the draw of minibatches, "complete" the latter only.

        Returns
        -------
        float
            The standard error.
        """
        return math.sqrt(sum(self._variances(target)))

    def interval(self, confidence: float = 0.95, target: str = "population") -> tuple[float, float]:
        """Compute a confidence interval (Student's t).

        Parameters
        ----------
        confidence : float, default 0.95
            The probability that the interval contains the target.
        target : {"population", "complete"}, default "population"
            As in `standard_error`.

        Returns
        -------
        tuple of float
            The lower and the upper end.
        """
        from scipy.stats import t

        confidence = check_non_negative("confidence", confidence)
        if not 0 < confidence < 1:
            raise ArgumentError(f"confidence must lie strictly between 0 and 1, got {confidence}.")
        draw, data = self._variances(target)
        total = draw + data
        # Welch-Satterthwaite: how well each part of the variance is known
        unsure = draw**2 / max(self.k - 1, 1) + data**2 / max(min(self.degrees), 1)
        dof = total**2 / unsure if unsure > 0 else math.inf
        half = float(t.ppf(0.5 + confidence / 2, max(dof, 1))) * math.sqrt(total)
        return self.value - half, self.value + half

    def bound(self, delta: float, printed: bool = False) -> Bound:
        """Bound the error of `value` without assumptions on its distribution (Theorem 1.1).

        Parameters
        ----------
        delta : float
            With probability 1 - delta, `value` is within the bound of E_h.
        printed : bool, default False
            Use the constant as the paper prints it.

        Returns
        -------
        Bound
            A float, with the bound of the ground cost that was used (`cost_bound`) and its `origin`: the argument
            `cost_bound`, or the bounding boxes of the data.  They are computed from the points at this call, so do not
            change the points before.
        """
        import jumbot.minibatch.bounds as bounds

        M, origin = self._cost_bound()
        if self.loss.reference != "product":
            raise ArgumentError("bound: Theorem 1.1 is proved for the reference 'product' only.")
        limit = bounds.loss_bound(
            M,
            *self.masses,
            loss=self.loss.name,
            epsilon=self.loss.epsilon,
            tau=self.loss.tau,
            divergence=self.loss.divergence,
        )
        k = None if self.complete else self.k
        result = Bound(bounds.deviation_bound(limit, n=min(self.n), m=self.m, k=k, delta=delta, printed=printed))
        result.cost_bound, result.origin = M, origin
        return result

    def _cost_bound(self) -> tuple[float, str]:
        if self.cost_bound is not None:
            return self.cost_bound, "cost_bound"
        if self.cost_name not in ("sqeuclidean", "euclidean"):
            raise ArgumentError("cost_bound must be given for a callable cost, which has no bound from bounding boxes.")
        (low_x, high_x), (low_y, high_y) = (points.box() for points in self.points)
        reach = np.maximum(high_x - low_y, high_y - low_x)
        if self.loss.name == "sinkhorn_divergence":  # the self terms too
            reach = np.maximum(reach, np.maximum(high_x - low_x, high_y - low_y))
        squared = float((reach**2).sum())
        return (squared if self.cost_name == "sqeuclidean" else math.sqrt(squared)), "bounding boxes"

    def __repr__(self) -> str:
        low, high = self.interval()
        mark = ", interrupted" if self.interrupted else ""
        return f"Estimate({self.value:.6g}, 95 % in [{low:.6g}, {high:.6g}], m={self.m}, k={self.k}{mark})"


@dataclass(frozen=True)
class BiasCurve:
    """Estimates over minibatch sizes: how the minibatch bias falls with m.

    Attributes
    ----------
    estimates : tuple of Estimate
        One per minibatch size; the curve can be indexed like them.

    Examples
    --------
    >>> import numpy as np, jumbot
    >>> x = np.arange(6.0)[:, None]
    >>> jumbot.estimate(x, x + 1, m=[2, 3], k=20, epsilon=0.1).m
    [2, 3]
    """

    estimates: tuple[Estimate, ...]

    @property
    def m(self) -> list[int]:
        """The minibatch sizes."""
        return [e.m for e in self.estimates]

    @property
    def values(self) -> np.ndarray:
        """The estimate at each size."""
        return np.array([e.value for e in self.estimates])

    def intervals(self, confidence: float = 0.95, target: str = "population") -> np.ndarray:
        """The confidence interval of each size, an array `(sizes, 2)`; see `Estimate.interval`."""
        return np.array([e.interval(confidence, target) for e in self.estimates])

    def __getitem__(self, index: int) -> Estimate:
        return self.estimates[index]

    def __len__(self) -> int:
        return len(self.estimates)

    def plot(self, ax: Any = None) -> Any:
        """Value and 95 % interval over m, on a matplotlib axis."""
        from jumbot.report._drawings import draw_bias_curve

        return draw_bias_curve(self, ax)
