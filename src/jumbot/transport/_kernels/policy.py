"""The policy of all sweeps: what is mixed, relaxed and checked, and when; and Anderson mixing itself.

A sweep of a KL problem contracts by kappa_a kappa_b, kappa = tau/(tau + epsilon), in the directions that move a cluster
of rows against its columns, and by much more in others.

- Where both sides are KL and tau/epsilon is not large, or a side is exact, sweeps are mixed.
- Else, and where mixing fails, they are over-relaxed: by the best factor where the rate is known beforehand, else by
  one found from the residuals through Young's relation.

Engines differ in how they do it.  The rules are written for numbers, and compile; those that say so take tensors too.

Anderson mixing of the potentials is here three times: compiled, for the loop in Python, and in torch.

Over-relaxation is tuned to the slowest direction; mixing learns the few slow directions at once: on the problems of
`benchmarks/` 8 sweeps instead of 24 (VisDA), 21 instead of 32 (Office-Home), 5 instead of 9 (partial), and on costs
without clusters about as many as before.  The best translation is part of the mixed map, because without it that one
direction fills the memory.

The next point is the combination of the last images whose residual is least, by its normal equations: for one problem
factored in place, newest change first, so that a change that adds nothing is last; for a batch on a device at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.transport._kernels.decorator import compiled
from jumbot.transport._kernels.gibbs import shifted, total
from jumbot.transport._kernels.memory import parts
from jumbot.transport._kernels.vectormath import exp, lesser

#: Mixing: past images kept in addition to the newest, sweeps at most, growths of the squared residual that count
#: and how many of them end it, and the largest tau/epsilon: above, many directions are slow, and over-relaxation wins.
DEPTH = 4
SWEEPS = 30
GROWTH = 4.0
STRIKES = 3
LARGEST_TAU = 100.0
#: The same where a marginal is exact, and no rate is known that over-relaxation could be tuned to.  With 16 images
#: instead of 40, 300 points at a 770th of the largest cost took 20,000 sweeps instead of 360.
LONG = 40
MIXED = 300
#: Over-relaxation: how slowly the factor is raised (faster ones fail where tau/epsilon is large), and how far it is up
#: already where mixing came before, because that start is better.
RAMP = 6.0
WARM = 6
#: Sweeps between two checks at least and at most; residuals are compared over the latter.
EVERY = 2
LONGEST = 12
#: Rounds without much progress before a problem is given up.
STALLS = 4


def kappa(tau: Any) -> Any:
    """How much of a soft minimum a KL side keeps, tau in units of epsilon."""
    return tau / (tau + 1.0)


def best_factor(rate: Any) -> Any:
    """The best factor of over-relaxation where plain sweeps contract by `rate`; numbers or tensors.

    >>> best_factor(0.0), best_factor(0.75)
    (1.0, 1.3333333333333333)
    """
    return 2.0 / (1.0 + (1.0 - rate) ** 0.5)


def plain_rate(rate: Any, factor: Any) -> Any:
    """Young's relation: what plain sweeps contract by where those relaxed by `factor` contract by `rate`."""
    return (rate + factor - 1.0) ** 2 / (factor**2 * rate)


def ramp(count: Any) -> Any:
    """The largest factor after `count` relaxed sweeps; numbers or tensors."""
    return 2.0 - RAMP / (count + RAMP)


def stricter(safety: float, tol: float, scale: float, gap: float) -> float:
    """By how much to tighten tol after an estimate was within it and the gap at the plan was not."""
    return safety * max(0.5 * tol * scale / gap, 1e-3)


class Relaxation:
    """The factor of over-relaxation where the loop is in Python; `rate` is None where it is not known beforehand."""

    def __init__(self, rate: float | None) -> None:
        self.known, self.best = rate is not None, 1.0 if rate is None else best_factor(rate)
        self.ramped, self.omega, self.residual, self.at = 0, 1.0, 0.0, 0

    def next(self) -> float:
        self.ramped += self.best > 1
        self.omega = min(self.best, ramp(self.ramped))
        return self.omega

    def observe(self, residual: float, count: int) -> None:
        if self.known or count - self.at < LONGEST or residual <= 0:
            return
        if self.residual > 0 and self.omega >= self.best:
            rate = (residual / self.residual) ** (1 / (count - self.at))
            if self.best - 1 < rate < 1:
                self.best = max(self.best, best_factor(min(plain_rate(rate, self.best), 1 - 1e-7)))
            elif rate >= 1:
                self.best = 1 + 0.7 * (self.best - 1)
        self.residual, self.at = residual, count


