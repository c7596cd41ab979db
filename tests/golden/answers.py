"""Answers of small problems: at a tol of 1e-12 these are the optimum's, whichever engine finds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import jumbot

_FAR = math.inf
SOLVES: dict[str, dict[str, Any]] = {
    "balanced": {"epsilon": 0.05},
    "balanced, small epsilon": {"epsilon": 0.003},
    "exact": {"epsilon": 0.0},
    "kl": {"epsilon": 0.05, "tau": 0.5},
    "kl, ones": {"epsilon": 0.05, "tau": 0.5, "reference": "ones"},
    "kl, exact": {"epsilon": 0.0, "tau": 0.5},
    "one-sided": {"epsilon": 0.05, "tau": (1.0, _FAR)},
    "two taus": {"epsilon": 0.05, "tau": (1.0, 0.1)},
    "tv": {"epsilon": 0.05, "tau": 0.3, "divergence": "tv"},
    "tv, exact": {"epsilon": 0.0, "tau": 0.3, "divergence": "tv"},
    "chi2": {"epsilon": 0.05, "tau": 0.5, "divergence": "chi2"},
    "range": {"epsilon": 0.05, "divergence": "range(0.7,1.2)"},
    "partial": {"epsilon": 0.05, "mass": 0.6},
    "partial, exact": {"epsilon": 0.0, "mass": 0.6},
}


def clouds(n: int = 12, m: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two clouds in the plane with weights of mass one, by a formula: no generator that may change."""
    i, j = np.arange(n), np.arange(m)
    x = np.stack([np.cos(2.0 * i), np.sin(3.0 * i)], 1)
    y = np.stack([np.cos(1.7 * j) + 0.5, np.sin(2.3 * j) - 0.2], 1)
    a, b = 1.0 + 0.5 * np.sin(i), 1.0 + 0.5 * np.cos(j)
    return x, y, a / a.sum(), b / b.sum()


def solves() -> dict[str, dict[str, float]]:
    """Value, mass and <cost, plan> of each problem."""
    x, y, a, b = clouds()
    cost = ((x[:, None] - y[None]) ** 2).sum(-1)
    found = {}
    for name, settings in SOLVES.items():
        solution = jumbot.solve(cost, a, b, tol=1e-12, **settings)
        found[name] = {"value": float(solution.value), "mass": float(solution.mass), "linear": float(solution.linear)}
    return found


def estimates() -> dict[str, float]:
    """The complete estimator, incomplete ones by seed, and a Sinkhorn divergence."""
    x, y, a, b = clouds()
    settings: dict[str, Any] = {"epsilon": 0.1, "tau": 0.5, "tol": 1e-12}
    return {
        "complete": float(jumbot.estimate(x[:5], y[:5], m=3, k="all", **settings).value),
        "incomplete, seed 0": float(jumbot.estimate(x, y, m=4, k=50, **settings).value),
        "incomplete, seed 7": float(jumbot.estimate(x, y, m=4, k=50, seed=7, **settings).value),
        "weights": float(jumbot.estimate(x, y, a, b, m=4, k=50, **settings).value),
        "sinkhorn_divergence": float(jumbot.sinkhorn_divergence(x, y, a, b, **settings)),
        "sinkhorn_divergence, balanced": float(jumbot.sinkhorn_divergence(x, y, a, b, epsilon=0.1, tol=1e-12)),
    }


def flows() -> dict[str, list[float]]:
    """Where the points of a flow are after ten steps, summed up."""
    x, y, *_ = clouds()
    moved = jumbot.gradient_flow(x, y, m=5, k=2, steps=10, learning_rate=0.1, epsilon=0.1, tau=0.5, tol=1e-12, seed=3)
    last = np.asarray(moved.snapshots[-1])
    return {"mean": last.mean(0).tolist(), "square": (last**2).mean(0).tolist()}


def weights() -> dict[str, float]:
    """Norms of the parameters after twenty named steps: what training does, step by step, is in them."""
    x, y, *_ = clouds(60, 60)
    labels = (x[:, 0] > 0).astype(int)
    found = {}
    for method in ("source-only", "jumbot", "deepjdot", "dann"):
        model = jumbot.adapt(
            (x.astype(np.float32), labels), y.astype(np.float32), method=method, steps=20, batch_size=20, seed=5
        )
        norms = [float(torch.linalg.vector_norm(p.detach().double())) for p in model.module().parameters()]
        found[method] = sum(norms)
    return found
