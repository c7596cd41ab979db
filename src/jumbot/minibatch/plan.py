"""The average of the minibatch plans, lifted to all points and kept sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LiftedPlan:
    """(1/k) sum over minibatches of Q_I' P Q_J, an n_x x n_y matrix with at most k m^2 entries.

    `matrix` is a `scipy.sparse.csr_array`; entries of points drawn together several times are summed exactly.
    """

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def mass(self) -> float:
        return float(self.matrix.sum())

    @property
    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """The mass that leaves each point of x, and that each point of y receives."""
        return np.asarray(self.matrix.sum(axis=1)).ravel(), np.asarray(self.matrix.sum(axis=0)).ravel()

    def barycentric_map(self, y: Any, missing: Any = None) -> np.ndarray:
        """Where each point of x goes: the mean of `y` under its row of the plan, `(n_x, d)`.

        Points that send no mass get their row of `missing` (for example x itself), or NaN.
        """
        y = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y, dtype=np.float64)
        if y.shape[0] != self.shape[1]:
            from jumbot.errors import ArgumentError

            raise ArgumentError(f"y: {y.shape[0]} points, but the plan has {self.shape[1]} columns.")
        rows = self.marginals[0]
        out = np.full((self.shape[0], *y.shape[1:]), np.nan)
        if missing is not None:
            out[:] = np.asarray(missing.detach().cpu() if hasattr(missing, "detach") else missing)
        sent = rows > 0
        out[sent] = (self.matrix @ y)[sent] / rows[sent, None]
        return out

    def to_scipy(self) -> Any:
        return self.matrix

    def to_dense(self) -> np.ndarray:
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
