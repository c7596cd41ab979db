"""Does every problem come back certified? Random ones of each regime, judged apart from the package."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import torch

from benchmarks.judge import Judge
from benchmarks.ours import TOLERANCE, Ours
from benchmarks.regimes import Regime

FIRST_SEED = 10_000  # away from the problems that are timed


@dataclass(frozen=True)
class Failure:
    """A problem that was not certified: `Regime.problem(seed)` makes it again."""

    seed: int
    claimed: float
    measured: float
    status: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def count_failures(regime: Regime, problems: int) -> list[Failure]:
    """Solve that many problems through the public call; a failure is a gap above tol, claimed or measured."""
    ours = Ours(regime, "jumbot")
    failures = []
    for seed in range(FIRST_SEED, FIRST_SEED + problems):
        cost = regime.problem(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = ours.solve(torch.tensor(cost), TOLERANCE)
        judge = Judge(regime, cost)
        f, g = (v.numpy() for v in solution.potentials)
        measured = judge(solution.plan.numpy(), (f, g))
        claimed = float(solution.relative_gap.max())
        if not (measured <= judge.tolerance and claimed <= TOLERANCE):
            failures.append(Failure(seed, claimed, measured, str(solution.status)))
    return failures
