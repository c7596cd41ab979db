"""The Sinkhorn divergence of three problems: how tightly they are solved, its value, and its gradient in the points."""

from __future__ import annotations

from typing import Any

from torch import Tensor

#: The divergence is a small difference of three values: each is solved this much more tightly.
_MARGIN = 1e-3
_FINEST = 1e-13


def finer(tol: float) -> float:
    """The tolerance of the three problems behind a divergence."""
    return max(_MARGIN * tol, min(tol, _FINEST))


def debiased(between: Any, below_x: Any, below_y: Any, epsilon: float, excess: Any = 0.0) -> Any:
    """OT(a, b) - (OT(a, a) + OT(b, b))/2 + epsilon/2 (m_a - m_b)^2, of arrays or tensors.

    `between` is a value and the self terms are lower bounds, value - gap, so that the result bounds S from above.
    """
    return between - (below_x + below_y) / 2 + epsilon / 2 * excess**2


def excess_mass(a: Tensor | None, b: Tensor | None) -> Any:
    """m_a - m_b, in float64; weights that are not given have mass one."""
    mass_a, mass_b = (1.0 if w is None else w.double().sum(-1) for w in (a, b))
    return mass_a - mass_b


def pulled(between: Any, x: Any, y: Any, within: Any = None) -> Any:
    """(P 1 - Q 1) x - P y + Q x: half the gradient in x of OT, or with `within` of S, under |x - y|^2.

    `between` is the plan P of x and y, `within` the symmetric plan Q of x with itself.
    """
    mass = between.sum(-1) if within is None else between.sum(-1) - within.sum(-1)
    moved = mass[..., None] * x - between @ y
    return moved if within is None else moved + within @ x
