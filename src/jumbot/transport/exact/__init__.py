"""Exact solvers for epsilon = 0: one problem at a time, float64 arrays in, plan and potentials out."""

from jumbot.transport.exact.balanced import balanced
from jumbot.transport.exact.kl import kl
from jumbot.transport.exact.partial import partial
from jumbot.transport.exact.total_variation import total_variation

__all__ = ["balanced", "kl", "partial", "total_variation"]
