"""Other libraries on clouds of points, without a matrix: GeomLoss with KeOps, OTT-JAX in blocks, POT lazily.

Each has settings from coarse to fine; the first whose potentials have a relative gap within `tol`, by `jumbot.certify`
and under the product reference, is timed once more.  After `_PATIENCE` seconds a library is not tried any further.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jumbot

_PATIENCE = 40  # seconds for all settings of one library
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


def compare(x: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> dict[str, Any]:
    """For each peer its setting, time and certified gap; why not, where there is none."""
    return {name: _attempt(solve, ladder, x, y, settings) for name, (solve, ladder) in PEERS.items()}


def _attempt(
    solve: Solver, ladder: Sequence[float], x: np.ndarray, y: np.ndarray, settings: dict[str, Any]
) -> dict[str, Any]:
    problem = {key: settings[key] for key in ("epsilon", "tau")}
    best: dict[str, Any] = {"why not": "none of its settings is within tol", "relative gap": math.inf}
    if solve is pot and not math.isinf(settings["tau"]):
        return {"why not": "refuses unbalanced problems"}
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_PATIENCE)
    try:
        for setting in ladder:
            begun = time.perf_counter()
            potentials = solve(x, y, settings, setting)
            first = time.perf_counter() - begun
            gap = float(jumbot.certify(x=x, y=y, potentials=potentials, **problem).relative_gap)
            if gap < best["relative gap"]:
                best |= {"relative gap": gap, "setting": setting, "seconds": round(first, 3)}
            if gap <= settings["tol"]:
                signal.alarm(2 * _PATIENCE)
                begun = time.perf_counter()
                solve(x, y, settings, setting)  # compiled now
                del best["why not"]
                return best | {"seconds": round(time.perf_counter() - begun, 3)}
    except TimeoutError:
        return best | {
            "why not": f"no setting within tol after {_PATIENCE} seconds, the last that was tried: {setting}"
        }
    except Exception as error:  # a library that does not take the problem, or is not there
        return {"why not": f"{type(error).__name__}: {str(error)[:200]}"}
    finally:
        signal.alarm(0)
    return best


def _give_up(*_: Any) -> None:
    raise TimeoutError
