"""One regime from problems to medians: calibrate the peers, time everybody in turns, count certificates."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.calibrate import calibrate
from benchmarks.certification import Failure, count_failures
from benchmarks.judge import Judge, judge_for
from benchmarks.ours import kernel_seconds, variants
from benchmarks.peers import Peer, peers_for
from benchmarks.regimes import Regime
from benchmarks.timing import interleave, threads


@dataclass(frozen=True)
class Effort:
    """How much to run: distinct problems, seconds of timing and problems to certify in each regime."""

    problems: int = 5
    budget: float = 4.0
    rounds: int = 5
    certify: int = 500
    certify_large: int = 100  # where m is 500 and more
    patience: float = 15.0  # a peer slower than the best by this factor is not pursued
    margin: float = 20.0  # nor one that is slower than ours by this multiple of the floor
    tuned: bool = True
    largest: int = 5000
    batch: int = 1000  # problems in a batch


FULL = Effort()
QUICK = Effort(
    problems=2,
    budget=0.5,
    rounds=2,
    certify=50,
    certify_large=5,
    patience=3.0,
    margin=8.0,
    tuned=False,
    largest=500,
    batch=200,
)


@dataclass
class Entry:
    """One solver in one regime; `median` is seconds per call, None where the accuracy was not reached.

    `given_up` is the seconds of its last call where it was the time that ran out, not the ladder: more would be
    needed to reach the accuracy.
    """

    name: str
    median: float | None
    quality: float
    setting: Any = None
    tuned: bool = False
    calls: int = 0
    fast: float | None = None  # the tenth percentile: what a quiet machine would show
    given_up: float | None = None
    kernel: float | None = None  # median seconds of it in compiled sweeps, where they are all that is compiled


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
        """Ours as the floors mean it: float64 inputs, relative gap 1e-10."""
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
    def accelerated(self) -> bool:
        """Whether a tuned peer beats the default algorithms."""
        return self.best(tuned=True) is not self.best(tuned=False)

    def at_least(self) -> float | None:
        """A lower bound on the ratio where every peer was given up: the fastest of them had run this long."""
        bounds = [p.given_up for p in self.peers if p.given_up is not None and not p.tuned]
        if self.best(tuned=False) or not bounds or not self.main.median:
            return None
        return min(bounds) / self.main.median

    @property
    def met(self) -> bool | None:
        """Whether the ratio is at least the floor; None where it is not known."""
        if self.ratio() is not None:
            return self.ratio() >= self.regime.floor
        return True if (self.at_least() or 0) >= self.regime.floor else None


def run_regime(regime: Regime, effort: Effort, say: Callable[[str], None]) -> Row:
    """Measure one regime.

    Single small problems run on one thread of torch and BLAS, for everybody: parallel regions over 64 x 64 entries
    gain nothing on a quiet machine and lose a factor of ten on a busy one.
    """
    if regime.size > 1:
        regime = replace(regime, size=effort.batch)
    small = regime.size == 1 and regime.m <= 128
    with warnings.catch_warnings(), threads(1 if small else None):
        warnings.simplefilter("ignore")
        return _measure(regime, effort, say)


def _measure(regime: Regime, effort: Effort, say: Callable[[str], None]) -> Row:
    single = regime.size > 1 or regime.m > 1000
    costs = [regime.problem(seed) for seed in range(1 if single else effort.problems)]
    judges = [judge_for(regime, cost) for cost in costs]
    row = Row(regime, [], [])
    ours = variants(regime)
    peers, row.remarks = peers_for(regime)
    solvers: dict[str, list[Callable[[], object]]] = {}
    best = own = np.inf
    for solver in ours:
        entry, solvers[solver.name], seconds = _calibrated(solver, costs, judges, np.inf)
        row.ours.append(entry)
        own = min(own, seconds)
        say(f"    {solver.name}: {entry.quality:.1e}")
    for peer in peers:
        if peer.tuned and not effort.tuned:
            continue
        limit = max(min(effort.patience * best, effort.margin * regime.floor * own), 0.05)
        entry, calls, seconds = _calibrated(peer, costs, judges, limit)
        row.peers.append(entry)
        if calls:
            solvers[peer.name] = calls
            best = min(best, seconds)
        say(f"    {peer.name}: {entry.quality:.1e}" + ("" if calls else ", not reached"))
    times = interleave(solvers, budget=effort.budget, rounds=min(effort.rounds, 3) if single else effort.rounds)
    for entry in (*row.ours, *row.peers):
        if entry.name in times:
            seconds = times[entry.name]
            entry.median, entry.calls = statistics.median(seconds), len(seconds)
            entry.fast = float(np.quantile(seconds, 0.1))
    row.main.kernel = kernel_seconds(solvers[row.main.name])
    if regime.kind not in ("divergence", "batch") and regime.m <= 1000:
        row.certified = effort.certify if regime.m < 500 else effort.certify_large
        row.failures = count_failures(regime, row.certified)
    return row


def _calibrated(
    solver: Peer, costs: list[np.ndarray], judges: list[Judge], limit: float
) -> tuple[Entry, list[Callable[[], object]], float]:
    """The calls to time, one setting per problem; none if a problem did not reach the accuracy."""
    calls: list[Callable[[], object]] = []
    hint, worst, settings, slowest = None, 0.0, [], 0.0
    for cost, judge in zip(costs, judges, strict=True):
        data = solver.prepare(cost)
        found = calibrate(solver, data, judge, limit, hint)
        worst = max(worst, found.quality)
        only = len(solver.settings) == 1  # nothing to tighten: timed, with its error beside it
        if not (found.reached or only):
            entry = Entry(solver.name, None, found.quality, found.setting, solver.tuned)
            entry.given_up = found.seconds if found.index < len(solver.settings) - 1 else None
            return entry, [], np.inf
        hint = found.index
        settings.append(found.setting)
        slowest = max(slowest, found.seconds)
        calls.append(partial(solver.call, data, found.setting))
    return Entry(solver.name, None, worst, statistics.median(settings), solver.tuned), calls, slowest
