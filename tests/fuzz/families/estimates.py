"""`jumbot.estimate` against single solves of the very minibatches that it drew."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import jumbot

from ..draw import Generator, chance
from ..engines import engine
from ..entropies import Array
from ..judge import CLOSE
from ..report import Report
from ..watch import Refused, Watch
from .clouds import BORDERS, Loss, border_loss, random_clouds, random_loss, some_weights, uniform
from .recorder import Pairs, Recorder, numbers


@dataclass(frozen=True)
class _Data:
    points: tuple[Array, Array]
    weights: tuple[Array | None, Array | None]
    loss: Loss
    m: int
    k: Any
    seed: int

    @property
    def options(self) -> dict[str, Any]:
        return {"m": self.m, "k": self.k, "seed": self.seed, "loss": self.loss.name, **self.loss.settings}

    def drawn(self, watch: Watch) -> Pairs:
        sizes = [len(x) for x in self.points]
        if self.k == "all":
            subsets = [[np.array(s) for s in itertools.combinations(range(n), self.m)] for n in sizes]
            return list(itertools.product(*subsets))
        recorder = Recorder()
        given = self.weights if self.loss.constrained else (None, None)  # elsewhere the draw is uniform
        watch(jumbot.estimate, *map(numbers, sizes), *given, **self.options, cost=recorder)
        return recorder.pairs[: self.k]  # a slow call is made twice

    def carried(self, side: int, index: Array) -> Array:
        """The weights of a minibatch: a[I] n/m, or uniform where points were drawn by weight."""
        w = self.weights[side]
        if w is None:
            return uniform(None, len(index))
        if self.loss.constrained:
            return np.full(len(index), w.sum() / len(index))
        return w[index] * (len(w) / len(index))


def estimate(rng: Generator, watch: Watch, report: Report) -> None:
    _judged(rng, watch, report, _random(rng))


def at_borders(rng: Generator, watch: Watch, report: Report) -> None:
    """Minibatches so large that another engine takes over."""
    m = int(rng.choice(BORDERS))
    x, y, unit = random_clouds(rng, m + int(rng.integers(9)), m + int(rng.integers(9)))
    weights = rng.uniform(0.5, 1.5, size=len(x)) / len(x), None
    loss = border_loss(rng, unit)
    given = weights if not loss.constrained else (None, None)
    _judged(rng, watch, report, _Data((x, y), given, loss, m, int(rng.integers(1, 3)), int(rng.integers(2**31))))


def _judged(rng: Generator, watch: Watch, report: Report, data: _Data) -> None:
    library = str(rng.choice(["numpy", "torch", "float32"]))
    held = [torch.from_numpy(x) if library == "torch" else x for x in data.points]
    if library == "float32":
        held = [x.astype(np.float32) for x in data.points]
    sizes, weighted = [len(x) for x in data.points], [w is not None for w in data.weights]
    report.label = f"estimate {sizes} points {library} m={data.m} k={data.k} {data.loss} weights {weighted}"
    same = {**data.options, "cost": data.loss.cost, "tol": 1e-9}
    with engine("its own", int(rng.choice([1, 1, 1, 2, 4]))):
        pairs = data.drawn(watch)
        chunk = None if chance(rng, 0.5) else int(rng.integers(1, 9))
        try:
            found, warned = watch(jumbot.estimate, *held, *data.weights, **same, plan=True, chunk=chunk)
        except Refused as refusal:
            empty = any(data.carried(side, pair[side]).sum() == 0 for pair in pairs for side in (0, 1))
            report.faults += [] if empty else [f"refused, but within the contract: {refusal}"]
            report.refused = 1
            return
        again, _ = watch(jumbot.estimate, *held, *data.weights, **same, chunk=3)
    report.problems, report.converged = len(pairs), 0 if warned else len(pairs)
    _against_single_solves(watch, report, data, [np.asarray(x, dtype=np.float64) for x in held], pairs, found)
    if not abs(again.value - found.value) <= 1e-12 * np.abs(found.values).max():
        report.faults.append(f"value {found.value!r}, in chunks of three {again.value!r}")


def _random(rng: Generator) -> _Data:
    n, m = (int(k) for k in rng.integers(3, 40, size=2))
    complete = chance(rng, 0.15)
    if complete:
        n, m = 4, 5
    x, y, unit = random_clouds(rng, n, m)
    loss = random_loss(rng, unit, symmetric=False)
    size = int(rng.integers(1, min(n, m, 12) + 1))
    weights = some_weights(rng, loss, (n, m), zeros=chance(rng, 0.1)) if not complete else (None, None)
    k: Any = "all" if complete else int(rng.choice([1, 2, 7, 30]))
    return _Data((x, y), weights, loss, size, k, int(rng.integers(2**31)))


def _against_single_solves(
    watch: Watch, report: Report, data: _Data, points: list[Array], pairs: Pairs, found: Any
) -> None:
    if len(found.values) != len(pairs):
        report.faults.append(f"{len(found.values)} values for {len(pairs)} minibatches")
        return
    total, scales, plan = 0.0, 0.0, np.zeros([len(x) for x in points])
    for number, (I, J) in enumerate(pairs):
        weights = data.carried(0, I), data.carried(1, J)
        value, error, scale, part = data.loss.of(watch, points[0][I], points[1][J], *weights)
        total, scales = total + value / len(pairs), scales + scale / len(pairs)
        np.add.at(plan, np.ix_(I, J), part / len(pairs))
        if not abs(found.values[number] - value) <= CLOSE * scale + error:
            report.faults.append(f"minibatch {number}: {found.values[number]:.9g}, alone {value:.9g} ({scale:.3g})")
    if not abs(found.value - total) <= CLOSE * scales:
        report.faults.append(f"value {found.value:.9g}, mean of single solves {total:.9g}")
    off = float(np.abs(np.asarray(found.plan.to_dense()) - plan).sum())
    if not off <= 2e-3 * plan.sum():
        report.faults.append(f"lifted plan off by {off:.3g} of {plan.sum():.3g}")
