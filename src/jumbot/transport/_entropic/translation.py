"""The best translation (f + t, g - t) of the potentials: it does not change the plan and raises the dual.

If tau is large compared with epsilon and the masses differ, the potentials are of the size of tau while a sweep moves
them by some epsilon; the translation covers that distance in one step (Séjourné, Vialard & Peyré, 2022).
"""

from __future__ import annotations

import torch
from torch import Tensor

from jumbot.transport._kernels.policy import best_shifts
from jumbot.transport._marginal import PartialMarginal
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import KL, TV, Balanced

_EQUAL = 1e-9  # relative difference of masses that counts as rounding


def translate(problem: Problem, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Maximise the concave dual over t by bisection of its derivative.

    One t for each problem, or for each of the groups into which blocked pairs divide it.
    """
    (source, a), (target, b) = problem.sides
    if isinstance(source, PartialMarginal) or (source.exact and target.exact):
        return f, g
    kinds = {type(source.divergence), type(target.divergence)}
    if problem.blocked is None and kinds <= {KL, Balanced}:
        slope_a, slope_b = (0.0 if side.exact else 1 / side.tau for side in (source, target))
        logs = (torch.log(w)[..., None] for w in (a, b))
        # a point without weight may have an infinite potential
        present = (x.masked_fill(w <= 0, 0.0)[..., None] for x, w in ((f, a), (g, b)))
        t = best_shifts(slope_a, slope_b, *logs, *present)[..., 0]
        return f + t, g - t

    rows, columns = problem.groups
    count = 1 + int(torch.maximum(rows.max(), columns.max()))

    def slope(t: Tensor) -> Tensor:
        up, down = source.wanted(f + t.gather(-1, rows), a), target.wanted(g - t.gather(-1, columns), b)
        up = torch.zeros_like(t).scatter_add(-1, rows, up.nan_to_num(posinf=1e300))
        return up - torch.zeros_like(t).scatter_add(-1, columns, down.nan_to_num(posinf=1e300))

    width = torch.full_like(f[:, :1], problem.epsilon).expand(-1, count)
    low, high = -width, width
    for _ in range(80):
        wrong_low, wrong_high = slope(low) < 0, slope(high) > 0
        if not bool((wrong_low | wrong_high).any()):
            break
        width = 2 * width
        low, high = torch.where(wrong_low, low - width, low), torch.where(wrong_high, high + width, high)
    for _ in range(90):
        t = (low + high) / 2
        rising = slope(t) > 0
        low, high = torch.where(rising, t, low), torch.where(rising, high, t)
    t = (low + high) / 2
    moved = (
        (f + t.gather(-1, rows)).clamp_min(-source.tau * source.divergence.recession),
        (g - t.gather(-1, columns)).clamp_min(-target.tau * target.divergence.recession),
    )
    before = source.dual(f, a) + target.dual(g, b)
    better = (source.dual(moved[0], a) + target.dual(moved[1], b) > before)[:, None]
    return torch.where(better, moved[0], f), torch.where(better, moved[1], g)


def centre(problem: Problem, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The middle of all optimal translations, if total variation allows more than one.

    With equal masses the dual does not change while |f + t| <= tau_a and |g - t| <= tau_b.
    """
    sides = problem.source, problem.target
    if all(side.exact for side in sides) or not all(side.exact or isinstance(side.divergence, TV) for side in sides):
        return f, g
    (mass_a, mass_b), (r_a, r_b) = (w.sum(-1, keepdim=True) for w in problem.given), problem.reference_weights
    low, high = torch.full_like(f[:, :1], -torch.inf), torch.full_like(f[:, :1], torch.inf)
    for side, x, r in ((sides[0], f, r_a), (sides[1], -g, r_b)):
        if not side.exact:
            low = torch.maximum(low, (torch.where(r > 0, -x, -torch.inf) - side.tau).amax(-1, keepdim=True))
            high = torch.minimum(high, (torch.where(r > 0, -x, torch.inf) + side.tau).amin(-1, keepdim=True))
    t = torch.where(((mass_a - mass_b).abs() <= _EQUAL * mass_a) & (low < high), (low + high) / 2, 0.0)
    return f + t, g - t


def in_gauge(problem: Problem, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Copies of the potentials, of all equal ones those for which both have the same mean under their weights."""
    (source, a), (target, b) = problem.sides
    if not (isinstance(source, PartialMarginal) or (source.exact and target.exact)):
        return f.clone(), g.clone()
    means = [
        torch.where(w > 0, w * x, 0.0).sum(-1, keepdim=True) / w.sum(-1, keepdim=True) for w, x in ((a, f), (b, g))
    ]
    t = (means[1] - means[0]) / 2
    return f + t, g - t
