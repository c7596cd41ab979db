"""The result of `solve_sample`: a `Solution` whose plan is computed when it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_non_negative, check_whole
from jumbot.errors import ArgumentError
from jumbot.transport._certificate import reachable
from jumbot.transport._points import entries
from jumbot.transport._points.rounding import Solved
from jumbot.transport._points.sample_gradients import SampleValue, linear_of
from jumbot.transport._solution import ArrayT, Generator, Status, check_generator, uniform


@dataclass(frozen=True, repr=False, eq=False)
class SampleSolution(Generic[ArrayT]):
    """The solution of one problem between points, or of a batch; fields have the same meaning as in `Solution`.

    The plan is P = R e^{(f+g-C)/epsilon} on the pairs that were kept; no n x m array is ever made.

    >>> import jumbot, numpy as np
    >>> jumbot.solve_sample(np.zeros((2, 1)), np.zeros((2, 1)), epsilon=0.1, tau=1.0)
    SampleSolution(value=0, mass=1, relative_gap=0, kept=1, status=CONVERGED)
    """

    _solved: list[Solved]
    _batch: tuple[int, ...]
    _tol: float
    _limit: int
    _inputs: tuple[Tensor, Tensor, Tensor | None, Tensor | None]
    _numpy: bool
    _graph: bool

    @property
    def _single(self) -> bool:
        return self._batch == ()

    def _out(self, parts: list[Any]) -> ArrayT:
        """One array or number for each problem, in the shape of the batch."""
        x = torch.stack([torch.as_tensor(np.asarray(part)) for part in parts])
        like = self._inputs[0]
        x = x.to(like.dtype if x.is_floating_point() else x.dtype).reshape((*self._batch, *x.shape[1:]))
        out: Any = x.numpy() if self._numpy else x.to(like.device)
        return out[()] if self._numpy and x.ndim == 0 else out

    @cached_property
    def value(self) -> ArrayT:
        """The full objective at the plan; differentiable in x, y, a and b by one more pass."""
        if not self._graph:
            return self._out(list(self._in_double))
        with torch.inference_mode(False), torch.enable_grad():
            out: Any = self._in_double.reshape(self._batch).to(self._inputs[0])
            return out

    @cached_property
    def _in_double(self) -> Tensor:
        """The values `(B,)` in float64: differences of values are small compared with them."""
        values = torch.tensor([s.value for s in self._solved], dtype=torch.float64)
        if not self._graph:
            return values
        with torch.inference_mode(False), torch.enable_grad():
            return SampleValue.apply(values, self._solved, *self._flat_inputs())

    def _flat_inputs(self) -> list[Any]:
        """What gradients are taken in, `(B, ...)`."""
        x, y, a, b = self._inputs
        if self._solved[0].directions:
            x, y = (z / torch.linalg.vector_norm(z, dim=-1, keepdim=True) for z in (x, y))
        n, m = x.shape[-2], y.shape[-2]
        flat: list[Any] = [z.expand(*self._batch, *z.shape[-2:]).reshape(-1, *z.shape[-2:]) for z in (x, y)]
        return flat + [w if w is None else w.expand(*self._batch, k).reshape(-1, k) for w, k in ((a, n), (b, m))]

    @cached_property
    def dual(self) -> ArrayT:
        """A lower bound of the optimum, proved also where blocks were left out."""
        return self._out([s.value - s.proof.gap for s in self._solved])

    @cached_property
    def gap(self) -> ArrayT:
        """value - dual >= 0, with all that the pairs left out could hold."""
        return self._out([s.proof.gap for s in self._solved])

    @cached_property
    def relative_gap(self) -> ArrayT:
        """gap / (<|C|, P> + tau_a D_a + tau_b D_b + epsilon mass), the quantity that `tol` bounds."""
        return self._out([s.proof.relative_gap for s in self._solved])

    @cached_property
    def linear(self) -> ArrayT:
        """<C, P>, differentiable in x and y with the plan held fixed; a backward pass to the weights raises."""
        linear = [s.proof.linear for s in self._solved]
        if not self._graph:
            return self._out(linear)
        with torch.inference_mode(False), torch.enable_grad():
            values = torch.tensor([float(part) for part in linear], dtype=torch.float64)
            found: Any = linear_of(values, self._solved, self._flat_inputs())
            return found.reshape(self._batch).to(self._inputs[0])

    @cached_property
    def mass(self) -> ArrayT:
        """The total mass of the plan."""
        return self._out([s.proof.rows.sum() for s in self._solved])

    @cached_property
    def marginals(self) -> tuple[ArrayT, ArrayT]:
        """(P 1, P' 1)."""
        return self._out([s.proof.rows for s in self._solved]), self._out([s.proof.columns for s in self._solved])

    @cached_property
    def potentials(self) -> tuple[ArrayT, ArrayT]:
        """(f, g), the dual variables; pass them or the whole solution as `init` of a similar problem."""
        return self._out([s.f[0] for s in self._solved]), self._out([s.g[0] for s in self._solved])

    @cached_property
    def kept(self) -> Any:
        """The share of all pairs that the last sweep looked at."""
        return self._solved[0].kept if self._single else self._out([s.kept for s in self._solved])

    @cached_property
    def iterations(self) -> Any:
        """Sweeps over the points themselves; those over coarser ones, or at larger epsilons, before are not counted."""
        return self._solved[0].taken if self._single else self._out([s.taken for s in self._solved])

    @cached_property
    def _statuses(self) -> list[Status]:
        out = []
        for s in self._solved:
            room = torch.finfo(self._inputs[0].dtype).max
            largest = max(abs(s.value), abs(s.proof.linear), s.proof.rows.sum())
            if s.proof.relative_gap <= reachable(self._tol, s.problem.epsilon):
                out.append(Status.CONVERGED if largest <= room else Status.OVERFLOW)
            elif s.interrupted:
                out.append(Status.INTERRUPTED)
            else:
                out.append(Status.MAX_ITERATIONS if s.taken >= self._limit else Status.FAILED)
        return out

    @cached_property
    def status(self) -> Any:
        """A `Status`, or an array of them for a batch."""
        if self._single:
            return self._statuses[0]
        out = np.empty(len(self._statuses), dtype=object)
        out[:] = self._statuses
        return out.reshape(self._batch)

    @cached_property
    def converged(self) -> Any:
        """Whether `tol` was reached: a bool, or a boolean array for a batch."""
        done = [status is Status.CONVERGED for status in self._statuses]
        return done[0] if self._single else self._out(done)

    def __getattr__(self, name: str) -> Any:
        if name == "plan":
            raise AttributeError(
                "plan: is never stored; use apply, barycentric_map, row, top, sample or to_sparse, or "
                "jumbot.solve on the matrix of costs."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def apply(self, v: Any, transpose: bool = False) -> ArrayT:
        """P v, or P' v: `v` is `(..., m)` or `(..., m, k)`, or with n if transposed; the result has the same form.

        >>> import jumbot, numpy as np
        >>> sol = jumbot.solve_sample(np.zeros((2, 1)), np.zeros((3, 1)), epsilon=0.1, tau=1.0)
        >>> sol.apply(np.ones(3)).round(3), sol.apply(np.ones((2, 4)), transpose=True).shape
        (array([0.5, 0.5]), (3, 4))
        """
        side = 1 if transpose else 0
        size = (self._inputs[0] if transpose else self._inputs[1]).shape[-2]
        array = v.detach().cpu().numpy() if isinstance(v, Tensor) else np.asarray(v)
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            raise ArgumentError("v: must be an array of finite numbers.")
        vector = array.shape == (*self._batch, size)
        if not vector and (array.ndim != len(self._batch) + 2 or array.shape[:-1] != (*self._batch, size)):
            raise ArgumentError(
                f"v: shape {array.shape}; it must be {(*self._batch, size)}, or that with a last axis of columns."
            )
        columns = array.reshape(len(self._solved), size, -1).astype(np.float64)
        parts = [_product(s, side, part) for s, part in zip(self._solved, columns, strict=True)]
        return self._out([part[:, 0] if vector else part for part in parts])

    def barycentric_map(self) -> ArrayT:
        """Where each point of x goes: the mean of y under its row of the plan, `(..., n, d)`; NaN without any mass."""
        out = []
        for s in self._solved:
            y = s.points[1].astype(np.float64)
            centre = y.mean(0)
            moved, rows = _product(s, 0, y - centre), s.proof.rows[:, None]
            with np.errstate(invalid="ignore", divide="ignore"):
                out.append(np.where(rows > 0, moved / rows + centre, np.nan))
        return self._out(out)

    def top(self, k: int) -> tuple[ArrayT, ArrayT]:
        """Columns and values, each `(..., n, k)`: the k largest entries of each row, the largest first."""
        k = check_whole("k", k, least=1, most=self._inputs[1].shape[-2])
        found = [entries.top(s, k) for s in self._solved]
        return self._out([columns for columns, _ in found]), self._out([values for _, values in found])

    def row(self, i: int) -> ArrayT:
        """The i-th row of the plan, `(..., m)`."""
        n = self._inputs[0].shape[-2]
        i = check_whole("i", i, least=0, most=n - 1)
        return self._out([entries.rows(s, np.array([i]))[0] for s in self._solved])

    def sample(self, n: int, generator: Generator | None = None) -> tuple[ArrayT, ArrayT]:
        """Indices (i, j), each `(..., n)`: pairs drawn independently with probability P_ij / mass.

        `generator` is a `torch.Generator` or a `numpy.random.Generator`; without one each call draws different pairs.
        """
        n, generator = check_whole("n", n, least=1), check_generator(generator)
        pairs = []
        for s in self._solved:
            if not s.proof.rows.sum() > 0:
                raise ArgumentError("plan: it has no mass, so there is no pair to draw; raise tau.")
            pairs.append(entries.draw(s, *uniform((2, n), generator).cpu().numpy()))
        return self._out([i for i, _ in pairs]), self._out([j for _, j in pairs])

    def to_sparse(self, threshold: float) -> Any:
        """The entries above `threshold`: a `scipy.sparse.csr_array`, or a sparse tensor where x is one.

        Of a batch, a list of them.  The threshold is a mass: entries are of the size of 1/(n m) times some hundred.
        """
        threshold = check_non_negative("threshold", threshold)
        out = [self._sparse(s, *entries.above(s, threshold)) for s in self._solved]
        return out[0] if self._single else out

    def _sparse(self, s: Solved, i: np.ndarray, j: np.ndarray, values: np.ndarray) -> Any:
        like = self._inputs[0]
        if self._numpy:
            from scipy import sparse

            values = values.astype(np.float32) if like.dtype == torch.float32 else values
            return sparse.coo_array((values, (i, j)), shape=s.stream.shape).tocsr()
        index, values_ = torch.from_numpy(np.stack([i, j])), torch.from_numpy(values).to(like.dtype)
        return torch.sparse_coo_tensor(index, values_, s.stream.shape, check_invariants=True).to(like.device)

    def __repr__(self) -> str:
        if not self._single:
            done = sum(status is Status.CONVERGED for status in self._statuses)
            return f"SampleSolution(batch={self._batch}, converged={done} of {len(self._solved)})"
        s = self._solved[0]
        return (
            f"SampleSolution(value={s.value:.4g}, mass={s.proof.rows.sum():.4g}, "
            f"relative_gap={s.proof.relative_gap:.1g}, kept={s.kept:.2g}, status={self.status.name})"
        )


def _product(s: Solved, side: int, v: np.ndarray) -> np.ndarray:
    """P v (side 0) or P' v."""
    plan = s.proof.plan
    out = s.stream.products(side, plan.F, plan.G, v)
    if plan.alpha is not None and plan.beta is not None:
        own, other = (plan.alpha, plan.beta) if side == 0 else (plan.beta, plan.alpha)
        out += own[:, None] * (other @ v)
    return out
