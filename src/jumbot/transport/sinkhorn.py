"""epsilon > 0 in batched torch operations: any device, any divergence.

A sweep sets f, then g, to the maximiser of the dual given the other (`Marginal.step` of a soft minimum).  The soft
minima are matrix-vector products with K = e^{(f0+g0-C)/epsilon}, whose row and column maxima are one.  K is built
anew around the current potentials where the log-scalings (f-f0)/epsilon have spread too far for its precision.

Steps are over-relaxed.  For KL and exact marginals the plain sweep contracts by kappa_a kappa_b with
kappa = tau/(tau+epsilon), which gives the best factor beforehand; otherwise it is estimated from the residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from jumbot.transport.certificate import Outcome, certify, solved
from jumbot.transport.divergences import KL, Balanced
from jumbot.transport.problem import Problem

_CUT, _SPREAD = 400.0, 250.0  # entries of K below e^-CUT are dropped, log-scalings may spread this far
_CHECK_EVERY = 3


@dataclass
class _Kernel:
    """K and the potentials that it is built around."""

    problem: Problem

    def build(self, f: Tensor, g: Tensor, from_rows: bool) -> None:
        problem, epsilon = self.problem, self.problem.epsilon
        r_a, r_b = problem.reference_weights
        no_row, no_column = ((r <= 0).double() * 1e200 for r in (r_a, r_b))
        if from_rows:
            self.f0 = (problem.cost + (no_column - g)[:, None, :]).amin(-1)
            self.g0 = (problem.cost + (no_row - self.f0)[:, :, None]).amin(-2)
        else:
            self.g0 = (problem.cost + (no_row - f)[:, :, None]).amin(-2)
            self.f0 = (problem.cost + (no_column - self.g0)[:, None, :]).amin(-1)
        exponent = ((self.f0[:, :, None] - problem.cost) + self.g0[:, None, :]).div_(epsilon).clamp_max_(0.0)
        exponent.masked_fill_(exponent < -_CUT, -math.inf)
        self.K = exponent.double().exp_()

    def spreads(self, log_scaling: Tensor, reference: Tensor) -> Tensor:
        present = reference > 0
        high = torch.where(present, log_scaling, -math.inf).amax(-1)
        return high - torch.where(present & ~torch.isneginf(log_scaling), log_scaling, math.inf).amin(-1)

    def log_sums(self, log_scaling: Tensor, reference: Tensor, rows: bool) -> Tensor:
        """log of K (r e^{log_scaling}) along the rows, or along the columns."""
        top = torch.where(reference > 0, log_scaling, -math.inf).amax(-1, keepdim=True)
        vector = reference * torch.exp((log_scaling - top).clamp_max(0.0))
        K = self.K if rows else self.K.mT
        return torch.log((K @ vector[..., None])[..., 0].clamp_min(1e-300)) + top


def sweep(
    problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, limit: int, price: Tensor,
) -> Outcome:  # fmt: skip
    """Sweep each problem of the batch from `start` until its gap seems to be within `tol`."""
    batch, n, m = problem.cost.shape
    zeros = problem.cost.new_zeros((), dtype=torch.float64)
    f, g = (zeros.expand(batch, n), zeros.expand(batch, m)) if start is None else start
    f, g = f.expand(batch, n).clone(), g.expand(batch, m).clone()
    taken = torch.zeros(batch, dtype=torch.long, device=problem.cost.device)
    active = torch.arange(batch, device=problem.cost.device)
    state = _Sweeps(problem, f, g, price, cold=start is None)
    while True:
        done = state.advance(tol, limit)
        finished = active[done]
        f[finished], g[finished], taken[finished] = state.f[done], state.g[done], state.count
        if bool(done.all()):
            break
        keep = torch.nonzero(~done)[:, 0]
        active = active[keep]
        state.keep(keep)
    return Outcome(f, g, taken, certify(problem, f, g))


class _Sweeps:
    """The problems still being swept."""

    def __init__(
        self, problem: Problem, f: Tensor, g: Tensor, price: Tensor, cold: bool
    ) -> None:  # fmt: skip
        self.problem, self.f, self.g, self.price, self.cold = problem, f.clone(), g.clone(), price, cold
        self.count = 0
        self.kernel = _Kernel(problem)
        self.kernel.build(f, g, from_rows=True)
        self.fresh = True
        sides = (problem.source, problem.target)
        kappas = [
            s.tau / (s.tau + problem.epsilon) if type(s.divergence) is KL else 1.0 for s in sides
        ]  # fmt: skip
        self.known = all(type(s.divergence) in (KL, Balanced) for s in sides) and min(kappas) < 1
        best = 2 / (1 + math.sqrt(1 - kappas[0] * kappas[1])) if self.known else 1.0
        ones = torch.ones(problem.cost.shape[0], 1, dtype=torch.float64, device=f.device)
        self.best, self.ramp, self.residual = best * ones, 0 * ones, math.inf * ones

    def keep(self, index: Tensor) -> None:
        self.problem = self.problem.take(index)
        self.f, self.g, self.price = self.f[index], self.g[index], self.price[index]
        self.best, self.ramp, self.residual = self.best[index], self.ramp[index], self.residual[index]
        kernel = _Kernel(self.problem)
        kernel.f0, kernel.g0, kernel.K = self.kernel.f0[index], self.kernel.g0[index], self.kernel.K[index]
        self.kernel = kernel

    def advance(self, tol: float, limit: int) -> Tensor:
        """Sweep until some problem seems done; which ones are."""
        problem, kernel, epsilon = self.problem, self.kernel, self.problem.epsilon
        r_a, r_b = problem.reference_weights
        o_a, o_b = problem.offsets
        while True:
            self.count += 1
            log_v = (self.g - kernel.g0) / epsilon
            if not self.fresh and bool((kernel.spreads(log_v, r_b) > _SPREAD).any()):
                kernel.build(self.f, self.g, from_rows=True)
                log_v = (self.g - kernel.g0) / epsilon
            self.fresh = False
            soft_a = kernel.f0 + o_a - epsilon * kernel.log_sums(log_v, r_b, rows=True)
            relaxing = self.best > 1
            self.ramp = torch.where(relaxing & (self.count > 1), self.ramp + 1, self.ramp)
            omega = torch.where(relaxing, torch.minimum(self.best, 2 - 6 / (self.ramp + 6)), 1.0)
            if self.count == 1 and self.cold:
                self.f = problem.source.step(soft_a, problem.a, epsilon)
            else:
                self.f = problem.source.relaxed_step(self.f, soft_a, problem.a, epsilon, omega)

            log_u = (self.f - kernel.f0) / epsilon
            if bool((kernel.spreads(log_u, r_a) > _SPREAD).any()):
                kernel.build(self.f, self.g, from_rows=False)
                log_u = (self.f - kernel.f0) / epsilon
            soft_b = kernel.g0 + o_b - epsilon * kernel.log_sums(log_u, r_a, rows=False)
            new_g = problem.target.relaxed_step(self.g, soft_b, problem.b, epsilon, omega)
            if self.count % _CHECK_EVERY == 0 or self.count >= limit:
                done = solved(*self._estimate(soft_a, soft_b), tol) | (self.count >= limit)
                if bool(done.any()):
                    # the finished keep the g that was certified, the others go on
                    self.g = torch.where(done[:, None], self.g, new_g)
                    return done
                self._adapt((new_g - self.g) / omega, omega)
            self.g = new_g

    def _estimate(self, soft_a: Tensor, soft_b: Tensor) -> tuple[Tensor, Tensor]:
        """The gap at (f, g) and its scale, in O(n + m), with violated constraints at their price."""
        problem, epsilon = self.problem, self.problem.epsilon
        gap = penalty = cross = torch.zeros_like(self.price)
        masses = []
        for (side, weights), potential, soft in zip(
            problem.sides, (self.f, self.g), (soft_a, soft_b), strict=True
        ):  # fmt: skip
            p = weights * torch.exp(((potential - soft) / epsilon).clamp_max(700.0))
            p = torch.where(torch.isneginf(soft), 0.0, p)
            inside = p
            if side.hard:
                inside = torch.clamp(p, *side.bounds(weights))
                gap = gap + self.price * (p - inside).abs().sum(-1)
            gap = gap + side.fenchel_young(inside, potential, weights)
            penalty = penalty + side.penalty(inside, weights)
            cross = cross + torch.where(p > 0, p * potential, 0.0).sum(-1)
            masses.append(p.sum(-1))
        floor = (cross - epsilon * masses[0] * math.log(problem.cost.shape[-1])).clamp_min(0)
        return gap, penalty + epsilon * masses[0] + floor

    def _adapt(self, change: Tensor, omega: Tensor) -> None:
        """Estimate the best factor from the rate of the residuals (Young's relation), every 12 sweeps."""
        if self.count % 12:
            return
        residual = change.nan_to_num(0.0).abs().amax(-1, keepdim=True).clamp_min(1e-300)
        rate = (residual / self.residual) ** (1 / 12)
        growing = rate > 1.05 if self.known else rate >= 1
        self.best = torch.where(growing & (omega > 1), 1 + 0.6 * (self.best - 1), self.best)
        if not self.known:
            at_best = (omega >= self.best) & (rate > self.best - 1) & (rate < 1) & (rate > 0)
            plain = (rate + self.best - 1) ** 2 / (self.best**2 * rate)
            better = 2 / (1 + torch.sqrt(1 - plain.clamp(0, 1 - 1e-7)))
            self.best = torch.where(at_best, torch.maximum(self.best, better), self.best)
        self.residual = residual
