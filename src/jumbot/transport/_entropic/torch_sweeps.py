"""epsilon > 0 in batched torch operations: any device, any divergence.

A sweep sets f, then g, to the maximiser of the dual given the other (`Marginal.step` of a soft minimum).  The policy is
that of `policy.py`.

A launch costs more than its arithmetic and a synchronisation more than many launches.  So a sweep is at most 40
operations, all branches depend on a check, one synchronisation, and checks are as rare as the rate of the gap allows.
Vectors are columns `(B, n, 1)`, as matrix products take them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from jumbot.transport._certificate import certify, solved
from jumbot.transport._kernels.policy import (
    EVERY,
    LARGEST_TAU,
    LONGEST,
    STRIKES,
    SWEEPS,
    WARM,
    BatchMixing,
    best_factor,
    best_shifts,
    kappa,
    plain_rate,
    ramp,
)
from jumbot.transport._marginal import Marginal, PartialMarginal
from jumbot.transport._outcome import Outcome
from jumbot.transport._problem import Problem
from jumbot.transport.divergences import KL, L2, Balanced

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


PATIENCE = 300  # a sweep in torch operations costs nearly as much as a Newton step


def fits(problem: Problem) -> bool:
    return True


def certifies(problem: Problem) -> bool:
    return True


def sweep(
    problem: Problem,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
    limit: int,
    price: Tensor,
    rounded: bool = True,
) -> Outcome:
    """Sweep each problem of the batch from `start` until its gap seems to be within `tol`."""
    batch, n, m = problem.cost.shape
    f, g = (problem.a.new_zeros(batch, size) for size in (n, m))
    if start is not None:
        f, g = f + start[0], g + start[1]
    taken = torch.zeros(batch, dtype=torch.long, device=f.device)
    active = torch.arange(batch, device=f.device)
    state = _Sweeps(problem, f[..., None], g[..., None], price, cold=start is None)
    while True:
        done = state.advance(tol, limit)
        finished = active[done]
        f[finished], g[finished], taken[finished] = state.f[done, :, 0], state.g[done, :, 0], state.count
        if len(finished) == len(active):
            return Outcome(f, g, taken, certify(problem, f, g))
        active = active[~done]
        state.keep(~done)


class _Sweeps:
    """The problems still being swept."""

    def __init__(self, problem: Problem, f: Tensor, g: Tensor, price: Tensor, cold: bool) -> None:
        self.problem, self.f, self.g, self.price = problem, f, g, price
        self.minima = SoftMinima(problem)
        self.minima.build(f, g)
        self.count, self.next, self.last_check, self.plain = 0, EVERY, 0, cold
        kappas = [kappa(s.tau / problem.epsilon) if type(s.divergence) is KL else 1.0 for s, _ in problem.sides]
        kinds = {type(s.divergence) for s, _ in problem.sides}
        self.known = kinds <= {KL, Balanced} and min(kappas) < 1
        # an offset is infinite where a zero weight meets the reference "ones"
        finite = all(bool(torch.isfinite(o).all()) for o in problem.offsets)
        self.lengths: list[Tensor] | None = None
        partial = isinstance(problem.source, PartialMarginal)
        if partial and finite:
            self.lengths = [torch.full_like(f[:, :1], problem.epsilon) for _ in range(2)]
            self._set_goals()
        self.direct = finite and not partial and L2 not in kinds
        finite = finite and self.known
        self.kappas = kappas if finite else None
        self.mixing: BatchMixing | None = None
        if finite and cold:
            self.f, self.g = self._translated(self.minima.f0, self.minima.g0)
            self.minima.centre(self.f, self.g)
        if finite and kinds == {KL} and max(s.tau for s, _ in problem.sides) <= LARGEST_TAU * problem.epsilon:
            self.mixing = BatchMixing(problem.b)
        ones = torch.ones_like(f[:, :1])
        best = best_factor(kappas[0] * kappas[1]) if self.known else 1.0
        self.best, self.ramp, self.residual, self.gap = best * ones, 0 * ones, math.inf * ones, math.inf * ones[:, 0, 0]
        self.adapted = 0

    def keep(self, index: Tensor) -> None:
        self.problem = self.problem.take(torch.nonzero(index)[:, 0])
        for name in ("f", "g", "price", "best", "ramp", "residual", "gap"):
            setattr(self, name, getattr(self, name)[index])
        if self.lengths is not None:
            self.lengths = [x[index] for x in self.lengths]
            self._set_goals()
        self.minima.keep(self.problem, index)
        if self.mixing is not None:
            self.mixing.keep(index)

    def _set_goals(self) -> None:
        self.goals = [s.goal(w[..., None]) for s, w in self.problem.sides if isinstance(s, PartialMarginal)]

    def advance(self, tol: float, limit: int) -> Tensor:
        """Sweep until some problem seems done; which ones are."""
        source, target = self.problem.source, self.problem.target
        while True:
            self.count += 1
            soft_a = self.minima.rows(self.g)
            omega = self._omega()
            self.f = self._step(0, source, self.f, soft_a, None if self.plain else omega)
            soft_b = self.minima.columns(self.f)
            new_g = self._step(1, target, self.g, soft_b, None if self.plain and self.lengths else omega)
            self.plain = False
            if self.count >= self.next or self.count >= limit:
                done = self._check(soft_a, soft_b, new_g, omega, tol, limit)
                if done is not None:  # the finished keep the certified g, the others continue
                    self.g = torch.where(done[:, None, None], self.g, new_g)
                    return done
                if omega is not None and self.kappas is not None:
                    self.f, new_g = self._translated(self.f, new_g)
            self.g = new_g if self.mixing is None else self.mixing.next(self.g, new_g, self._shift(self.f, new_g))

    def _omega(self) -> Tensor | None:
        """The factor of over-relaxation, raised slowly; None where it is one."""
        if self.mixing is not None:
            return None
        self.ramp = self.ramp + (self.best > 1)
        return torch.minimum(self.best, ramp(self.ramp)).clamp_min_(1.0)

    def _step(self, k: int, side: Marginal, h: Tensor, soft: Tensor, omega: Tensor | None) -> Tensor:
        if self.kappas is not None:
            image = soft * self.kappas[k]
            return image if omega is None else torch.lerp(h, image, omega)
        weights, epsilon = self.problem.sides[k][1], self.problem.epsilon
        if self.direct and omega is not None:
            return side.divergence.relaxed_step(h, soft, side.tau, epsilon, omega)
        # levels are exact at checks: in between, those of a side that is nearly saturated would be long on their way
        if self.lengths and omega is not None and self.count < self.next and isinstance(side, PartialMarginal):
            log_weights, goal, length = self.minima.log_weights[k], self.goals[k], self.lengths[k]
            return side.near_step(h, soft, log_weights, epsilon, omega, goal, length)
        if omega is None:
            return side.step(soft[..., 0], weights, epsilon)[..., None]
        return side.relaxed_step(h[..., 0], soft[..., 0], weights, epsilon, omega[..., 0])[..., None]

    def _shift(self, f: Tensor, g: Tensor) -> Tensor:
        """The best t for (f + t, g - t), one side KL and the other KL or exact."""
        slope_a, slope_b = (1 / side.tau if type(side.divergence) is KL else 0.0 for side, _ in self.problem.sides)
        log_a, log_b = self.minima.log_weights
        return best_shifts(slope_a, slope_b, log_a, log_b, f, g)

    def _translated(self, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        t = self._shift(f, g)
        return f + t, g - t

    def _check(
        self, soft_a: Tensor, soft_b: Tensor, new_g: Tensor, omega: Tensor | None, tol: float, limit: int
    ) -> Tensor | None:
        """Which problems are done, None if none is; sets the next check, the kernel and the policy."""
        gap, scale = self._estimate(soft_a[..., 0], soft_b[..., 0])
        if self.lengths is not None:
            self.lengths = [
                side.length(h, soft, w[..., None], self.problem.epsilon)
                for (side, w), h, soft in zip(self.problem.sides, (self.f, self.g), (soft_a, soft_b), strict=True)
                if isinstance(side, PartialMarginal)
            ]
        far = self.minima.too_far(self.f, self.g)
        done = (solved(gap, scale, tol) & ~far) | (self.count >= limit)
        rate = torch.log(self.gap / gap) / (self.count - self.last_check)
        ahead = 0.5 * torch.log((gap / (tol * scale).clamp_min(1e-300)).clamp_min(1.0)) / rate
        wait = torch.where(rate > 0, ahead, 0.0).nan_to_num(0.0).clamp(EVERY, LONGEST)
        struck = (self.mixing.strikes >= STRIKES).any() if self.mixing else torch.zeros_like(far[0])
        news = torch.stack([done.any(), far.any(), wait.min(), struck])
        any_done, any_far, least, any_struck = news.tolist()
        self.gap, self.last_check, self.next = gap, self.count, self.count + int(least)
        if any_far or self.minima.in_logs:
            self.minima.build(self.f, self.g)
        if self.mixing is not None and (any_struck or self.count >= SWEEPS):
            self.mixing = None
            self.ramp = self.ramp + WARM
        elif omega is not None and self.count - self.adapted >= LONGEST:
            self._adapt((new_g - self.g) / omega, omega)
        return done if any_done else None

    def _estimate(self, soft_a: Tensor, soft_b: Tensor) -> tuple[Tensor, Tensor]:
        """The gap at (f, g) and its scale, in O(n + m), with violated constraints at their assumed cost."""
        problem, epsilon = self.problem, self.problem.epsilon
        gap = penalty = cross = torch.zeros_like(self.price)
        masses = []
        for (side, weights), potential, soft in zip(
            problem.sides, (self.f[..., 0], self.g[..., 0]), (soft_a, soft_b), strict=True
        ):
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
        """The best factor from the rate of the residuals (Young's relation)."""
        residual = change.nan_to_num(0.0).abs().amax(1, keepdim=True).clamp_min(1e-300)
        rate = (residual / self.residual) ** (1 / (self.count - self.adapted))
        growing = rate > 1.05 if self.known else rate >= 1
        self.best = torch.where(growing & (omega > 1), 1 + 0.6 * (self.best - 1), self.best)
        if not self.known:
            at_best = (omega >= self.best) & (rate > self.best - 1) & (rate < 1) & (rate > 0)
            better = best_factor(plain_rate(rate, self.best).clamp(0, 1 - 1e-7))
            self.best = torch.where(at_best, torch.maximum(self.best, better), self.best)
        self.residual, self.adapted = residual, self.count
