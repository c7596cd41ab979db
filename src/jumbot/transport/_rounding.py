"""A plan brought within its marginals, as factors, so that it is never in memory whole.

    Q = diag(u) P diag(v) + sum_k l_k r_k'

With one constrained side its rows are rescaled.  With two, rows and columns are scaled down to their upper bounds and
what is missing is added by a term of rank one (Altschuler, Weed & Rigollet, 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jumbot.transport.certificate import spread
from jumbot.transport.marginal import Marginal

#: The marginals `(B, n)`, `(B, m)` of diag(u) P diag(v).
Sums = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
_LEAST = 1e-300


@dataclass(frozen=True)
class Rounding:
    """The factors of Q: u `(B, n)`, v `(B, m)`, and pairs (l, r) of the same shapes."""

    u: Tensor
    v: Tensor
    terms: tuple[tuple[Tensor, Tensor], ...] = ()

    def block(self, plan: Tensor, rows: slice) -> Tensor:
        """The rows of Q, from those of P."""
        out = plan * self.u[:, rows, None] * self.v[:, None, :]
        for left, right in self.terms:
            out += left[:, rows, None] * right[:, None, :]
        return out


def rounding(source: Marginal, target: Marginal, a: Tensor, b: Tensor, sums: Sums) -> Rounding | None:
    """The factors that bring the plan behind `sums` within its bounds; None where it has none."""
    u, v = torch.ones_like(a), torch.ones_like(b)
    if not (source.hard or target.hard):
        return None
    if not target.hard:
        u, fill = _rescaled(sums(u, v)[0], *source.bounds(a))
        return Rounding(u, v, ((fill, _shares(b)),))
    if not source.hard:
        v, fill = _rescaled(sums(u, v)[1], *target.bounds(b))
        return Rounding(u, v, ((_shares(a), fill),))
    (low_a, high_a), (low_b, high_b) = source.bounds(a), target.bounds(b)
    mass = getattr(source, "mass", None)
    rows, _ = sums(u, v)
    if mass is not None:
        u = u * (mass / rows.sum(-1, keepdim=True).clamp_min(_LEAST)).clamp_max(1.0)
    u = u * _rescaled(u * rows, torch.zeros_like(low_a), high_a)[0]
    v = _rescaled(sums(u, v)[1], torch.zeros_like(low_b), high_b)[0]
    rows, columns = sums(u, v)
    lack_a, lack_b = (low_a - rows).clamp_min(0), (low_b - columns).clamp_min(0)
    total = torch.maximum(lack_a.sum(-1), lack_b.sum(-1))
    if mass is not None:
        total = (mass - rows.sum(-1)).clamp_min(0)
    left = spread(lack_a, (high_a - rows).clamp_min(0), total)
    right = spread(lack_b, (high_b - columns).clamp_min(0), total) / total.clamp_min(_LEAST)[:, None]
    if source.exact or mass is not None:
        return Rounding(u, v, ((left, right),))
    rows, columns = rows + left * right.sum(-1, keepdim=True), columns + left.sum(-1, keepdim=True) * right
    return _mixed(Rounding(u, v, ((left, right),)), (rows, a, low_a, high_a), (columns, b, low_b, high_b))


_Side = tuple[Tensor, Tensor, Tensor, Tensor]


def _mixed(near: Rounding, source: _Side, target: _Side) -> Rounding:
    """Moved towards a multiple of a b' that is well within all bounds, as far as the worst violation asks for."""
    (_, a, low_a, high_a), (_, b, low_b, high_b) = source, target
    low_a, high_a, low_b, high_b = (x.sum(-1, keepdim=True) for x in (low_a, high_a, low_b, high_b))
    middle = (torch.maximum(low_a, low_b) + torch.minimum(high_a, high_b).clamp_max(1e200)) / 2
    share = torch.zeros_like(middle)
    for marginal, weights, low, high in (source, target):
        inside = weights * middle / weights.sum(-1, keepdim=True)
        excess = torch.maximum(marginal - high, low - marginal)
        distance = (marginal - inside).abs().clamp_min(_LEAST)
        share = torch.maximum(share, torch.where(excess > 0, excess / distance, 0.0).amax(-1, keepdim=True))
    share = torch.where(share > 0, share * (1 + 1e-12), 0.0).clamp_max(1.0)
    terms = tuple(((1 - share) * left, right) for left, right in near.terms)
    return Rounding((1 - share) * near.u, near.v, (*terms, (share * middle * _shares(a), _shares(b))))


def _rescaled(sums: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The factor that brings each sum within its bounds, and what is missing where there is nothing to scale."""
    bounded = torch.clamp(sums, low, high)
    return torch.where(sums > 0, bounded / torch.where(sums > 0, sums, 1.0), 1.0), torch.where(sums > 0, 0.0, bounded)


def _shares(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
