"""Minibatches re-paired by transport: the couplings of flow matching and of other generative models."""

from jumbot.coupling._couple import couple
from jumbot.coupling._coupled_loader import CoupledLoader

__all__ = ["CoupledLoader", "couple"]
