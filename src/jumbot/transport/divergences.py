"""The entropies phi that penalise the difference of a marginal of the plan from its weights.

    D_phi(p | a) = sum_{a_i > 0} a_i phi(p_i / a_i) + phi'_infinity sum_{a_i = 0} p_i

A `Divergence` is convex, non-negative, zero at 1.  To add one, subclass it with `phi`, `conjugate` and
`recession`; the proximal step is then found by bisection, or write it in closed form for speed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from jumbot._settings.names import do_not_fit, read_divergence
from jumbot.errors import ArgumentError
from jumbot.transport import _kl_series

_MOST_HALVINGS = 200
_LEAST = 1e-12  # of the y of a power divergence during sweeps


class Divergence(ABC):
    """A penalty of the marginals: phi, its conjugate phi*(s) = sup_{x >= 0} s x - phi(x), and lim phi(x)/x.

    Subclass it with `phi`, `conjugate` and `recession` to use your own divergence.

    >>> import torch
    >>> KL().phi(torch.tensor([1.0, 0.0]))
    tensor([0., 1.])
    """

    recession: float = math.inf
    #: phi is finite on [lower, upper]; a bound other than (0, inf) makes it a hard constraint.
    lower: float = 0.0
    upper: float = math.inf

    @abstractmethod
    def phi(self, x: Tensor) -> Tensor:
        """The entropy, elementwise, for x >= 0."""

    @abstractmethod
    def conjugate(self, s: Tensor) -> Tensor:
        """phi*(s), elementwise; +inf for s above the recession constant."""

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        """phi*'(s): the ratio x of marginal to weight that the slope s asks for."""
        with torch.enable_grad():
            s = s.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.conjugate(s).sum(), s)
        return torch.where(s.detach() < self.recession, slope, math.inf)

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        """phi(x) + phi*(s) - s x >= 0, zero where s is a slope of phi at x: the terms of a certificate."""
        return (self.phi(x) + self.conjugate(s) - s * x).clamp_min(0)

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        """The maximiser over h of -tau phi*(-h/tau) - epsilon e^{(h-f)/epsilon}: one half of a sweep.

        It solves phi*'(-h/tau) = e^{(h-f)/epsilon}.  The left side falls with h and is one at h = 0, the right side
        grows and is one at h = f: h lies between.  Found by false position on the logarithms.
        """

        def excess(h: Tensor) -> Tensor:
            return (h - f) / epsilon - torch.log(self.conjugate_gradient(-h / tau))

        floor = -tau * self.recession
        low, high = f.clamp_max(0).clamp_min(floor), f.clamp_min(0)
        at_low, at_high = excess(low), excess(high)
        h, last, rounding = f, torch.zeros_like(f), 1e-13 + 1e-15 * (f / epsilon).abs()
        for count in range(_MOST_HALVINGS):
            h, middle = (low * at_high - high * at_low) / (at_high - at_low), (low + high) / 2
            h = torch.where((h > low) & (h < high) & (count % 3 < 2), h, middle)
            value = excess(h)
            side = torch.sign(value)
            if bool(((value.abs() <= rounding) | (high - low <= epsilon * rounding)).all()):
                break
            # Illinois: an end that stays twice counts half
            at_low = torch.where(side > 0, torch.where(last > 0, at_low / 2, at_low), value)
            at_high = torch.where(side > 0, value, torch.where(last < 0, at_high / 2, at_high))
            low, high, last = torch.where(side > 0, low, h), torch.where(side > 0, h, high), side
        return h

    def relaxed_step(self, h: Tensor, f: Tensor, tau: float, epsilon: float, omega: Tensor) -> Tensor:
        """The step from the potential `h`, lengthened by `omega`, kept in the domain of the dual."""
        return (h + omega * (self.step(f, tau, epsilon) - h)).clamp_min(-tau * self.recession)


@dataclass(frozen=True)
class KL(Divergence):
    """phi(x) = x log x - x + 1."""

    def phi(self, x: Tensor) -> Tensor:
        d = x - 1
        return torch.where(d.abs() < _kl_series.NEAR, _kl_series.of_ratio(d), torch.special.xlogy(x, x) - d)

    def conjugate(self, s: Tensor) -> Tensor:
        return torch.expm1(s)

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return torch.exp(s)

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        # KL(x | e^s) = e^s (r e^r - e^r + 1) with r = log x - s: no difference of large numbers.
        r = torch.log(x) - s
        exact = torch.exp(s) * (r * torch.exp(r) - torch.expm1(r))
        near = torch.exp(s) * _kl_series.of_log(r)
        return torch.where(x > 0, torch.where(r.abs() < _kl_series.NEAR, near, exact), torch.exp(s))

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        return f * (tau / (tau + epsilon))


