"""``python -m benchmarks.flow [--quick]``: a step of a gradient flow, jumbot beside GeomLoss.

The paper's flow: 10,000 points per side in two clusters of 6,400 and 3,600, swapped between the sides; one minibatch
per step, Sinkhorn divergence.  ``SamplesLoss`` has the cost |x - y|^2 / 2, so its value at blur^2 = epsilon / 2 and
reach^2 = tau / 2 is half of ours.  Both take turns on the same data; gradient errors are relative to a solution with a
relative gap of 1e-13.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial

import geomloss
import numpy as np
import torch

import jumbot
from benchmarks import machine
from benchmarks.timing import interleave, threads
from jumbot.minibatch._sampling import draw_subsets

N, LEFT, STEPS = 10_000, 6_400, 5_000
RATE, EPSILON = 0.02, 0.005  # blur .05, GeomLoss's default
OURS = 10  # steps of ours in one timed call, so that its set-up counts as it does in a short flow
SCALINGS = (0.5, 0.9, 0.99)
TOLERANCES = (1e-4, 1e-6)


def clouds(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two clusters per side; the larger one of the source stands below the smaller one of the target."""
    rng = np.random.default_rng(seed)

    def two(left: int, height: float) -> np.ndarray:
        centres = np.repeat([[0.0, height], [1.2, height]], [left, N - left], axis=0)
        return centres + 0.15 * rng.normal(size=(N, 2))

    return two(LEFT, 0.0), two(N - LEFT, 1.0)


def geomloss_gradient(x: torch.Tensor, y: torch.Tensor, tau: float, scaling: float) -> torch.Tensor:
    """The gradient of one minibatch loss by ``SamplesLoss`` and autograd."""
    reach = None if math.isinf(tau) else math.sqrt(tau / 2)
    loss = geomloss.SamplesLoss(
        "sinkhorn", p=2, blur=math.sqrt(EPSILON / 2), reach=reach, scaling=scaling, backend="tensorized"
    )
    x = x.detach().requires_grad_()
    return torch.autograd.grad(2 * loss(x, y), x)[0]


def geomloss_step(x: torch.Tensor, y: torch.Tensor, m: int, tau: float, scaling: float) -> None:
    """One Euler step of the same flow, in place."""
    rows, columns = (torch.from_numpy(draw_subsets(0, 0, 1, side, N, m)[0]) for side in (0, 1))
    x[rows] -= RATE * m * geomloss_gradient(x[rows], y[columns], tau, scaling)


def errors(x: np.ndarray, y: np.ndarray, m: int, tau: float, minibatches: int) -> dict[str, float]:
    """The median relative error of the gradient, a solver."""
    found: dict[str, list[float]] = {}
    for seed in range(minibatches):
        rows, columns = (draw_subsets(seed, 0, 1, side, N, m)[0] for side in (0, 1))
        flow = partial(
            jumbot.gradient_flow, x, y, m=m, steps=1, learning_rate=RATE, epsilon=EPSILON, tau=tau, seed=seed
        )

        def gradient(
            tol: float, rows: np.ndarray = rows, flow: Callable[..., jumbot.flow.Trajectory] = flow
        ) -> np.ndarray:
            return (x[rows] - flow(tol=tol).points[rows]) / (RATE * m)

        reference = gradient(1e-13)
        gradients = {f"jumbot, tol {tol:g}": gradient(tol) for tol in TOLERANCES}
        for scaling in SCALINGS:
            there = geomloss_gradient(torch.tensor(x[rows]), torch.tensor(y[columns]), tau, scaling)
            gradients[f"GeomLoss, scaling {scaling:g}"] = there.numpy()
        for name, found_gradient in gradients.items():
            error = np.linalg.norm(found_gradient - reference) / np.linalg.norm(reference)
            found.setdefault(name, []).append(float(error))
    return {name: statistics.median(values) for name, values in found.items()}


def times(x: np.ndarray, y: np.ndarray, m: int, tau: float, budget: float) -> dict[str, float]:
    """Median seconds per step of each solver."""
    ours = {
        f"jumbot, tol {tol:g}": partial(
            jumbot.gradient_flow, x, y, m=m, steps=OURS, learning_rate=RATE, epsilon=EPSILON, tau=tau, tol=tol
        )
        for tol in TOLERANCES
    }
    theirs = {
        f"GeomLoss, scaling {scaling:g}": partial(geomloss_step, torch.tensor(x), torch.tensor(y), m, tau, scaling)
        for scaling in SCALINGS
    }
    for call in (*ours.values(), *theirs.values()):
        call()  # compile and warm up
    taken = interleave({name: [call] for name, call in (ours | theirs).items()}, budget=budget, rounds=3)
    return {name: statistics.median(t) / (OURS if name in ours else 1) for name, t in taken.items()}


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds per row instead of twenty")
    options = parser.parse_args(argv)
    budget, minibatches = (3.0, 3) if options.quick else (20.0, 9)
    x, y = clouds()
    about = machine.describe()
    print(f"{about['processor']}, one thread; n = {N:,}, epsilon = {EPSILON:g}, one minibatch per step\n")
    print("| m | tau | solver | ms per step | 5,000 steps | gradient error | time over jumbot's at tol 1e-6 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with threads(1):
        for m in (64, 128):
            for tau in (0.5, math.inf):
                error, seconds = errors(x, y, m, tau, minibatches), times(x, y, m, tau, budget)
                for name in error:
                    ratio = seconds[name] / seconds["jumbot, tol 1e-06"]
                    print(
                        f"| {m} | {tau:g} | {name} | {1e3 * seconds[name]:.2f} | {STEPS * seconds[name]:.1f} s "
                        f"| {error[name]:.1e} | {ratio:.1f} |",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
