"""Newton's method for problems on which sweeps make no progress: exact marginals, small epsilon, nearly separate
groups.

The dual as a function of g alone, f at its best, has the gradient wanted - q, with `wanted` what the columns are to
hold, and the Hessian whose system `_curvature.System` solves.  It is concave: a step that raises it enough is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._curvature import System
from jumbot.transport.divergences import KL, Balanced

_STEPS = 12
_INNER, _RESIDUAL = 40, 1e-3  # of conjugate gradients
_SHORTEST = 1e-2  # step, in units of epsilon
_ROUNDING = 1e-12  # of the dual
_ENOUGH = 1e-9  # misplaced share of the mass, at which it stops


class Newton:
    """Steps for one problem, with the passes of its `sample_sweeps.Sweeps`."""

    def __init__(self, sweeps: Any) -> None:
        self.sweeps, self.problem, self.stream = sweeps, sweeps.problem, sweeps.stream

    @property
    def offered(self) -> bool:
        kinds = {type(side.divergence) for side, _ in self.problem.sides}
        return self.sweeps.hard and kinds <= {KL, Balanced} and all(closed is None for closed in self.stream.closed)

    def run(self, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """Potentials with a larger dual, or the given ones."""
        f, best = self._evaluated(f, g)
        for _ in range(_STEPS):
            lack, dg = self._direction(f, g)
            found = None if dg is None else self._searched(f, g, dg, lack, best)
            if found is None:
                break
            f, g, best = found
        self.sweeps._choose(f, g)
        return f, g

    def _searched(
        self, f: Tensor, g: Tensor, dg: Tensor, lack: Tensor, best: float
    ) -> tuple[Tensor, Tensor, float] | None:
        """A step along dg that raises the dual; where that is a matter of rounding, one that brings columns nearer."""
        slope, most = float((lack * dg).sum()), float(dg.abs().max())
        # groups that hardly touch have a direction without end, of which the costs are the measure
        length = min(1.0, self.sweeps.price / most)
        while length * most >= _SHORTEST * self.problem.epsilon:
            moved, value = self._evaluated(f, g + length * dg)
            if value >= best + 1e-4 * length * slope:
                return moved, g + length * dg, value
            if abs(value - best) <= _ROUNDING * abs(best):
                _, after = self._columns(moved, g + length * dg)
                if float(after.abs().sum()) < 0.9 * float(lack.abs().sum()):
                    return moved, g + length * dg, value
            length /= 4
        return None

    def _evaluated(self, f: Tensor, g: Tensor) -> tuple[Tensor, float]:
        """The best f at g, and the dual: in two passes, as blocks must be chosen for these potentials."""
        for _ in range(2 if self.sweeps.leave_out else 1):
            _, G = self.sweeps.exponents(torch.zeros_like(f), g)
            f = self.sweeps._step(0, self.sweeps._half(0, G), None, 1.0)
            self.sweeps._choose(f, g)
        F, _ = self.sweeps.exponents(f, g)
        soft = self.sweeps.soft[0]
        mass = float(np.exp(np.minimum(F - soft, 600.0)).sum())
        terms = (side.dual(x, w) for (side, w), x in zip(self.problem.sides, (f, g), strict=True))
        return f, float(sum(terms)) - self.problem.epsilon * mass

    def _columns(self, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """What the columns hold, and what they lack."""
        F, G = self.sweeps.exponents(f, g)
        columns = torch.from_numpy(self.stream.products(1, F, G, np.ones((len(F), 1)))[:, 0])[None]
        side, b = self.problem.sides[1]
        return columns, (b if side.exact else b * torch.exp(-g / side.tau)) - columns

    def _direction(self, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the columns lack, and the step that would bring it if the dual were quadratic."""
        F, G = self.sweeps.exponents(f, g)

        def forward(v: Tensor) -> Tensor:
            return torch.from_numpy(self.stream.products(0, F, G, v.numpy().T)[:, 0])[None]

        def back(v: Tensor) -> Tensor:
            return torch.from_numpy(self.stream.products(1, F, G, v.numpy().T)[:, 0])[None]

        columns, lack = self._columns(f, g)
        if float(lack.abs().sum()) <= _ENOUGH * float(columns.sum()):
            return lack, None
        system = System(self.problem, forward, back, forward(torch.ones_like(g)), columns, f, g)
        _, dg = system.moves((torch.zeros_like(f), self.problem.epsilon * lack), _RESIDUAL, _INNER, warn=False)
        return lack, dg if float((lack * dg).sum()) > 0 else None
