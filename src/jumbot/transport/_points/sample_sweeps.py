"""Sweeps over a plan that is never stored: soft minima in tiles, with the policy of all sweeps.

A half of a sweep is one pass: the sums of the rows, then those of the columns at the new row potentials.  Both
marginals at (f, g) are known after it, so that the gap is estimated at every sweep; it is proved in float64 at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError
from jumbot.transport._certificate import solved
from jumbot.transport._kernels.policy import Relaxation, RingMixing, best_shift, kappa, stricter
from jumbot.transport._points._newton import Newton
from jumbot.transport._points.rounding import Proof, exponents, prove
from jumbot.transport._problem import EMPTY, Problem
from jumbot.transport.divergences import KL, Balanced

_STALLED = 40  # sweeps without progress, after which over-relaxation is tried, then another precision
_SLOW = (60, 160, 320, 640)  # sweeps after which Newton steps are tried where marginals are exact
_PATIENCE = 300  # sweeps without progress, after which it stops
_SHARE = 0.15  # of tol, that left-out blocks may add to the gap
_LITTLE = 1e-2  # of all mass, that left-out blocks may hold at most
_FAR = 100 * EMPTY  # a soft minimum, in units of tau, beyond which nothing can be matched
_NOWHERE = 1e3  # below its soft minimum, in units of epsilon, the potential of a point whose mass must be zero
_FARTHEST, _NEAR, _GOLDEN = 1e15, 1e-2, (math.sqrt(5) - 1) / 2  # translations, in units of epsilon
_ROUNDING = 1e-13  # of the dual
_MOVED = 0.25  # change of a potential, in units of epsilon, after which blocks are chosen again


@dataclass(frozen=True)
class Found:
    """Potentials `(1, n)`, `(1, m)`, sweeps taken, and what they prove."""

    f: Tensor
    g: Tensor
    taken: int
    proof: Proof | None  # None where it was not asked for
    kept: float
    interrupted: bool = False


class Sweeps:
    """One problem; `stream` gives its tiles."""

    def __init__(self, problem: Problem, stream: Any, tol: float) -> None:
        self.problem, self.stream, self.tol, self.epsilon = problem, stream, tol, problem.epsilon
        self.a, self.b = problem.a[0].numpy(), problem.b[0].numpy()
        self.leave_out = hasattr(stream, "choose")
        sides = problem.source, problem.target
        self.hard = any(side.hard for side in sides)
        kinds = {type(side.divergence) for side in sides}
        known = KL in kinds and kinds <= {KL, Balanced}
        kappas = [kappa(s.tau / self.epsilon) if isinstance(s.divergence, KL) else 1.0 for s in sides]
        self.relaxation = Relaxation(kappas[0] * kappas[1] if known else None)
        self.inverse = [self.epsilon / s.tau if isinstance(s.divergence, KL) else 0.0 for s in sides]
        self.mixing: RingMixing | None = RingMixing(len(self.b))
        self.price = self.epsilon * stream.mean_cost(self.a, self.b) + self.epsilon if self.hard else 0.0
        self.dtype = np.float32 if self._single() else np.float64
        self.soft: list[np.ndarray | None] = [None, None]
        self.nowhere: list[Tensor | None] = [None, None]  # points whose potential is -inf
        self.newton = Newton(self)
        self.count, self.scale = 0, 0.0

    def _single(self) -> bool:
        """Whether float32 entries leave a gap well below tol: it grows with the square of their noise, times tau."""
        noise = self.stream.noise
        if self.hard:
            return 100 * noise <= self.tol
        taus = [side.tau / self.epsilon for side in (self.problem.source, self.problem.target)]
        return noise**2 * (1 + max(taus)) <= 0.1 * self.tol

    def exponents(self, f: Tensor, g: Tensor) -> tuple[np.ndarray, np.ndarray]:
        return exponents(self.problem, self.stream.closed, f, g)

    def _half(self, k: int, exponent: np.ndarray) -> Tensor:
        """The soft minima of side k, in units of cost, infinite where nothing can be matched."""
        return self._soft(k, self.stream.log_sums(k, exponent, self.soft[k], self.dtype))

    def _soft(self, k: int, logs: np.ndarray) -> Tensor:
        closed = self._closed(k, logs)
        self.soft[k] = np.where(closed, 0.0, -logs)
        soft = torch.from_numpy(-logs)[None] * self.epsilon + self.problem.offsets[k]
        return torch.where(torch.from_numpy(closed)[None], torch.inf, soft)

    def _closed(self, k: int, logs: np.ndarray) -> np.ndarray | bool:
        """The points of side k that cannot be matched: all of their costs are infinite, or practically so.

        For a callable this is known after the first pass over all pairs; for functions of a distance, before.
        """
        side = self.problem.sides[k][0]
        if self.stream.closed[k] is None and self.stream.may_be_closed:
            self.stream.closed[k] = logs < -_FAR * max(1.0, side.tau / self.epsilon)
        closed = self.stream.closed[k]
        if closed is None or not closed.any():
            return np.zeros(len(logs), dtype=bool)
        if math.isinf(float(side.divergence.phi(torch.zeros(())))):
            name = ("x", "y")[k]
            raise ArgumentError(
                f"cost: infinite between point {int(np.argmax(closed))} of {name} and all others, but its marginal may "
                "not be zero; give that side a finite tau and a divergence such as 'kl'."
            )
        return closed

    def _step(self, k: int, soft: Tensor, before: Tensor | None, omega: float) -> Tensor:
        side, weights = self.problem.sides[k]
        closed = torch.isposinf(soft)
        soft = torch.where(closed, 0.0, soft)
        if before is None or omega == 1.0:
            new = side.step(soft, weights, self.epsilon)
        else:
            at = torch.where(closed, 0.0, before)
            new = side.relaxed_step(at, soft, weights, self.epsilon, torch.as_tensor(omega, dtype=torch.float64))
        self.nowhere[k], least = new.isneginf(), self.soft[k]
        assert least is not None
        new = torch.where(new.isneginf(), self.epsilon * (torch.from_numpy(least)[None] - _NOWHERE), new)
        return torch.where(closed, EMPTY * side.tau, new)

    def sweep(self, f: Tensor | None, g: Tensor) -> tuple[Tensor, Tensor]:
        """f from g, and the next g from f; the estimates of gap and scale are at (f, g)."""
        self.count += 1
        relaxed = self.count > 1 and self.mixing is None
        self.omega = self.relaxation.next() if relaxed and not self.newton.offered else 1.0
        _, G = self.exponents(torch.zeros_like(self.problem.a), g)
        if self._together:
            before = f

            def rows_at(logs: np.ndarray) -> np.ndarray:
                return self.exponents(self._step(0, self._soft(0, logs), before, self.omega), g)[0]

            logs_a, logs_b = self.stream.both_log_sums(G, tuple(self.soft), self.dtype, rows_at)
            f = self._step(0, self._soft(0, logs_a), f, self.omega)
            F, soft_b = self.exponents(f, g)[0], self._soft(1, logs_b)
        else:
            f = self._step(0, self._half(0, G), f, self.omega)
            F, _ = self.exponents(f, g)
            soft_b = self._half(1, F)
        self._estimate(f, g, F, G)
        return f, self._step(1, soft_b, g, self.omega)

    @property
    def _together(self) -> bool:
        """Whether processes share the work, and know where the sums of both sides will be."""
        if self.stream.team.world == 1 or not hasattr(self.stream, "both_log_sums"):
            return False
        return all(soft is not None for soft in self.soft) and all(closed is None for closed in self.stream.closed)

    def _estimate(self, f: Tensor, g: Tensor, F: np.ndarray, G: np.ndarray) -> None:
        gap = penalty = inside = mass = 0.0
        for k, (potential, exponent) in enumerate(((f, F), (g, G))):
            side, weights = self.problem.sides[k]
            soft = self.soft[k]
            assert soft is not None
            p = torch.from_numpy(np.exp(np.minimum(exponent - soft, 600.0)))[None]
            q = torch.clamp(p, *side.bounds(weights)) if side.hard else p
            gap += float(side.fenchel_young(q, potential, weights)) + self.price * float((p - q).abs().sum())
            penalty += float(side.penalty(q, weights))
            inside += float(torch.where(q > 0, potential * q, 0.0).sum())
            mass = float(p.sum())
        self.gap = gap + self.epsilon * self.stream.left_out
        self.scale = penalty + self.epsilon * mass
        self.scale += max(0.0, inside - self.epsilon * mass * math.log(len(self.b)))
        (agreed,) = self.stream.team.agreed(np.array([self.gap, self.scale]))
        self.gap, self.scale = agreed.tolist()

    def advance(self, f: Tensor, g: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """The next (f, g): translated where that has a closed form, and mixed."""
        if self.mixing is None:
            moved = (new - g).abs()[self.problem.reference_weights[1] > 0]
            self.relaxation.observe(float(moved.max()) / (self.omega * self.epsilon), self.count)
        if self.relaxation.known:
            F, G = f[0].numpy() / self.epsilon, new[0].numpy() / self.epsilon
            work = np.empty(len(F)), np.empty(len(G))
            shift = best_shift(self.inverse[0], self.inverse[1], self.a, self.b, F, G, *work) * self.epsilon
            f, new = f + shift, new - shift
        elif not (self.problem.source.exact and self.problem.target.exact):
            shift = self._shift(f, new)
            f, new = f + shift, new - shift
        if self.mixing is not None:
            closed = self.stream.closed[1]
            x, image = g[0].numpy() / self.epsilon, new[0].numpy() / self.epsilon
            if closed is not None:
                x, image = (np.where(closed, 0.0, z) for z in (x, image))
            mixed = self.mixing.next(x, image, self.b, self.gap / max(self.scale, 1e-300))
            new = torch.from_numpy(mixed)[None] * self.epsilon
        return self._emptied(0, f), self._emptied(1, new)

    def _shift(self, f: Tensor, g: Tensor) -> float:
        """The t that makes the dual at (f + t, g - t) largest, by bracketing and golden sections: it is concave in t.

        Sweeps alone would move by no more than a few epsilons each, however far it is.
        """
        (source, a), (target, b) = self.problem.sides

        def dual(t: float) -> float:
            for side, potential in ((source, f + t), (target, g - t)):
                if float(-potential.min()) > side.tau * side.divergence.recession * (1 + 1e-9):
                    return -math.inf
            value = float(source.dual(f + t, a) + target.dual(g - t, b))
            return -math.inf if math.isnan(value) else value

        here, reach = dual(0.0), [0.0, 0.0]
        for way, sign in enumerate((-1.0, 1.0)):
            step, best = self.epsilon, here
            while (value := dual(sign * step)) > best and step < _FARTHEST * self.epsilon:
                step, best = 2 * step, value
            reach[way] = sign * step
        low, high = reach
        while high - low > _NEAR * self.epsilon + 1e-12 * max(abs(low), abs(high)):
            first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            low, high = (low, second) if dual(first) >= dual(second) else (first, high)
        middle = (low + high) / 2
        return middle if dual(middle) > here + _ROUNDING * abs(here) else 0.0

    def _finite(self, potential: Tensor) -> Tensor:
        """A start, which may be -inf where the weight is zero."""
        least = float(potential.where(potential.isfinite(), torch.inf).min())
        return potential.nan_to_num(neginf=least - _NOWHERE * self.epsilon) if math.isfinite(least) else potential

    def _emptied(self, k: int, potential: Tensor) -> Tensor:
        """Give closed points no mass, whatever their potentials are; no potential exceeds its bound.

        A start may exceed it, and so may a mixture: the dual is -inf there, and proves nothing.
        """
        side, closed = self.problem.sides[k][0], self.stream.closed[k]
        potential = potential.clamp_min(-side.tau * side.divergence.recession)
        if closed is None:
            return potential
        return torch.where(torch.from_numpy(closed)[None], EMPTY * side.tau, potential)

    def _choose(self, f: Tensor, g: Tensor) -> None:
        if self.leave_out:
            # what is left out costs epsilon, and where it must be filled in, its price
            budget = _SHARE * self.tol * max(self.scale / max(self.epsilon, self.price), 1e-12)
            budget = min(budget, _LITTLE * float(min(self.a.sum(), self.b.sum())))
            self.stream.choose(*self.exponents(f, g), budget)
            self.chosen = f, g

    def _moved(self, f: Tensor, g: Tensor) -> bool:
        if not self.leave_out or not hasattr(self, "chosen"):
            return self.leave_out
        pairs = zip((f, g), self.chosen, self.problem.reference_weights, strict=True)
        return any(float(torch.where(r > 0, (x - y).abs(), 0.0).max()) > _MOVED * self.epsilon for x, y, r in pairs)

    def run(
        self,
        f: Tensor | None,
        g: Tensor,
        limit: int,
        prove_it: bool = True,
        tell: Callable[[int, float], None] | None = None,
        stopped: bool = False,
    ) -> Found:
        """Sweep until the gap is within tol; from `g` alone, or from both where blocks are to be left out at once.

        If the previous stage was `stopped`, no sweep is made and the start is returned.
        """
        safety, best, best_at, interrupted = 1.0, math.inf, 0, False
        f, g = None if f is None else self._emptied(0, self._finite(f)), self._emptied(1, self._finite(g))
        if f is not None:  # near the soft minima, so that no pass needs to find these first
            pairs = zip((f, g), self.problem.offsets, strict=True)
            self.soft = [
                ((x - offset.clamp_min(-_NOWHERE * self.epsilon)) / self.epsilon)[0].numpy() for x, offset in pairs
            ]
        if f is not None and self.leave_out:
            self.scale = self.epsilon * float(min(self.a.sum(), self.b.sum()))
            self._choose(f, g)
        kept = torch.zeros_like(self.problem.a) if f is None else f, g
        try:
            if stopped:
                raise KeyboardInterrupt
            while True:
                f, new = self.sweep(f, g)
                relative = self.gap / max(self.scale, 1e-300)
                if tell is not None:
                    tell(self.count, relative)
                if relative < 0.99 * best:
                    best, best_at, kept = relative, self.count, (f, g)
                ended = self.count >= limit or self.count > best_at + _PATIENCE
                if ended or solved(self.gap, self.scale, safety * self.tol):
                    if ended or not prove_it:
                        break
                    here = self._prove(f, g)
                    (fine,) = self.stream.team.agreed(np.array([float(solved(here.gap, here.scale, self.tol))]))
                    if fine:
                        return self._found(f, g, here, False)
                    safety = stricter(safety, self.tol, here.scale, here.gap)
                stalled = self.count - best_at == _STALLED
                if stalled and self._try_otherwise():
                    (f, g), new = kept, kept[1]
                if self.newton.offered and (stalled or self.count in _SLOW):
                    f, g = self._agreed(*self.newton.run(*kept))
                    new, self.mixing = g, None if self.mixing is None else RingMixing(len(self.b))
                if self._moved(f, new):
                    self._choose(f, new)
                f, g = self._agreed(*self.advance(f, g, new))
        except KeyboardInterrupt:
            if not prove_it:  # a coarser problem, whose progress is not shown
                raise
            interrupted = True
        f, g = kept
        return self._found(f, g, self._prove(f, g) if prove_it else None, interrupted)

    def _found(self, f: Tensor, g: Tensor, proof: Proof | None, interrupted: bool) -> Found:
        f, g = (x if no is None else x.masked_fill(no, -torch.inf) for x, no in zip((f, g), self.nowhere, strict=True))
        return Found(f, g, self.count, proof, self.stream.kept, interrupted)

    def _agreed(self, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        first, second = self.stream.team.agreed(f.numpy(), g.numpy())
        return torch.from_numpy(first), torch.from_numpy(second)

    def _try_otherwise(self) -> bool:
        """Try over-relaxation if mixing makes no progress, and float64 if float32 makes none."""
        changed = self.mixing is not None or self.dtype is not np.float64
        self.mixing, self.dtype = None, np.float64
        return changed

    def _prove(self, f: Tensor, g: Tensor) -> Proof:
        self._choose(f, g)
        with np.errstate(over="ignore", invalid="ignore"):  # far from the optimum, where the gap is infinite
            return prove(self.problem, self.stream, f, g)
