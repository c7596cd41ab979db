"""Throughput of `jumbot.estimate` beside `jumbot.solve` on ready cost batches and a loop over POT.

    python -m benchmarks.minibatch

m = 64, k = 10,000 minibatches of 10,000 points in 16 dimensions, epsilon = .1, tau = 1; the three interleaved, medians
of five rounds.  POT is timed on 200 of the minibatches, told to stop at the iteration count that reaches the same gap.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import jumbot
from jumbot.cost import squared_euclidean

M, K, N, EPSILON, TAU = 64, 10_000, 10_000, 0.1, 1.0
POT_PROBLEMS, POT_ITERATIONS = 200, 60


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    import ot

    rng = np.random.default_rng(0)
    x, y = 0.3 * rng.normal(size=(N, 16)), 0.3 * rng.normal(size=(N, 16)) + 0.1
    I, J = rng.integers(0, N, (K, M)), rng.integers(0, N, (K, M))
    costs = torch.cat(
        [
            squared_euclidean(torch.from_numpy(x[I[k : k + 500]]), torch.from_numpy(y[J[k : k + 500]]))
            for k in range(0, K, 500)
        ]
    )
    weights = np.full(M, 1 / M)

    def estimate() -> None:
        jumbot.estimate(x, y, m=M, k=K, epsilon=EPSILON, tau=TAU)

    def ready() -> None:
        for k in range(0, K, 500):
            jumbot.solve(costs[k : k + 500], epsilon=EPSILON, tau=TAU)

    def pot() -> None:
        for k in range(POT_PROBLEMS):
            cost = ((x[I[k]][:, None] - y[J[k]][None]) ** 2).sum(-1)
            ot.unbalanced.sinkhorn_knopp_unbalanced(
                weights, weights, cost, EPSILON, TAU, reg_type="kl", numItermax=POT_ITERATIONS, stopThr=0
            )

    times: dict[str, list[float]] = {"estimate": [], "ready": [], "pot": []}
    for function in (estimate, ready):
        function()
    for _ in range(5):
        times["estimate"].append(seconds(estimate) / K)
        times["ready"].append(seconds(ready) / K)
        times["pot"].append(seconds(pot) / POT_PROBLEMS)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"microseconds per minibatch: {', '.join(f'{name} {1e6 * t:.0f}' for name, t in medians.items())}")
    print(f"estimate / solve on ready costs: {medians['estimate'] / medians['ready']:.2f} (aim: at most 1.3)")
    print(f"loop over POT / estimate: {medians['pot'] / medians['estimate']:.1f} (aim: at least 10)")


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # POT's, about its iteration limit
    main()
