"""What every engine for epsilon > 0 is: problem and start in, outcome out, and the outcome is the next start."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from jumbot.transport.outcome import AnyOutcome, Start
from jumbot.transport.problem import Problem


class Engine(Protocol):
    """A module with these names; `solver.py` chooses among them and chains them, and knows nothing else of them."""

    @property
    def PATIENCE(self) -> int:
        """Iterations before another engine is tried."""

    def fits(self, problem: Problem) -> bool:
        """Whether this is the right engine, or a possible one."""

    def certifies(self, problem: Problem) -> bool:
        """Whether the certificate of `sweep` is one also where a marginal is constrained."""

    def sweep(
        self, problem: Problem, start: Start | None, tol: float, limit: int, price: Tensor, rounded: bool = True
    ) -> AnyOutcome:  # fmt: skip
        """Go on from `start` until each gap seems to be within `tol`, or for `limit` iterations.

        `price` `(B,)` is what a unit of violated constraint is taken to cost when a gap is estimated.  The certificate
        is exact where no marginal is constrained, or where the engine `certifies`; without `rounded` the potentials
        alone are asked for.
        """
