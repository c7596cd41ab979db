"""OTT-JAX: jitted (compilation happens in calibration), in float64, and under vmap for batches.

Conventions: its ``tau`` is ``tau / (tau + epsilon)``; its unbalanced reference is the all-ones matrix, so
it gets the cost ``C - epsilon log(a b')``. The stopping rule is its own threshold, checked every ten
iterations. The tuned configurations add what its documentation offers for speed: adaptive momentum,
Anderson acceleration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ott.geometry import geometry
from ott.problems.linear import linear_problem
from ott.solvers.linear import acceleration, sinkhorn

from benchmarks.certify import Potentials
from benchmarks.peers.base import Peer
from benchmarks.regimes import Regime


def adapters(regime: Regime) -> list[Peer]:
    """The default algorithm, then the tuned ones."""
    momentum = {"momentum": acceleration.Momentum(start=30)}
    anderson = {"anderson": acceleration.AndersonAcceleration(memory=5)}
    if regime.kind == "batch":
        return [
            OttSinkhorn(regime, "OTT-JAX vmap", stride=2),
            OttSinkhorn(regime, "OTT-JAX vmap momentum", True, 2, options=momentum),
        ]
    return [
        OttSinkhorn(regime, "OTT-JAX", stride=2),
        OttSinkhorn(regime, "OTT-JAX momentum", True, 2, options=momentum),
        OttSinkhorn(regime, "OTT-JAX Anderson", True, 2, options=anderson),
    ]


@dataclass
class OttSinkhorn(Peer):
    """``ott.solvers.linear.sinkhorn.Sinkhorn`` on a cost matrix or a stack of them."""

    dtype: str = "float64"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> Sequence[float]:
        return [10 ** (-k / 4) for k in range(6, 41)]

    @cached_property
    def solve(self) -> Callable[..., Any]:
        """The jitted solver: (cost, threshold) -> (plan, f, g)."""
        regime, size = self.regime, self.regime.m
        weights = np.full(size, 1 / size, dtype=self.dtype)
        kappa = regime.tau / (regime.tau + regime.epsilon)
        reference = np.log(np.outer(weights, weights)).astype(self.dtype)

        def solve(cost: jax.Array, threshold: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            geom = geometry.Geometry(cost_matrix=cost - regime.epsilon * reference, epsilon=regime.epsilon)
            problem = linear_problem.LinearProblem(geom, weights, weights, tau_a=kappa, tau_b=kappa)
            solver = sinkhorn.Sinkhorn(threshold=threshold, max_iterations=100_000, **self.options)
            out = solver(problem)
            return out.matrix, out.f, out.g

        if self.regime.kind == "batch":
            return jax.jit(jax.vmap(solve, in_axes=(0, None)))
        return jax.jit(solve)

    def prepare(self, cost: np.ndarray) -> jax.Array:
        with self._precision():
            return jnp.asarray(cost, dtype=self.dtype)

    def call(self, data: jax.Array, setting: float) -> Any:
        with self._precision():
            return jax.block_until_ready(self.solve(data, np.asarray(setting, dtype=self.dtype)))

    def answer(self, data: jax.Array, setting: float) -> tuple[np.ndarray, Potentials]:
        plan, f, g = (np.asarray(v, dtype=np.float64) for v in self.call(data, setting))
        return plan, (f, g)

    def _precision(self) -> Any:
        return jax.enable_x64(self.dtype == "float64")
