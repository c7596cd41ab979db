"""A `jumbot.Solution` in numpy, one `Answer` for each problem; its types and shapes are looked at on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .case import Case
from .entropies import Array
from .judge import Answer

SCALARS = ("value", "linear", "dual", "gap", "relative_gap", "mass")


def read(solution: Any, case: Case) -> tuple[list[Answer], list[str]]:
    """The answers, and what is wrong with how they are held."""
    wrong: list[str] = []
    *batch, n, m = case.shape
    batch = tuple(batch)

    def array(name: str, x: Any, shape: tuple[int, ...]) -> Array:
        tensor = isinstance(x, torch.Tensor)
        if tensor != (case.library == "torch"):
            wrong.append(f"{name} is a {type(x).__name__} for a {case.library} cost")
        if tensor and x.requires_grad and name not in ("value", "linear"):
            wrong.append(f"{name} is not detached")
        out = x.detach().numpy() if tensor else np.asarray(x)
        if out.dtype != case.dtype:
            wrong.append(f"{name} has dtype {out.dtype}, the cost {case.dtype.__name__}")
        if out.shape != (*batch, *shape):
            wrong.append(f"{name} has shape {out.shape}, not {(*batch, *shape)}")
        return out.reshape(-1, *shape)

    plan = array("plan", solution.plan, (n, m))
    numbers = [array(name, getattr(solution, name), ()) for name in SCALARS]
    pairs = solution.marginals, solution.potentials
    (rows, columns), (f, g) = (
        [array(name, x, (size,)) for x, size in zip(pair, (n, m), strict=True)]
        for name, pair in zip(("marginals", "potentials"), pairs, strict=True)
    )
    status = np.atleast_1d(np.asarray(solution.status, dtype=object)).reshape(-1)
    converged = np.atleast_1d(np.asarray(solution.converged)).reshape(-1)
    tol = case.arguments.get("tol", 1e-6)
    parts = zip(plan, zip(*numbers, strict=True), rows, columns, f, g, status, converged, strict=True)
    answers = [
        Answer(plan, *map(float, scalars), rows, columns, f, g, status.name, bool(done), tol)
        for plan, scalars, rows, columns, f, g, status, done in parts
    ]
    return answers, wrong
