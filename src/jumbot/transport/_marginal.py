"""The constraint or penalty on one marginal of the plan: a divergence and tau, or a fixed total mass.

In the dual each side contributes -F*(-f) with F(p) = tau D_phi(p | a), and for P = R e^{(f+g-C)/epsilon}

    primal(P) - dual(f, g) = sum over both sides of F(p) + F*(-f) + <f, p>,

a sum of non-negative Fenchel-Young terms.  All functions work on batches `(B, n)` and sum over the last axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from jumbot._base.options import check_positive
from jumbot.errors import ArgumentError, UnsupportedError
from jumbot.transport._checks import check_taus
from jumbot.transport.divergences import KL, L2, TV, Balanced, Divergence, Range, _lambert, parse

_LEAST_SHARE = 0.05  # of mass that is not saturated, in steps to a level
MISSED = 1e-9  # of a constraint, relative to the mass


def _ratio(p: Tensor, a: Tensor) -> Tensor:
    return p / torch.where(a > 0, a, 1.0)


@dataclass(frozen=True)
class Marginal:
    """F(p) = tau D_phi(p | a); ``tau = inf`` makes it exact."""

    divergence: Divergence
    tau: float

    @classmethod
    def of(cls, divergence: Divergence, tau: float) -> Marginal:
        if divergence.lower > 0 or divergence.upper < math.inf:
            return cls(divergence, 1.0)  # a constraint: tau plays no part
        if math.isinf(tau):
            return cls(Balanced(), 1.0)
        return L2Marginal(divergence, tau) if isinstance(divergence, L2) else cls(divergence, tau)

    @cached_property
    def hard(self) -> bool:
        """Whether some marginals are forbidden, so that a plan must be rounded before it is feasible."""
        return self.divergence.lower > 0 or self.divergence.upper < math.inf

    @cached_property
    def exact(self) -> bool:
        return self.divergence.lower == self.divergence.upper

    def bounds(self, a: Tensor) -> tuple[Tensor, Tensor]:
        upper = self.divergence.upper
        return self.divergence.lower * a, upper * a if upper < math.inf else torch.full_like(a, math.inf)

    def violated(self, p: Tensor, a: Tensor) -> Tensor:
        """Whether `p` breaks the constraint by more than rounding, for each problem."""
        off = (p - torch.clamp(p, *self.bounds(a))).abs().sum(-1) if self.hard else torch.zeros_like(p[..., 0])
        return ~(off <= MISSED * a.sum(-1))

    def step(self, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        """The potential that maximises the dual given the soft minimum `f` over the other side."""
        absent = torch.isneginf(f)  # a zero weight under the reference "ones": only the recession price holds it
        h = self.divergence.step(torch.where(absent, 0.0, f), self.tau, epsilon)
        return torch.where(absent, -self.tau * self.divergence.recession, h)

    def relaxed_step(self, h: Tensor, f: Tensor, a: Tensor, epsilon: float, omega: Tensor) -> Tensor:
        """The step from `h`, lengthened by `omega`."""
        absent = torch.isneginf(f)
        h, f = torch.where(absent, 0.0, h), torch.where(absent, 0.0, f)
        h = self.divergence.relaxed_step(h, f, self.tau, epsilon, omega)
        return torch.where(absent, -self.tau * self.divergence.recession, h)

    def penalty(self, p: Tensor, a: Tensor) -> Tensor:
        """F(p), zero for constraints (the plan is rounded to meet them)."""
        if self.hard:
            return torch.zeros_like(p[..., 0])
        outside = torch.where(p > 0, self.divergence.recession * p, 0.0)
        return self.tau * torch.where(a > 0, a * self.divergence.phi(_ratio(p, a)), outside).sum(-1)

    def dual(self, f: Tensor, a: Tensor) -> Tensor:
        """-F*(-f)."""
        return torch.where(a > 0, a * self.weight_gradient(f, a), 0.0).sum(-1)

    def fenchel_young(self, p: Tensor, f: Tensor, a: Tensor) -> Tensor:
        """F(p) + F*(-f) + <f, p>, for `p` within `bounds`."""
        if self.exact:
            return torch.zeros_like(p[..., 0])
        inside = a * self.divergence.fenchel_young(_ratio(p, a), -f / self.tau)
        outside = torch.where(p > 0, (self.divergence.recession + f / self.tau).clamp_min(0) * p, 0.0)
        return self.tau * torch.where(a > 0, inside, outside).sum(-1)

    def weight_gradient(self, f: Tensor, a: Tensor) -> Tensor:
        """d(-F*(-f))/da_i = -tau phi*(-f_i/tau)."""
        # a price at its bound exceeds it by rounding, where phi* would be infinite
        return -self.tau * self.divergence.conjugate((-f / self.tau).clamp_max(self.divergence.recession))

    def wanted(self, f: Tensor, a: Tensor) -> Tensor:
        """The marginal that the potential asks for, grad F*(-f); zero where there is no weight."""
        return torch.where(a > 0, a * self.divergence.conjugate_gradient(-f / self.tau), 0.0)

    def lost_gradient(self, a: Tensor) -> Tensor:
        """dF(0)/da, of a point that loses all of its weight."""
        return self.tau * self.divergence.phi(torch.zeros_like(a))

    def slope(self, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        """The Jacobian `(B, n, n)` of `step` in `f`, by central differences: phi need not be smooth."""
        h = 1e-5 * epsilon
        return torch.diag_embed((self.step(f + h, a, epsilon) - self.step(f - h, a, epsilon)) / (2 * h))


@dataclass(frozen=True)
class L2Marginal(Marginal):
    """F(p) = tau |p - a|^2 / 2: as half the chi-square, with a price of its own, tau a_i, for each point."""

    def step(self, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        price = self.tau * a / epsilon
        return epsilon * (price - _lambert(torch.log(price) + price - f / epsilon))

    def relaxed_step(self, h: Tensor, f: Tensor, a: Tensor, epsilon: float, omega: Tensor) -> Tensor:
        return h + omega * (self.step(f, a, epsilon) - h)

    def penalty(self, p: Tensor, a: Tensor) -> Tensor:
        return self.tau / 2 * ((p - a) ** 2).sum(-1)

    def dual(self, f: Tensor, a: Tensor) -> Tensor:
        paid = torch.minimum(f, self.tau * a)  # a marginal is not below zero
        return (paid * (a - paid / (2 * self.tau))).sum(-1)

    def fenchel_young(self, p: Tensor, f: Tensor, a: Tensor) -> Tensor:
        inside = self.tau / 2 * (p - a + f / self.tau) ** 2
        return torch.where(f <= self.tau * a, inside, p * (self.tau * (p / 2 - a) + f)).sum(-1)

    def weight_gradient(self, f: Tensor, a: Tensor) -> Tensor:
        return torch.minimum(f, self.tau * a)

    def wanted(self, f: Tensor, a: Tensor) -> Tensor:
        return (a - f / self.tau).clamp_min(0)

    def lost_gradient(self, a: Tensor) -> Tensor:
        return self.tau * a


@dataclass(frozen=True)
class PartialMarginal(Marginal):
    """F(p) = 0 where 0 <= p <= a and sum p = mass, +inf elsewhere: partial transport."""

    mass: float = 0.0

    @classmethod
    def of_mass(cls, mass: float) -> PartialMarginal:
        return cls(Range(0.0, 1.0), 1.0, mass)

    def violated(self, p: Tensor, a: Tensor) -> Tensor:
        return super().violated(p, a) | ~((p.sum(-1) - self.mass).abs() <= MISSED * self.mass)

    def _level(self, f: Tensor, a: Tensor) -> Tensor:
        """The potential at which filling the cheapest weights first has reached `mass`."""
        order = torch.argsort(f, dim=-1)
        filled = torch.cumsum(torch.gather(a.expand_as(f), -1, order), -1)
        last = (filled < self.mass * (1 - 1e-12)).sum(-1, keepdim=True).clamp_max(f.shape[-1] - 1)
        return torch.gather(torch.gather(f, -1, order), -1, last)

    def step(self, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        # h = min(f, level) with sum_i a_i e^{(h_i - f_i)/epsilon} = mass.  With the k cheapest saturated the
        # rest share what is left, so the level has a closed form for each k; the right k is where it fits.
        a = a.expand_as(f)
        f = torch.where(torch.isneginf(f), f.new_tensor(-1e300), f)
        order = torch.argsort(f, dim=-1)
        sorted_f, sorted_a = torch.gather(f, -1, order), torch.gather(a, -1, order)
        saturated = torch.cumsum(sorted_a, -1) - sorted_a
        log_rest = torch.logcumsumexp((torch.log(sorted_a) - sorted_f / epsilon).flip(-1), -1).flip(-1)
        left = (self.mass - saturated).clamp_min(0)
        level = epsilon * (torch.log(left) - log_rest)
        level = torch.where(level <= sorted_f, level, -math.inf)
        first = torch.argmax((level > -math.inf).to(torch.int8), -1, keepdim=True)
        best = torch.gather(level, -1, first)
        best = torch.where(torch.isneginf(best), sorted_f[..., -1:], best)
        return torch.minimum(f, best)

    def relaxed_step(self, h: Tensor, f: Tensor, a: Tensor, epsilon: float, omega: Tensor) -> Tensor:
        return h + omega * (self.step(f, a, epsilon) - h)

    def near_step(
        self, h: Tensor, f: Tensor, log_a: Tensor, epsilon: float, omega: Tensor, goal: Tensor, length: Tensor
    ) -> Tensor:
        """`relaxed_step` of columns `(B, n, 1)`, the level by one step of Newton from that of h: nine operations.

        The logarithm of the mass grows with the level by the share of it that is not saturated, over epsilon; `length`
        is epsilon over that share, from the last check, and `goal` the logarithm to be reached.
        """
        level = h.amax(1, keepdim=True)
        mass = torch.add(log_a, (level - f).clamp_max_(0.0), alpha=1 / epsilon).logsumexp(1, keepdim=True)
        level = torch.addcmul(level, goal - mass, length)
        return torch.lerp(h, torch.minimum(f, level), omega)

    def goal(self, a: Tensor) -> Tensor:
        """The logarithm of the mass `(B, 1, 1)`; beyond all bounds where it takes all weights: no level is too high."""
        total = a.sum(1, keepdim=True)
        return torch.full_like(total, math.log(self.mass)).masked_fill(total <= self.mass * (1 + 1e-9), 1e200)

    def length(self, h: Tensor, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        """Epsilon over the share of the mass at h that is not saturated `(B, 1, 1)`; no step is too long by far."""
        p = a * torch.exp((h - f).clamp_max(0.0) / epsilon)
        share = torch.where(h < f, p, 0.0).sum(1, keepdim=True) / p.sum(1, keepdim=True).clamp_min(1e-300)
        return epsilon / share.clamp(_LEAST_SHARE, 1.0)

    def dual(self, f: Tensor, a: Tensor) -> Tensor:
        level = self._level(f, a)
        return (a * (f - level).clamp_max(0)).sum(-1) + self.mass * level[..., 0]

    def fenchel_young(self, p: Tensor, f: Tensor, a: Tensor) -> Tensor:
        # <f, p> - fill(f), written around the level so that each term is non-negative.
        excess = f - self._level(f, a)
        return (torch.where(excess > 0, p, a - p) * excess.abs()).clamp_min(0).sum(-1)

    def weight_gradient(self, f: Tensor, a: Tensor) -> Tensor:
        return (f - self._level(f, a)).clamp_max(0)

    def slope(self, f: Tensor, a: Tensor, epsilon: float) -> Tensor:
        h = self.step(f, a, epsilon)
        share = torch.where(h < f, a.expand_as(f) * torch.exp((h - f) / epsilon), 0.0)
        share = share / share.sum(-1, keepdim=True).clamp_min(1e-300)
        return torch.diag_embed((h >= f).to(f.dtype)) + (h < f).to(f.dtype)[..., :, None] * share[..., None, :]


def marginals(
    divergence: str | Divergence, tau: Any, mass: Any = None, *, exact: bool = False
) -> tuple[Marginal, Marginal]:
    """The two sides for a divergence with penalties tau, or for a total mass; `exact` means epsilon = 0."""
    taus = check_taus(tau)
    mass = None if mass is None else check_positive("mass", mass)
    if isinstance(divergence, str):
        return _named_marginals(divergence, taus, mass, exact)
    return _marginals(parse(divergence), taus, mass, exact)


@lru_cache(maxsize=256)
def _named_marginals(
    name: str, taus: tuple[float, float], mass: float | None, exact: bool
) -> tuple[Marginal, Marginal]:
    """Created once for every combination of numbers, because a training loop needs them in each step."""
    return _marginals(parse(name), taus, mass, exact)


def _marginals(
    phi: Divergence, taus: tuple[float, float], mass: float | None, exact: bool
) -> tuple[Marginal, Marginal]:
    finite = any(map(math.isfinite, taus))
    if mass is not None:
        if finite or not isinstance(phi, KL):
            raise ArgumentError("mass: partial transport has no tau and no divergence; leave both at their defaults.")
        side = PartialMarginal.of_mass(mass)
        return side, side
    constraint = phi.lower > 0 or phi.upper < math.inf
    if constraint and finite:
        raise ArgumentError(
            f"tau: got {taus[0]:g}, {taus[1]:g} with the constraint {phi!r}, which has no penalty; leave tau out."
        )
    source, target = Marginal.of(phi, taus[0]), Marginal.of(phi, taus[1])
    if exact and not (source.exact and target.exact) and not isinstance(phi, KL | TV):
        raise UnsupportedError(
            f"divergence: {phi!r} is not supported at epsilon = 0; use 'kl', 'tv', exact marginals or mass=."
        )
    return source, target
