"""One problem of 5,000 x 5,000 beside the least time in which it could be solved.

    python -m benchmarks.limit [--out results/limit.json]

At this size the sweeps wait for memory.  The limit moves, in as many threads, what the algorithm has to move: the cost
once to see that it is finite, once for the first sweep, which writes the kernel in float32, and once for the plan; the
kernel once for each further sweep.  Like the plan, its array lies in memory that is used again.  "memory" does one
addition per entry, so no arithmetic keeps it from the speed of the memory; "exponentials" makes those of the kernel
and of the plan, which every such algorithm needs, and nothing else: no minima, no scalings, no sums that are kept, no
certificate.  Interleaved with `jumbot.solve`, medians.
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
from jumbot.transport._entropic import large_sweeps
from jumbot.transport._kernels.gibbs import LEAST, fill
from jumbot.transport._kernels.memory import empty
from jumbot.transport._kernels.row_blocks import fill_single
from jumbot.transport._kernels.threads import run, split

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


def move(cost: np.ndarray, sweeps: int, scale: float | None = None) -> np.ndarray:
    """The traffic of so many sweeps, with the exponentials of cost x scale if it is given; what stands for the plan."""
    plan, zero = empty(*cost.shape), np.zeros(max(cost.shape))
    kernel = plan.reshape(-1).view(np.float32)[: cost.size].reshape(cost.shape)
    blocks = [slice(*part) for part in split(len(cost), _SHARES)]

    def write(out: np.ndarray, exponentials: Any, cut: float) -> None:
        def task(s: slice) -> None:
            if scale is None:
                _write(cost[s], out[s])
            else:
                exponentials(cost[s], scale, zero[s], zero[: cost.shape[1]], cut, out[s])

        run(task, blocks)

    run(lambda s: _read(cost[s]), blocks)
    write(kernel, fill_single, large_sweeps._CUT)
    for _ in range(sweeps - 1):
        run(lambda s: _read(kernel[s]), blocks)
    write(plan, fill, LEAST)
    return plan


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limit", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/limit.json"))
    out = parser.parse_args().out
    [regime] = [regime for regime in REGIMES if regime.name == "n=5000"]
    cost = torch.tensor(regime.problem(0))
    solution = jumbot.solve(cost, epsilon=regime.epsilon, tau=regime.tau)
    sweeps, array = int(solution.iterations), cost.numpy()
    calls: dict[str, list[Callable[[], object]]] = {
        "jumbot": [lambda: jumbot.solve(cost, epsilon=regime.epsilon, tau=regime.tau).plan],
        "exponentials": [lambda: move(array, sweeps, 1 / regime.epsilon)],
        "memory": [lambda: move(array, sweeps)],
    }
    for [call] in calls.values():  # compiles
        call()
    seconds = interleave(calls, budget=0.0, rounds=ROUNDS)
    found = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
    record = origin("limit") | {
        "regime": regime.label,
        "sweeps": sweeps,
        "relative_gap": float(solution.relative_gap),
        "rounds": ROUNDS,
        "ms": found,
        "ratio": {name: found["jumbot"] / found[name] for name in found if name != "jumbot"},
        "machine": describe(),
    }
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, ratio in record["ratio"].items():
        print(f"jumbot {found['jumbot']:.1f} ms, {name} {found[name]:.1f} ms: {ratio:.2f} times the limit")


if __name__ == "__main__":
    main()
