"""Exact solvers for epsilon = 0: one problem at a time, float64 arrays in, plan and potentials out."""

from jumbot.transport._exact.balanced import balanced, partial
from jumbot.transport._exact.kl import kl
from jumbot.transport._exact.total_variation import total_variation

__all__ = ["balanced", "kl", "partial", "total_variation"]
