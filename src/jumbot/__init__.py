"""Optimal transport between minibatches: certified, differentiable, batched."""

from __future__ import annotations

from jumbot.errors import ArgumentError, JumbotError, NotConvergedWarning, UnboundedError, UnsupportedError
from jumbot.transport.divergences import Divergence
from jumbot.transport.sinkhorn_divergence import sinkhorn_divergence
from jumbot.transport.solution import Solution, Status
from jumbot.transport.solve import solve

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Divergence",
    "JumbotError",
    "NotConvergedWarning",
    "Solution",
    "Status",
    "UnboundedError",
    "UnsupportedError",
    "sinkhorn_divergence",
    "solve",
]