@compiled()
def log_tilted_mass(inverse: float, a: Any, F: Any, work: Any) -> float:
    """log sum_i a_i e^{-F_i inverse}; `work` holds its terms, all in the scale of those that have weight."""
    least = 1e300
    for i in range(a.shape[0]):
        least = lesser(least, F[i] if a[i] > 0.0 else 1e300)
    for i in range(a.shape[0]):
        work[i] = a[i] * exp(min((least - F[i]) * inverse, 0.0))
    mass = total(work)
    return math.log(mass) - least * inverse if mass > 0.0 else 0.0


@compiled()
def best_shift(inverse_a: float, inverse_b: float, a: Any, b: Any, F: Any, G: Any, work_a: Any, work_b: Any) -> float:
    """The t that makes the dual at (F + t, G - t) largest, for KL of price 1/inverse and exact marginals (0)."""
    mass_a, mass_b = log_tilted_mass(inverse_a, a, F, work_a), log_tilted_mass(inverse_b, b, G, work_b)
    return (mass_a - mass_b) / (inverse_a + inverse_b)


def best_shifts(inverse_a: float, inverse_b: float, log_a: Tensor, log_b: Tensor, f: Tensor, g: Tensor) -> Tensor:
    """The same for a batch of columns `(B, n, 1)`, `(B, m, 1)` with the logarithms of the weights: `(B, 1, 1)`."""
    up = torch.add(log_a, f, alpha=-inverse_a).logsumexp(1, keepdim=True)
    down = torch.add(log_b, g, alpha=-inverse_b).logsumexp(1, keepdim=True)
    return (up - down) * (1 / (inverse_a + inverse_b))


_RIDGE = 1e-8  # relative to the squared norm of each difference
_LEAST = 1e-300  # of it, so that a change by nothing has no share
_WORSE = 2.0  # growth, of the gap where it is known at every sweep, else of the residual, after which all is forgotten


def shapes(size: int, depth: int = DEPTH) -> tuple[tuple[int, int], ...]:
    """Of the ring, the changes and the system of `mix` for so many columns, and past images at most."""
    return (2, 2 * size), (depth, 2 * size), (depth, depth + 1)


@compiled()
def remember(x: Any, image: Any, shift: float, w: Any, log_mass: float, count: int, ring: Any) -> float:
    """Write the residual and the image of `x`, moved by `shift`, side by side to row `count` of the ring.

    Returns the squared norm of the residual before the move, with the weights `w` brought to their mass.  They are the
    marginals that the image asks for, so that tau/(2 kappa^2) times that norm is nearly the gap.
    """
    m, row = x.shape[0], ring[count % 2]
    residual, kept = row[:m], row[m:]
    subtract(image, 1.0, x, residual)
    norm = dot(w, residual, residual) / total(w) * math.exp(min(log_mass, 600.0))
    for j in range(m):
        kept[j] = image[j] - shift
        residual[j] -= shift
    return norm


