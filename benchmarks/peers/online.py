"""Other libraries on clouds of points, without a matrix: GeomLoss with KeOps, OTT-JAX in blocks, POT lazily.

Each has settings from coarse to fine; the first whose potentials have a relative gap within `tol`, by `jumbot.certify`
and under the product reference, is timed once more.  A library is a process of its own, which is ended when its calls,
without what the certificate takes, have lasted some seconds: `python -m benchmarks.peers.online CASE LIBRARY SECONDS`.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jumbot

Potentials = tuple[np.ndarray, np.ndarray]
Solver = Callable[[np.ndarray, np.ndarray, dict[str, Any], Any], Potentials]


def geomloss(backend: str) -> Solver:
    """`SamplesLoss`: the cost |x - y|^2 / 2, epsilon = blur^2, tau = reach^2; `scaling` is its setting."""

    def solve(x: np.ndarray, y: np.ndarray, settings: dict[str, Any], scaling: float) -> Potentials:
        import torch
        from geomloss import SamplesLoss

        tau = settings["tau"]
        loss = SamplesLoss(
            "sinkhorn",
            p=2,
            blur=math.sqrt(settings["epsilon"] / 2),
            scaling=scaling,
            debias=False,
            potentials=True,
            reach=None if math.isinf(tau) else math.sqrt(tau / 2),
            backend=backend,
        )
        f, g = loss(torch.from_numpy(x).float(), torch.from_numpy(y).float())
        return 2 * f.double().numpy().ravel(), 2 * g.double().numpy().ravel()

    return solve


def ott(x: np.ndarray, y: np.ndarray, settings: dict[str, Any], threshold: float) -> Potentials:
    """`PointCloud(batch_size=...)`, float32; its reference is ones, which moves potentials of uniform weights."""
    import jax
    import jax.numpy as jnp
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    epsilon, tau = settings["epsilon"], settings["tau"]
    share = 1.0 if math.isinf(tau) else tau / (tau + epsilon)
    geometry = pointcloud.PointCloud(
        jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), epsilon=epsilon, batch_size=1024
    )
    problem = linear_problem.LinearProblem(geometry, tau_a=share, tau_b=share)
    out = jax.jit(sinkhorn.Sinkhorn(threshold=threshold, max_iterations=2000))(problem)
    f, g = (np.asarray(z, dtype=np.float64) for z in (out.f, out.g))
    logs = epsilon * math.log(len(x) * len(y))
    if math.isinf(tau):
        return f + logs, g
    shift = tau * logs / (2 * tau + epsilon)
    return f + shift, g + shift


def pot(x: np.ndarray, y: np.ndarray, settings: dict[str, Any], tol: float) -> Potentials:
    """`ot.solve_sample(lazy=True)`: balanced problems alone."""
    import ot

    out = ot.solve_sample(x, y, reg=settings["epsilon"], lazy=True, tol=tol, max_iter=2000)
    # P = exp(u + v - C / epsilon), and ours counts from a b'
    u, v = (np.asarray(z, dtype=np.float64) for z in out.potentials)
    return u * settings["epsilon"] + settings["epsilon"] * math.log(len(x) * len(y)), v * settings["epsilon"]


PEERS: dict[str, tuple[Solver, Sequence[float]]] = {
    "GeomLoss online": (geomloss("online"), (0.9, 0.98, 0.99)),
    "GeomLoss multiscale": (geomloss("multiscale"), (0.9, 0.98, 0.99)),
    "OTT-JAX online": (ott, (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)),
    "POT lazy": (pot, (1e-3, 1e-5, 1e-7)),
}


def compare(case: str, patience: int) -> dict[str, Any]:
    """For each peer its setting, time and certified gap; why not, where there is none within so many seconds."""
    return {name: _watched(case, name, patience) for name in PEERS}


def _watched(case: str, name: str, patience: int) -> dict[str, Any]:
    """What the process of a library has said last, before it ended or was ended."""
    command = [sys.executable, "-m", "benchmarks.peers.online", case, name, str(patience)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = said[-1] if said else {}
    if done.returncode == -signal.SIGALRM and "why not" not in found and "seconds" not in found:
        return {"why not": f"more than {patience} seconds, at the coarsest of its settings"}
    if done.returncode == -signal.SIGALRM and "why not" in found:
        return found | {"why not": f"none within tol in {patience} seconds"}
    return found or {"why not": done.stderr[-200:]}


def _attempt(solve: Solver, ladder: Sequence[float], left: int, problem: Any) -> None:
    """Say what was reached after each setting; the last word counts.  The system ends this process after a while."""
    patience, (x, y, settings) = left, problem
    best: dict[str, Any] = {"why not": "none of its settings is within tol", "relative gap": math.inf}
    if solve is pot and not math.isinf(settings["tau"]):
        return _say({"why not": "refuses unbalanced problems"})
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for setting in ladder:
        signal.alarm(left)
        begun = time.perf_counter()
        try:
            potentials = solve(x, y, settings, setting)
        except Exception as error:  # a library that does not take the problem, or is not there
            return _say({"why not": f"{type(error).__name__}: {str(error)[:200]}"})
        seconds, left = time.perf_counter() - begun, max(1, signal.alarm(0))
        gap = float(
            jumbot.certify(
                x=x, y=y, potentials=potentials, epsilon=settings["epsilon"], tau=settings["tau"]
            ).relative_gap
        )  # our time
        if gap < best["relative gap"]:
            best |= {"relative gap": gap, "setting": setting, "seconds": round(seconds, 3)}
        if gap <= settings["tol"]:
            del best["why not"]
            _say(best)
            signal.alarm(patience)
            begun = time.perf_counter()
            solve(x, y, settings, setting)  # compiled now
            return _say(best | {"seconds": round(time.perf_counter() - begun, 3)})
        _say(best)
    return None


def _say(what: dict[str, Any]) -> None:
    print("\n" + json.dumps(what), flush=True)


def main() -> None:
    from benchmarks.points import CASES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("library", choices=PEERS)
    parser.add_argument("seconds", type=int)
    options = parser.parse_args()
    _attempt(*PEERS[options.library], options.seconds, CASES[options.case]())


if __name__ == "__main__":
    main()
