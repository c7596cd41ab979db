"""The Sinkhorn divergence of jumbot and GeomLoss: the same objective, value and gradient side by side."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.judge import divergence_gradient
from benchmarks.regimes import flow_points

EPSILON, TAU, POINTS, SEED = 0.01, 0.5, 64, 0


@dataclass(frozen=True)
class Row:
    """A value, the relative error of its gradient in x, and the gradient's length along the true one."""

    solver: str
    value: float
    gradient_error: float
    length: float


def compare() -> list[Row]:
    """GeomLoss at several scalings, jumbot at two tolerances, on |x - y|^2 / 2."""
    import jumbot

    x, y = flow_points(np.random.default_rng(SEED), m=POINTS)
    truth = divergence_gradient(x, y, EPSILON, TAU)
    leaf, other = torch.tensor(x, requires_grad=True), torch.tensor(y)
    rows = []

    def add(name: str, value: torch.Tensor) -> None:
        (gradient,) = torch.autograd.grad(value, leaf)
        error = np.linalg.norm(gradient.numpy() - truth) / np.linalg.norm(truth)
        length = (gradient.numpy() * truth).sum() / (truth**2).sum()
        rows.append(Row(name, float(value.detach()), float(error), float(length)))

    for tol in (1e-6, 1e-12):
        value = jumbot.sinkhorn_divergence(leaf, other, epsilon=2 * EPSILON, tau=2 * TAU, tol=tol) / 2
        add("jumbot" if tol == 1e-6 else f"jumbot, tol={tol:g}", value)
    if importlib.util.find_spec("geomloss"):
        import geomloss

        for scaling in (0.5, 0.9, 0.99, 0.999, 0.9997):
            loss = geomloss.SamplesLoss(
                "sinkhorn",
                p=2,
                blur=math.sqrt(EPSILON),
                reach=math.sqrt(TAU),
                scaling=scaling,
                backend="tensorized",
            )
            add(
                f"GeomLoss, scaling={scaling}" + (" (its default)" if scaling == 0.5 else ""),
                loss(leaf, other),
            )
    return rows
