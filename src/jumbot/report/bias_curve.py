"""How the minibatch loss changes with the size of the minibatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumbot.errors import need

if TYPE_CHECKING:
    from jumbot.minibatch.estimator import BiasCurve


def draw_bias_curve(curve: BiasCurve, ax: Any = None) -> Any:
    """Value and 95 % interval over m, on this axis or one of a new pyplot figure; returns the axis."""
    if ax is None:
        _, ax = need("matplotlib.pyplot", "drawing", "adapt").subplots(figsize=(5, 3.4), layout="constrained")
    low, high = curve.intervals().T
    ax.errorbar(curve.m, curve.values, yerr=[curve.values - low, high - curve.values], marker="o", capsize=3)
    ax.set_xscale("log", base=2)
    ax.set_xticks(curve.m, [str(m) for m in curve.m])
    ax.set(xlabel="minibatch size m", ylabel="minibatch loss (95 % interval)")
    return ax
