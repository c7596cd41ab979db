"""Optimal transport between minibatches: certified, differentiable, batched."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jumbot.errors import (
    ArgumentError,
    JumbotError,
    NotConvergedWarning,
    NotFiniteError,
    UnboundedError,
    UnsupportedError,
)
from jumbot.transport.divergences import Divergence
from jumbot.transport.sinkhorn_divergence import sinkhorn_divergence
from jumbot.transport.solution import Solution, Status
from jumbot.transport.solve import solve

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Names that need numba or more are imported when first used."""
    if name in _LAZY:
        module, attribute = _LAZY[name]
        found = import_module(module)
        return getattr(found, attribute) if attribute else found
    raise AttributeError(f"module 'jumbot' has no attribute {name!r}")


_LAZY = {
    "DomainAdaptationClassifier": ("jumbot.adaptation.classifier", "DomainAdaptationClassifier"),
    "JointTransportLoss": ("jumbot.loss", "JointTransportLoss"),
    "adapt": ("jumbot.adaptation.adapt", "adapt"),
    "bounds": ("jumbot.minibatch.bounds", ""),
    "couple": ("jumbot.coupling", "couple"),
    "estimate": ("jumbot.minibatch.estimate", "estimate"),
    "data": ("jumbot.data", ""),
    "gradient_flow": ("jumbot.flow", "gradient_flow"),
    "load": ("jumbot.adaptation.model", "load"),
}

__all__ = [
    "ArgumentError",
    "Divergence",
    "DomainAdaptationClassifier",
    "JointTransportLoss",
    "JumbotError",
    "NotConvergedWarning",
    "NotFiniteError",
    "Solution",
    "Status",
    "UnboundedError",
    "UnsupportedError",
    "adapt",
    "bounds",
    "couple",
    "data",
    "estimate",
    "gradient_flow",
    "load",
    "sinkhorn_divergence",
    "solve",
]
