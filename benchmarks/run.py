"""One regime from problems to medians: calibrate the peers, time everybody in turns, count certificates."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.calibrate import calibrate
from benchmarks.certification import Failure, count_failures
from benchmarks.judge import judge_for
from benchmarks.ours import variants
from benchmarks.peers import Peer, peers_for
from benchmarks.regimes import Regime
from benchmarks.timing import interleave


@dataclass(frozen=True)
class Effort:
    """How much to run: distinct problems, seconds of timing and problems to certify in each regime."""

    problems: int = 5
    budget: float = 10.0
    rounds: int = 5
    certify: int = 1000
    certify_large: int = 200  # where m is 500 and more
    patience: float = 20.0  # a peer slower than the best by this factor is not pursued
    tuned: bool = True
    largest: int = 5000


FULL = Effort()
QUICK = Effort(
    problems=2, budget=0.5, rounds=2, certify=50, certify_large=5, patience=5.0, tuned=False, largest=500
)


@dataclass
class Entry:
    """One solver in one regime; `median` is seconds a call, None where the accuracy was not reached."""

    name: str
    median: float | None
    quality: float
    setting: Any = None
    tuned: bool = False
    calls: int = 0


@dataclass
class Row:
    """Everything measured in one regime."""

    regime: Regime
    ours: list[Entry]
    peers: list[Entry]
    certified: int = 0
    failures: list[Failure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def main(self) -> Entry:
        """Ours as the floors mean it: float64 inputs, relative gap 1e-6."""
        return self.ours[0]

    def best(self, tuned: bool) -> Entry | None:
        """The fastest peer that reached the accuracy, with or without the tuned configurations."""
        done = [p for p in self.peers if p.median is not None and (tuned or not p.tuned)]
        return min(done, key=lambda p: p.median, default=None)

    def ratio(self, tuned: bool = False) -> float | None:
        """Best peer's time over ours."""
        best = self.best(tuned)
        return best.median / self.main.median if best and self.main.median else None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is at least the floor."""
        ratio = self.ratio()
        return None if ratio is None else ratio >= self.regime.floor


def run_regime(regime: Regime, effort: Effort, say: Callable[[str], None]) -> Row:
    """Measure one regime."""
    single = regime.size > 1 or regime.m > 1000
    costs = [regime.problem(seed) for seed in range(1 if single else effort.problems)]
    judges = [judge_for(regime, cost) for cost in costs]
    solvers: dict[str, list[Callable[[], object]]] = {}
    entries: dict[str, Entry] = {}
    row = Row(regime, [], [])
    ours = variants(regime)
    peers, row.remarks = peers_for(regime)
    best = np.inf
    for solver in (*ours, *(p for p in peers if effort.tuned or not p.tuned)):
        own = solver in ours
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entry, calls, seconds = _calibrated(
                solver, costs, judges, np.inf if own else effort.patience * best, own
            )
        entries[solver.name] = entry
        (row.ours if own else row.peers).append(entry)
        if calls:
            solvers[solver.name] = calls
            best = best if own else min(best, seconds)
        say(f"    {solver.name}: quality {entry.quality:.1e}" + ("" if calls else ", not reached"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounds = min(effort.rounds, 3) if single else effort.rounds
        times = interleave(solvers, budget=effort.budget, rounds=rounds)
    for name, seconds in times.items():
        entries[name].median, entries[name].calls = statistics.median(seconds), len(seconds)
    if regime.kind not in ("divergence", "batch") and regime.m <= 1000:
        row.certified = effort.certify if regime.m < 500 else effort.certify_large
        row.failures = count_failures(regime, row.certified)
    return row


def _calibrated(
    solver: Peer, costs: list[np.ndarray], judges: list[Any], limit: float, always: bool
) -> tuple[Entry, list[Callable[[], object]], float]:
    """The calls to time, one setting a problem; none if a problem did not reach the accuracy."""
    calls: list[Callable[[], object]] = []
    hint, worst, settings, slowest = None, 0.0, [], 0.0
    for cost, judge in zip(costs, judges, strict=True):
        data = solver.prepare(cost)
        found = calibrate(solver, data, judge, max(limit, 0.2), hint)
        worst = max(worst, found.quality)
        if not (found.reached or always or judge.regime.kind == "divergence"):
            return Entry(solver.name, None, found.quality, found.setting, solver.tuned), [], np.inf
        hint = found.index
        settings.append(found.setting)
        slowest = max(slowest, found.seconds)
        calls.append(partial(solver.call, data, found.setting))
    return Entry(solver.name, None, worst, statistics.median(settings), solver.tuned), calls, slowest
