"""Ten typical calls of POT, and the same ten with `from jumbot.compat import ot`: plans and times side by side.

    python -m benchmarks.drop_in [--quick] [--out results]

Between 200 points of two Gaussians in the plane, costs divided by their maximum.  Both take turns; medians of the
milliseconds of processor time of a call, on one thread (`OMP_NUM_THREADS=1`), which other work on the machine does not
change.  The plan of each is compared with the other's, by the largest difference of an entry relative
to the largest entry, and with the optimum by `jumbot.certify`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import ot as pot
import torch

import jumbot
from benchmarks import machine
from jumbot.compat import ot as ours

POINTS = 200
Call = Callable[[Any], Any]


def problem(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(POINTS, 2)), rng.normal(size=(POINTS, 2)) + 1
    cost = pot.dist(x, y)
    a, b = rng.dirichlet(np.ones(POINTS)), rng.dirichlet(np.ones(POINTS))
    batch = rng.random((64, 50, 50))
    return {"x": x, "y": y, "M": cost / cost.max(), "a": a, "b": b, "batch": batch}


def gradient(package: Any, p: dict[str, Any]) -> np.ndarray:
    """Of the cost of the entropic plan, in the costs."""
    M = torch.from_numpy(p["M"]).requires_grad_()
    package.sinkhorn2(torch.from_numpy(p["a"]), torch.from_numpy(p["b"]), M, 0.05).backward()
    return M.grad.numpy()


def calls(p: dict[str, Any]) -> dict[str, tuple[Call, dict[str, Any] | None]]:
    """Each takes the package, and returns a plan; with the problem that it is meant to solve."""
    a, b, M = p["a"], p["b"], p["M"]
    return {
        "emd": (lambda o: o.emd(a, b, M), {"epsilon": 0.0}),
        "sinkhorn, reg .05": (lambda o: o.sinkhorn(a, b, M, 0.05), {"epsilon": 0.05}),
        "sinkhorn, reg .005": (lambda o: o.sinkhorn(a, b, M, 0.005, numItermax=10_000), {"epsilon": 0.005}),
        "sinkhorn2 with gradient": (lambda o: gradient(o, p), None),
        "sinkhorn_knopp_unbalanced": (
            lambda o: o.unbalanced.sinkhorn_knopp_unbalanced(a, b, M, 0.05, 1.0),
            {"epsilon": 0.05, "tau": 1.0},
        ),
        "sinkhorn_unbalanced, reg .005": (
            lambda o: o.unbalanced.sinkhorn_unbalanced(a, b, M, 0.005, 1.0, numItermax=10_000),
            {"epsilon": 0.005, "tau": 1.0},
        ),
        "mm_unbalanced": (lambda o: o.unbalanced.mm_unbalanced(a, b, M, 1.0), {"epsilon": 0.0, "tau": 1.0}),
        "partial_wasserstein": (lambda o: o.partial.partial_wasserstein(a, b, M, m=0.6), {"epsilon": 0.0, "mass": 0.6}),
        "solve_sample, reg 1": (lambda o: o.solve_sample(p["x"], p["y"], a, b, reg=1.0).plan, None),
        "solve_batch, reg .1": (lambda o: o.batch.solve_batch(p["batch"], reg=0.1).plan, None),
    }


def in_turn(solvers: dict[str, Callable[[], object]], budget: float) -> dict[str, list[float]]:
    """Seconds of processor time of each call: three of each at least, more while `budget` lasts."""
    times: dict[str, list[float]] = {name: [] for name in solvers}
    while len(times["POT"]) < 3 or sum(map(sum, times.values())) < budget:
        for name, solver in solvers.items():
            begin = time.process_time()
            solver()
            times[name].append(time.process_time() - begin)
    return times


def measure(name: str, budget: float) -> dict[str, Any]:
    p = problem()
    call, setting = calls(p)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, plan = call(pot), call(ours)
        times = in_turn({"POT": partial(call, pot), "jumbot": partial(call, ours)}, budget)
    row = {
        "call": name,
        "difference": float(np.abs(plan - theirs).max() / np.abs(theirs).max()),
        "POT ms": 1e3 * statistics.median(times["POT"]),
        "jumbot ms": 1e3 * statistics.median(times["jumbot"]),
    }
    if setting is not None:
        for who, found in (("POT", theirs), ("jumbot", plan)):
            row[f"{who} gap"] = float(jumbot.certify(p["M"], p["a"], p["b"], plan=found, **setting).relative_gap)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fifth of the time")
    parser.add_argument("--out", type=Path, help="folder to write drop_in.json to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'call':32s} {'difference':>10s} {'POT ms':>9s} {'ours ms':>9s} {'times':>6s}  gap of POT, of ours")
    rows = []
    for name in calls(problem()):
        row = measure(name, 1.0 if given.quick else 5.0)
        rows.append(row)
        gaps = f"{row['POT gap']:.0e} {row['jumbot gap']:.0e}" if "POT gap" in row else ""
        ratio = row["POT ms"] / row["jumbot ms"]
        print(f"{name:32s} {row['difference']:10.1e} {row['POT ms']:9.2f} {row['jumbot ms']:9.2f} {ratio:6.1f}  {gaps}")
    if given.out:
        record = {
            "command": "OMP_NUM_THREADS=1 python -m benchmarks.drop_in" + " --quick" * given.quick,
            "seed": 0,
            "date": date.today().isoformat(),
            "data": f"{POINTS} points of two Gaussians in the plane",
            "machine": machine.describe(),
            "versions": {name: version(name) for name in ("POT", "jumbot", "torch", "numpy")},
            "rows": rows,
        }
        (given.out / "drop_in.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
