"""Exact solvers for epsilon = 0: one problem at a time, float64 arrays in, plan and potentials out."""

from jumbot.transport._exact.balanced import balanced, partial, total_variation
from jumbot.transport._exact.kl import kl

__all__ = ["balanced", "kl", "partial", "total_variation"]
