"""Soft minima over the rows and columns of a batch of costs, in torch.

    soft_a = o_a - epsilon log sum_j r_b e^{(g_j - C_ij)/epsilon}

By matrix-vector products with K = e^{(f0+g0-C)/epsilon}, whose row and column maxima are one.  K is precise while
f - f0 and g - g0, taken from their middle, stay within SPREAD epsilon; where they do not, the sums are made in logs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jumbot.transport.problem import Problem

_CUT, _SPREAD = 400.0, 125.0  # entries of K below e^-CUT are dropped; log-scalings lie this far from their middle
_LARGEST = 600.0  # exponents beyond are wrong but finite until the next check


class SoftMinima:
    """The soft minima of a problem; vectors are columns `(B, n, 1)`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tiny = problem.a.new_full((1, 1, 1), 1e-300)
        self._prepare()

    def _prepare(self) -> None:
        problem = self.problem
        batch, epsilon = problem.cost.shape[0], problem.epsilon
        r_a, r_b = (r.expand(batch, -1)[..., None] for r in problem.reference_weights)
        self.log_r = torch.log(r_a), torch.log(r_b)
        self.log_weights = tuple(torch.log(w)[..., None] for w in (problem.a, problem.b))
        self.present = r_a > 0, r_b > 0
        self.offsets = tuple(o.expand(batch, -1)[..., None] for o in problem.offsets)
        self.negative = problem.cost.double() / -epsilon

    def build(self, f: Tensor, g: Tensor) -> None:
        """K around the potentials, or the sums in logs where it would not be precise."""
        epsilon, (on_a, on_b) = self.problem.epsilon, self.present
        cost = self.problem.cost.double()
        self.f0 = (cost - g.masked_fill(~on_b, -1e200).mT).amin(-1, keepdim=True)
        self.g0 = (cost - self.f0.masked_fill(~on_a, -1e200)).amin(-2, keepdim=True).mT
        exponent = torch.add(self.negative, self.f0 + self.g0.mT, alpha=1 / epsilon).clamp_max_(0.0)
        self.K = exponent.masked_fill_(exponent < -_CUT, -math.inf).exp_()
        self.K_T = self.K.mT
        self.centre(f, g)

    def centre(self, f: Tensor, g: Tensor) -> None:
        """Scalings by K around these potentials."""
        epsilon, (on_a, on_b) = self.problem.epsilon, self.present
        middle = [((x - x0) / epsilon).masked_fill(~on, 0.0) for x, x0, on in ((f, self.f0, on_a), (g, self.g0, on_b))]
        top_a, top_b = ((x.amax(1, keepdim=True) + x.amin(1, keepdim=True)) / 2 for x in middle)
        self.centres = self.f0 + epsilon * top_a, self.g0 + epsilon * top_b
        self.logs = tuple(r - c / epsilon for r, c in zip(self.log_r, self.centres, strict=True))
        self.bases = self.f0 + self.offsets[0] - epsilon * top_b, self.g0 + self.offsets[1] - epsilon * top_a
        self.in_logs = bool(self.too_far(f, g).any())

    def keep(self, problem: Problem, index: Tensor) -> None:
        """Only the problems at `index`, of which `problem` consists."""
        self.problem = problem
        self._prepare()
        self.f0, self.g0, self.K = self.f0[index], self.g0[index], self.K[index]
        self.K_T = self.K.mT
        for name in ("centres", "logs", "bases"):
            setattr(self, name, tuple(x[index] for x in getattr(self, name)))

    def too_far(self, f: Tensor, g: Tensor) -> Tensor:
        """Whether K is not precise at these potentials, for each problem."""
        worst = [
            ((x - c) / self.problem.epsilon).masked_fill(~on, 0.0).abs().amax((1, 2))
            for x, c, on in zip((f, g), self.centres, self.present, strict=True)
        ]
        return ~(torch.maximum(*worst) <= _SPREAD)

    def rows(self, g: Tensor) -> Tensor:
        """Over the columns, for each row."""
        epsilon = self.problem.epsilon
        if self.in_logs:
            x = self.negative + torch.add(self.log_r[1], g, alpha=1 / epsilon).mT
            return torch.add(self.offsets[0], x.logsumexp(-1, keepdim=True), alpha=-epsilon)
        return self._product(self.K, self.logs[1], g, self.bases[0])

    def columns(self, f: Tensor) -> Tensor:
        """Over the rows, for each column."""
        epsilon = self.problem.epsilon
        if self.in_logs:
            x = self.negative + torch.add(self.log_r[0], f, alpha=1 / epsilon)
            return torch.add(self.offsets[1], x.logsumexp(-2, keepdim=True).mT, alpha=-epsilon)
        return self._product(self.K_T, self.logs[0], f, self.bases[1])

    def _product(self, K: Tensor, log_weights: Tensor, potential: Tensor, base: Tensor) -> Tensor:
        epsilon = self.problem.epsilon
        v = torch.add(log_weights, potential, alpha=1 / epsilon).clamp_max_(_LARGEST).exp_()
        return torch.add(base, torch.baddbmm(self.tiny, K, v).log_(), alpha=-epsilon)
