"""Transport from points: how long, how much memory, at which proved gap.  `python -m benchmarks.points CASE`.

Each case runs in a process of its own, on all cores; memory is the largest resident size above that of the interpreter
with its packages and the points.  A record of each run is added to `results/points.jsonl`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import jumbot
from jumbot.cost import squared_euclidean

RECORD = Path(__file__).parent.parent / "results" / "points.jsonl"
Problem = tuple[np.ndarray, np.ndarray, dict[str, Any]]


def cube(n: int, d: int, blur: float = 0.02, price: float = 10.0) -> Problem:
    """Uniform points against points that crowd to a corner; epsilon = (2 % of the diameter)^2, tau = 10 epsilon."""
    draw = np.random.default_rng(0)
    x, y = draw.random((n, d)), draw.random((n, d)) ** 1.3
    epsilon = blur**2 * d
    return x, y, {"epsilon": epsilon, "tau": price * epsilon, "tol": 1e-4}


def mixture(n: int, d: int, share: float, tol: float) -> Problem:
    """Ten Gaussians and the same ten, moved; epsilon is a share of the mean cost, tau = 10 epsilon."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(10, d))
    x, y = (centres[draw.integers(10, size=n)] + 0.5 * draw.normal(size=(n, d)) for _ in range(2))
    y += 0.2
    mean = float(((x[:1000, None] - y[None, :1000]) ** 2).sum(-1).mean())
    return x, y, {"epsilon": share * mean, "tau": 10 * share * mean, "tol": tol}


CASES: dict[str, Any] = {
    "million-2d": lambda: cube(1_000_000, 2),
    "million-3d": lambda: cube(1_000_000, 3),
    "mixture-50d": lambda: mixture(100_000, 50, 0.05, 1e-3),
    "cells-30d": lambda: mixture(22_604, 30, 0.01, 1e-4),
    "five-thousand-2d": lambda: cube(5_000, 2),
    "hundred-thousand-2d": lambda: cube(100_000, 2),
    "hundred-thousand-3d": lambda: cube(100_000, 3),
    "ten-thousand-2d": lambda: cube(10_000, 2),
    "ten-thousand-3d": lambda: cube(10_000, 3),
    "small-epsilon-2d": lambda: cube(100_000, 2, blur=0.005),
    "balanced-2d": lambda: cube(20_000, 2, price=np.inf),
}


def resident() -> float:
    """The largest resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def run(case: str) -> dict[str, Any]:
    x, y, settings = CASES[case]()
    jumbot.solve_sample(x[:300], y[:300], **settings)  # compiled, imported
    before, begun = resident(), time.perf_counter()
    found = jumbot.solve_sample(x, y, **settings)
    seconds = time.perf_counter() - begun
    out: dict[str, Any] = {
        "case": case,
        "points": len(x),
        "dimensions": x.shape[1],
        "seconds": round(seconds, 2),
        "megabytes": round(resident() - before),
        "relative gap": float(found.relative_gap),
        "kept": found.kept,
        "sweeps": found.iterations,
        "value": float(found.value),
        "threads": torch.get_num_threads(),
        "seed": 0,
        **settings,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "command": f"python -m benchmarks.points {case}",
    }
    if len(x) <= 5000:
        begun = time.perf_counter()
        matrix = squared_euclidean(torch.from_numpy(x), torch.from_numpy(y))
        jumbot.solve(matrix, **settings)
        out["seconds with the matrix"] = round(time.perf_counter() - begun, 2)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=list(CASES))
    record = run(parser.parse_args().case)
    print(json.dumps(record, indent=1))
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
