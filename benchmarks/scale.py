"""How `jumbot.estimate` and `jumbot.gradient_flow` grow: with the number of points, and with that of coordinates.

    python -m benchmarks.scale [--n 10000000] [--out results/scale/scale.json]

Points: `n` points in the plane on each side, in memory; each call in a fresh process, which says how long the call took
and how far it raised the peak of the resident memory above that of the interpreter and the data.  Coordinates: time per
minibatch of 64 points beside a plain loop of numpy costs and `jumbot.solve`; the three interleaved, medians of seven
rounds.  Everything on one thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import jumbot
from benchmarks.machine import describe
from benchmarks.origin import origin

M, EPSILON, TAU = 64, 0.05, 1.0
ESTIMATE = {"m": M, "k": 10_000}
FLOW = {"m": M, "k": 1000, "steps": 10, "learning_rate": 0.05}
COORDINATES = {2: 20_000, 64: 20_000, 256: 8000, 2048: 2000}  # and how many points there are
ROUNDS, MINIBATCHES = 7, 128


def clouds(n: int, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Two Gaussian clouds that overlap; made without a copy, so that the peak before a call is that of the data."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    y += 1
    return x, y


def peak() -> float:
    """The largest resident memory of this process so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def alone(what: str, n: int) -> dict[str, Any]:
    """One call on `n` points per side, in this process."""
    run(what, *clouds(1000), k=1)  # compiles, and takes little memory of its own
    x, y = clouds(n)
    before, start = peak(), time.perf_counter()
    found = run(what, x, y)
    seconds = time.perf_counter() - start
    return {"call": what, "n": n, "seconds": seconds, "peak_MB": peak(), "before_MB": before, "found": found}


def run(what: str, x: np.ndarray, y: np.ndarray, **less: int) -> str:
    if what == "estimate":
        est = jumbot.estimate(x, y, epsilon=EPSILON, tau=TAU, **{**ESTIMATE, **less})
        low, high = est.interval()
        return f"{est.value:.4f}, 95 % in [{low:.4f}, {high:.4f}]"
    flow = jumbot.gradient_flow(x, y, epsilon=EPSILON, tau=TAU, snapshots=2, **{**FLOW, **less})
    return f"loss {flow.losses[0]:.4f} -> {flow.losses[-1]:.4f}"


def per_minibatch(d: int, n: int) -> dict[str, Any]:
    """Milliseconds per minibatch with `d` coordinates; epsilon and tau grow with the squared distances."""
    x, y = clouds(n, d)
    settings = {"epsilon": EPSILON * d, "tau": TAU * d}

    def estimate() -> None:
        jumbot.estimate(x, y, m=M, k=MINIBATCHES, **settings)

    def flow() -> None:
        jumbot.gradient_flow(x, y, m=M, steps=MINIBATCHES, learning_rate=0.01, snapshots=[], **settings)

    def loop() -> None:
        rng = np.random.default_rng(0)
        for _ in range(MINIBATCHES):
            p, q = x[rng.choice(n, M, replace=False)], y[rng.choice(n, M, replace=False)]
            cost = (p**2).sum(1)[:, None] + (q**2).sum(1) - 2 * p @ q.T
            jumbot.solve(cost, **settings)

    functions: dict[str, Callable[[], None]] = {"estimate": estimate, "loop of solve": loop, "flow step": flow}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(ROUNDS + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if number:  # the first compiles
                times[name].append(1e3 * (time.perf_counter() - start) / MINIBATCHES)
    return {"d": d, "n": n, **{f"{name} (ms)": statistics.median(values) for name, values in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--alone", choices=["estimate", "flow"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("scale.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.alone:
        print(json.dumps(alone(options.alone, options.n)))
        return
    points = []
    for what in ("estimate", "flow"):
        command = [sys.executable, "-m", "benchmarks.scale", "--alone", what, "--n", str(options.n)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        points.append(row)
        added = row["peak_MB"] - row["before_MB"]
        print(f"{what}: {row['seconds']:.1f} s, {added:.0f} MB above {row['before_MB']:.0f}; {row['found']}")
    coordinates = []
    for d, n in COORDINATES.items():
        coordinates.append(per_minibatch(d, n))
        print(", ".join(f"{name} {value:.4g}" for name, value in coordinates[-1].items()), flush=True)
    record = {
        **origin("scale", sys.argv[1:]),
        "seed": 0,
        "settings": {"epsilon": EPSILON, "tau": TAU, "estimate": ESTIMATE, "flow": FLOW, "minibatches": MINIBATCHES},
        "machine": describe(),
        "points": points,
        "coordinates": coordinates,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