@dataclass(frozen=True)
class Balanced(Divergence):
    """phi = 0 at 1 and +inf elsewhere: the marginal is exact.  The same as ``tau=math.inf``."""

    lower: float = 1.0
    upper: float = 1.0

    def phi(self, x: Tensor) -> Tensor:
        return torch.where(x == 1, 0.0, math.inf).to(x.dtype)

    def conjugate(self, s: Tensor) -> Tensor:
        return s

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return torch.ones_like(s)

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        return f


@dataclass(frozen=True)
class TV(Divergence):
    """phi(x) = |x - 1|: mass is created or destroyed at the cost tau per unit."""

    recession: float = 1.0

    def phi(self, x: Tensor) -> Tensor:
        return (x - 1).abs()

    def conjugate(self, s: Tensor) -> Tensor:
        return torch.where(s <= 1, s.clamp_min(-1), math.inf)

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return torch.where(s >= 1, math.inf, torch.where(s > -1, 1.0, 0.0)).to(s.dtype)

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        inside = (x - 1).abs() - s.clamp(-1, 1) * (x - 1)  # s is at most 1 up to rounding
        return inside + (-1 - s).clamp_min(0) * x

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        return f.clamp(-tau, tau)

    def relaxed_step(self, h: Tensor, f: Tensor, tau: float, epsilon: float, omega: Tensor) -> Tensor:
        return (h + omega * (f - h)).clamp(-tau, tau)  # projected over-relaxation


@dataclass(frozen=True)
class ChiSquare(Divergence):
    """phi(x) = (x - 1)^2."""

    def phi(self, x: Tensor) -> Tensor:
        return (x - 1) ** 2

    def conjugate(self, s: Tensor) -> Tensor:
        s = s.clamp_min(-2)
        return s + s * s / 4

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return (1 + s / 2).clamp_min(0)

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        return torch.where(s > -2, (x - 1 - s / 2) ** 2, x * (x - 2 - s))

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        return Power(2.0).step(f, 2 * tau, epsilon)

    def relaxed_step(self, h: Tensor, f: Tensor, tau: float, epsilon: float, omega: Tensor) -> Tensor:
        return Power(2.0).relaxed_step(h, f, 2 * tau, epsilon, omega)


@dataclass(frozen=True)
class L2(Divergence):
    """|p - a|^2/2, half of the squared miss in mass whatever the weight: POT's L2 penalty, with tau its `reg_m`.

    It is not of the form a phi(p/a): this is the one of a unit weight, and `L2Marginal` knows the others.
    """

    def phi(self, x: Tensor) -> Tensor:
        return (x - 1) ** 2 / 2

    def conjugate(self, s: Tensor) -> Tensor:
        s = s.clamp_min(-1)
        return s + s * s / 2


@dataclass(frozen=True)
class Range(Divergence):
    """phi = 0 on [lower, upper] and +inf outside: the marginal lies in [lower a, upper a].  tau plays no part."""

    lower: float = field()
    upper: float = field()

    def __post_init__(self) -> None:
        if not (0 <= self.lower <= 1 <= self.upper) or self.upper == 0:
            raise ArgumentError(
                f"divergence: range({self.lower:g},{self.upper:g}) must have 0 <= lo <= 1 <= hi, "
                "because the weights themselves must be allowed; try 'range(0.8,1.25)'."
            )

    @property
    def recession(self) -> float:  # type: ignore[override]
        return 0.0 if math.isinf(self.upper) else math.inf

    def phi(self, x: Tensor) -> Tensor:
        return torch.where((x >= self.lower) & (x <= self.upper), 0.0, math.inf).to(x.dtype)

    def conjugate(self, s: Tensor) -> Tensor:
        above = self.upper * s if math.isfinite(self.upper) else torch.where(s > 0, math.inf, 0.0).to(s.dtype)
        return torch.where(s > 0, above, self.lower * s)

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return torch.where(s > 0, self.upper, self.lower).to(s.dtype)

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        slack = torch.where(s > 0, self.upper - x, torch.where(s < 0, x - self.lower, 0.0))
        return s.abs() * slack.clamp_min(0)

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        return self.relaxed_step(f, f, tau, epsilon, torch.ones_like(f))

    def relaxed_step(self, h: Tensor, f: Tensor, tau: float, epsilon: float, omega: Tensor) -> Tensor:
        out = torch.zeros_like(f)
        if self.upper < math.inf:
            out = torch.lerp(h, f + epsilon * math.log(self.upper), omega).clamp_max(0.0)
        if self.lower > 0:
            out = out + torch.lerp(h, f + epsilon * math.log(self.lower), omega).clamp_min(0.0)
        return out


