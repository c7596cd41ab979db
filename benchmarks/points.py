"""Transport from points: how long, how much memory, at which proved gap.  `python -m benchmarks.points CASE`.

Each case runs in a process of its own, on all cores; memory is the largest resident size above that of the interpreter
with its packages and the points.  A record of each run is added to `results/points.jsonl`.  `--peers` solves the same
problem by other libraries too, each at the first of its settings whose potentials our certificate finds within `tol`
(`benchmarks/peers/online.py`); `picture` draws the records as time over the number of points, `clouds` two clouds of a
million points.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
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
    some, others = x[:1000], y[:1000]  # a matrix of their costs would be part of the largest resident size
    mean = float((some**2).sum(1).mean() + (others**2).sum(1).mean() - 2 * some.mean(0) @ others.mean(0))
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
    "balanced-hundred-thousand-2d": lambda: cube(100_000, 2, price=np.inf),
    "balanced-3d": lambda: cube(20_000, 3, price=np.inf),
    "five-thousand-3d": lambda: cube(5_000, 3),
    "five-thousand-30d": lambda: mixture(5_000, 30, 0.01, 1e-4),
    "small-epsilon-30d": lambda: mixture(10_000, 30, 0.003, 1e-4),
}
CURVES = {2: 1_000_000, 3: 1_000_000, 10: 100_000, 50: 31_623}  # dimensions: the most points that a curve needs
for _d in CURVES:
    for _n in (1_000, 3_162, 10_000, 31_623, 100_000, 316_228):
        if _n <= CURVES[_d]:
            _make = partial(cube, _n, _d) if _d <= 3 else partial(mixture, _n, _d, 0.05, 1e-4)
            CASES.setdefault(f"curve-{_d}d-{_n}", _make)


def resident() -> float:
    """The largest resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def busy() -> float:
    """Processor seconds that all processes of this machine have used, NaN where it does not tell (not Linux)."""
    try:
        user, nice, system, _, _, irq, soft, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    except (OSError, ValueError):
        return float("nan")
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def run(case: str) -> dict[str, Any]:
    x, y, settings = CASES[case]()
    jumbot.solve_sample(x[:300], y[:300], **settings)  # compiled, imported
    before, all_used, begun, used = resident(), busy(), time.perf_counter(), time.process_time()
    found = jumbot.solve_sample(x, y, **settings)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    others = busy() - all_used - used
    out: dict[str, Any] = {
        "case": case,
        "points": len(x),
        "dimensions": x.shape[1],
        "seconds": round(seconds, 2),
        "processor seconds": round(used, 2),
        "processor seconds of others": round(others, 1),
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
    return out


def against_the_matrix(case: str, rounds: int = 5) -> dict[str, Any]:
    """Medians of interleaved calls: from the points, and from the matrix with the time to make it."""
    x, y, settings = CASES[case]()
    points: list[float] = []
    matrix: list[float] = []
    for _ in range(rounds + 1):  # the first compiles
        begun = time.perf_counter()
        jumbot.solve_sample(x, y, **settings)
        points.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        jumbot.solve(squared_euclidean(torch.from_numpy(x), torch.from_numpy(y)), **settings)
        matrix.append(time.perf_counter() - begun)
    return {"seconds": median(points[1:]), "seconds with the matrix": median(matrix[1:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=[*CASES, "picture", "clouds"])
    parser.add_argument("--points", type=int, default=1_000_000, help="of either of the clouds that are drawn")
    parser.add_argument("--peers", action="store_true", help="other libraries too")
    parser.add_argument("--patience", type=int, default=300, help="seconds for each of them")
    options = parser.parse_args()
    if options.case in ("picture", "clouds"):
        from benchmarks.points_picture import draw, draw_clouds

        return draw(RECORD) if options.case == "picture" else draw_clouds(options.points)
    record = run(options.case)
    if record["points"] <= 5000:
        record |= against_the_matrix(options.case)
    if options.peers:
        from benchmarks.peers.online import compare

        record["peers"] = compare(options.case, options.patience)
        record["command"] += f" --peers --patience {options.patience}"
    print(json.dumps(record, indent=1))
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
