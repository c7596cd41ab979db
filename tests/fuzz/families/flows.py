"""`jumbot.gradient_flow`: its losses against single solves, each of its steps against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import jumbot

from ..draw import Generator
from ..engines import engine
from ..entropies import Array
from ..judge import CLOSE
from ..report import Report
from ..slopes import compare
from ..watch import Watch
from .clouds import BORDERS, Loss, border_loss, random_clouds, random_loss, uniform
from .recorder import Recorder, numbers


def gradient_flow(rng: Generator, watch: Watch, report: Report) -> None:
    n, m = (int(k) for k in rng.integers(3, 30, size=2))
    size, k, steps = int(rng.integers(1, min(n, m, 10) + 1)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x, y, unit = random_clouds(rng, n, m)
    _judged(rng, watch, report, (x, y, unit), random_loss(rng, unit, symmetric=False), (size, k, steps))


def at_borders(rng: Generator, watch: Watch, report: Report) -> None:
    """Minibatches so large that another engine takes over."""
    size = int(rng.choice(BORDERS))
    x, y, unit = random_clouds(rng, size + int(rng.integers(9)), size + int(rng.integers(9)))
    _judged(rng, watch, report, (x, y, unit), border_loss(rng, unit), (size, 1, 1))


def _judged(
    rng: Generator,
    watch: Watch,
    report: Report,
    clouds: tuple[Array, Array, float],
    loss: Loss,
    sizes: tuple[int, int, int],
) -> None:
    (x, y, unit), (size, k, steps), loss = clouds, sizes, replace(loss, reference="product")
    rate = 0.05 if loss.cost == "sqeuclidean" else 0.05 * unit
    options = {name: value for name, value in loss.settings.items() if name != "reference"}
    options |= {"m": size, "k": k, "steps": steps, "learning_rate": rate, "loss": loss.name}
    options |= {"seed": int(rng.integers(99)), "snapshots": list(range(steps + 1))}
    report.label, report.problems = f"flow {len(x)}, {len(y)} points m={size} k={k} steps={steps} {loss}", k * steps
    recorder = Recorder()
    with engine("its own", int(rng.choice([1, 1, 1, 2, 4]))):
        flow, warned = watch(jumbot.gradient_flow, x, y, **options, cost=loss.cost, tol=1e-11)
        watch(jumbot.gradient_flow, numbers(len(x)), numbers(len(y)), **options, cost=recorder)
    report.converged = 0 if warned else report.problems
    w = uniform(None, size)
    for step in range(steps):
        here, there = flow.snapshots[step], flow.snapshots[step + 1]
        pairs, move = recorder.pairs[k * step : k * step + k], rng.normal(size=x.shape) * unit

        def along(t: float, here: Array = here, move: Array = move, pairs: list = pairs) -> tuple[float, float, float]:
            """(sum of h over the minibatches, how far it can be off, its scale) at the points moved by t."""
            parts = [loss.of(watch, (here + t * move)[I], y[J], w, w)[:3] for I, J in pairs]
            value, error, scale = np.sum(parts, axis=0)
            return float(value), float(error), float(scale)

        value, error, scale = along(0.0)
        if not abs(flow.losses[step] * k - value) <= CLOSE * scale + error:
            report.faults.append(f"step {step}: loss {flow.losses[step]:.9g}, single solves {value / k:.9g}")
        slope = (here - there) / (rate * size / k)
        rounding = 4e-16 * (np.abs(here) * np.abs(move)).sum() / (rate * size / k)
        size_of_slope = float(np.abs(slope * move).sum() + rounding / CLOSE)
        faults = compare(float((slope * move).sum()), size_of_slope, lambda t, f=along: f(t)[:2], 1e-4)
        report.faults += [f"step {step}: {fault}" for fault in faults]