@compiled()
def mix(ring: Any, w: Any, count: int, known: int, changes: Any, system: Any, out: Any) -> None:
    """out = the combination of the last `known` images, row `count` the newest, whose residual is least.

    Each call adds to `changes` what residual and image have changed by since the last.  `system` holds the normal
    equations while they are solved by LDL', the newest change first: V = LD below the diagonal, D on it, L' above.
    """
    m, newest, most = out.shape[0], ring[count % 2], changes.shape[0]
    depth = known - 1 if known <= most else most
    shifted(newest[m:], 0.0, out)
    if depth > 0:
        subtract(newest, 1.0, ring[(count - 1) % 2], changes[count % most])
    for i in range(depth):
        change = changes[(count - i) % most]
        right, pivot = dot(w, newest, change), dot(w, change, change) * (1.0 + _RIDGE) + _LEAST
        for k in range(i):
            entry = dot(w, change, changes[(count - k) % most])
            for j in range(k):
                entry -= system[i, j] * system[j, k]
            share = entry / system[k, k]
            system[i, k], system[k, i] = entry, share
            pivot -= entry * share
            right -= share * system[k, most]
        system[i, i], system[i, most] = pivot, right
    for i in range(depth - 1, -1, -1):
        share = system[i, most] / system[i, i]
        for k in range(i + 1, depth):
            share -= system[i, k] * system[k, most]
        system[i, most] = share
        change = changes[(count - i) % most]
        subtract(out, share, change[m:], out)


@compiled(fastmath=True)
def dot(w: Any, x: Any, y: Any) -> float:
    """sum w x y, over as many entries as `w` has."""
    result = 0.0
    for j in range(w.shape[0]):
        result += w[j] * x[j] * y[j]
    return result


@compiled()
def subtract(x: Any, share: float, y: Any, out: Any) -> None:
    """out = x - share y."""
    for j in range(x.shape[0]):
        out[j] = x[j] - share * y[j]


class RingMixing:
    """`mix` for a loop in Python.

    Here the gap is known at every sweep: a step that makes it worse is followed by a plain one, which never does.
    """

    def __init__(self, size: int) -> None:
        self.ring, self.changes, self.system = parts(*shapes(size))
        self.gap, self.count, self.held = math.inf, 0, 0

    def next(self, x: np.ndarray, image: np.ndarray, weights: np.ndarray, gap: float) -> np.ndarray:
        """The next point after `x`, whose image and gap are given."""
        self.held = self.held + 1 if gap <= _WORSE * self.gap else 1
        self.gap, out = gap, np.empty_like(image)
        np.concatenate([image - x, image], out=self.ring[self.count % 2])
        mix(self.ring, weights, self.count, self.held, self.changes, self.system, out)
        self.count += 1
        return out


class BatchMixing:
    """The last differences of images and residuals `(B, m, DEPTH)` of points `(B, m, 1)`."""

    residual: Tensor
    image: Tensor
    limit: Tensor

    def __init__(self, weights: Tensor) -> None:
        self.root = weights.sqrt()[..., None]
        self.count = 0

    def next(self, x: Tensor, image: Tensor, shift: Tensor) -> Tensor:
        """The next point after `x`, whose image is to be moved by -`shift` first."""
        image = image - shift
        residual = (image - x) * self.root
        norm = torch.linalg.vector_norm(residual, dim=1, keepdim=True)
        if self.count == 0:
            self.residuals, self.images = (x.new_zeros(*x.shape[:2], DEPTH) for _ in range(2))
            self.strikes = torch.zeros_like(norm)
            self._view()
        else:
            slope, move = self.columns[self.count % DEPTH]
            torch.sub(residual, self.residual, out=slope)
            torch.sub(image, self.image, out=move)
            worse = norm > self.limit
            self.residuals.masked_fill_(worse, 0.0)
            self.strikes += worse
        self.residual, self.image, self.limit = residual, image, _WORSE * norm
        self.count += 1
        normal = torch.bmm(self.residuals_T, self.residuals)
        normal.diagonal(dim1=-2, dim2=-1).mul_(1.0 + _RIDGE).add_(_LEAST)
        share = torch.linalg.solve_ex(normal, torch.bmm(self.residuals_T, residual)).result
        return torch.baddbmm(image, self.images, share, alpha=-1)

    def _view(self) -> None:
        self.residuals_T = self.residuals.mT
        self.columns = list(zip(self.residuals.split(1, -1), self.images.split(1, -1), strict=True))

    def keep(self, index: Tensor) -> None:
        """Only the problems at `index`."""
        if len(self.root) > 1:
            self.root = self.root[index]
        if self.count:
            for name in ("residuals", "images", "residual", "image", "limit", "strikes"):
                setattr(self, name, getattr(self, name)[index])
            self._view()
