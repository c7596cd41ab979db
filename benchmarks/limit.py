"""One problem of 5,000 x 5,000 beside the least time in which its memory can be read and written.

    python -m benchmarks.limit [--out results/limit.json]

At this size the sweeps wait for memory.  The limit moves, in as many threads and with one addition per entry, what
the algorithm has to move: the cost once to see that it is finite, once for the first sweep, which writes the kernel in
float32, and once for the plan; the kernel once for each further sweep.  Memory is new in each call, as a result's is.
Interleaved with `jumbot.solve`, medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch

import jumbot
from benchmarks.machine import describe
from benchmarks.origin import origin
from benchmarks.regimes import REGIMES
from benchmarks.timing import interleave
from jumbot.transport.compiled.threads import run, split

ROUNDS = 15
_SHARES = 16  # blocks of rows


@numba.njit(nogil=True, fastmath=True)
def _read(x: Any) -> float:
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j]
    return total


@numba.njit(nogil=True, fastmath=True)
def _write(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + x.dtype.type(1)


def move(cost: np.ndarray, sweeps: int) -> np.ndarray:
    """The traffic of so many sweeps; the array that stands for the plan."""
    plan = np.empty(cost.shape)
    kernel = plan.reshape(-1).view(np.float32)[: cost.size].reshape(cost.shape)
    blocks = [slice(*part) for part in split(len(cost), _SHARES)]
    run(lambda s: _read(cost[s]), blocks)
    run(lambda s: _write(cost[s], kernel[s]), blocks)
    for _ in range(sweeps - 1):
        run(lambda s: _read(kernel[s]), blocks)
    run(lambda s: _write(cost[s], plan[s]), blocks)
    return plan


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limit", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/limit.json"))
    out = parser.parse_args().out
    [regime] = [regime for regime in REGIMES if regime.name == "n=5000"]
    cost = torch.tensor(regime.problem(0))
    solution = jumbot.solve(cost, epsilon=regime.epsilon, tau=regime.tau)
    sweeps, array = int(solution.iterations), cost.numpy()
    move(array, sweeps)  # compiles
    calls: dict[str, list[Callable[[], object]]] = {
        "jumbot": [lambda: jumbot.solve(cost, epsilon=regime.epsilon, tau=regime.tau).plan],
        "limit": [lambda: move(array, sweeps)],
    }
    seconds = interleave(calls, budget=0.0, rounds=ROUNDS)
    found = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
    record = origin("limit") | {
        "regime": regime.label, "sweeps": sweeps, "relative_gap": float(solution.relative_gap), "rounds": ROUNDS,
        "ms": found, "ratio": found["jumbot"] / found["limit"], "machine": describe(),
    }  # fmt: skip
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"jumbot {found['jumbot']:.1f} ms, limit {found['limit']:.1f} ms: {record['ratio']:.2f} times the limit")


if __name__ == "__main__":
    main()