@dataclass(frozen=True)
class Power(Divergence):
    """phi(x) = (x^p - p (x - 1) - 1) / (p (p - 1)); p = 2 is half the chi-square, p = 1/2 twice Hellinger's."""

    p: float = 0.5

    def __post_init__(self) -> None:
        if self.p in (0.0, 1.0) or not math.isfinite(self.p):
            raise ArgumentError(
                f"divergence: power({self.p:g}) is not defined; p is any real but 0 and 1 (use 'kl' for p = 1)."
            )

    @property
    def recession(self) -> float:  # type: ignore[override]
        return math.inf if self.p > 1 else 1 / (1 - self.p)

    def phi(self, x: Tensor) -> Tensor:
        p, d = self.p, x - 1
        near = d * d * (0.5 + (p - 2) / 6 * d * (1 + (p - 3) / 4 * d * (1 + (p - 4) / 5 * d)))  # as for KL
        return torch.where(d.abs() < 1e-3, near, (x**p - p * d - 1) / (p * (p - 1)))

    def conjugate(self, s: Tensor) -> Tensor:
        base = (1 + (self.p - 1) * s).clamp_min(0)
        return torch.where(s <= self.recession, (base ** (self.p / (self.p - 1)) - 1) / self.p, math.inf)

    def conjugate_gradient(self, s: Tensor) -> Tensor:
        return (1 + (self.p - 1) * s).clamp_min(0) ** (1 / (self.p - 1))

    def fenchel_young(self, x: Tensor, s: Tensor) -> Tensor:
        # y^p phi(x/y) with y = phi*'(s), by its series near x = y: no difference of large numbers
        p, y = self.p, self.conjugate_gradient(s)
        slope = 1 + (p - 1) * s
        exact = (x**p - torch.where(y > 0, y, 1.0) ** p * (y > 0) - p * slope * (x - y)) / (p * (p - 1))
        d = x / y - 1
        return torch.where(d.abs() < 1e-4, y**p * d * d * (0.5 + (p - 2) / 6 * d), exact).clamp_min(0)

    def step(self, f: Tensor, tau: float, epsilon: float) -> Tensor:
        q = self.p - 1
        return (tau - epsilon * _lambert(math.log(tau / epsilon) + (tau - q * f) / epsilon)) / q

    def relaxed_step(self, h: Tensor, f: Tensor, tau: float, epsilon: float, omega: Tensor) -> Tensor:
        """One step of Newton for the y of `step` from that of h: sweeps and it converge together, in ten operations."""
        q = self.p - 1
        z = torch.rsub(f, math.log(tau / epsilon) + tau / epsilon, alpha=q / epsilon)
        y = torch.rsub(h, tau / epsilon, alpha=q / epsilon)
        log_y = torch.minimum(y.clamp_min_(_LEAST).log_(), z)  # y <= e^z at the root, and below that Newton is positive
        share = torch.sigmoid(log_y)  # y / (1 + y)
        y = torch.addcmul(share, share, z - log_y)
        h = torch.lerp(h, torch.rsub(y, tau / q, alpha=epsilon / q), omega)
        return h.clamp_min_(-tau * self.recession) if self.p < 1 else h


def _lambert(z: Tensor) -> Tensor:
    """W(e^z): y with y + log y = z, by Newton, which needs no e^z where z is large."""
    z = z.clamp_min(-700)
    y = torch.where(z > 1, z - torch.log(z.clamp_min(1)), torch.exp(z.clamp_max(1)))
    y = torch.where(z > 1, y, y / (1 + y))
    for _ in range(6):
        y = y * (1 + z - torch.log(y)) / (1 + y)
    return y


#: name -> maker; the arguments in "name(x,y)" are passed on as numbers.
REGISTRY: dict[str, Callable[..., Divergence]] = {
    "kl": KL,
    "balanced": Balanced,
    "tv": TV,
    "chi2": ChiSquare,
    "l2": L2,
    "range": Range,
    "power": Power,
}


def parse(divergence: str | Divergence) -> Divergence:
    """The divergence of that name.

    >>> parse("range(0.8, 1.25)")
    Range(lower=0.8, upper=1.25)
    """
    if isinstance(divergence, Divergence):
        return divergence
    return _named(divergence if isinstance(divergence, str) else repr(divergence))


@lru_cache(maxsize=64)
def _named(divergence: str) -> Divergence:
    name, arguments = read_divergence(divergence)
    try:
        return REGISTRY[name](*arguments)
    except TypeError as error:
        raise do_not_fit(divergence) from error
