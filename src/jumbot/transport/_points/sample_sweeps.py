"""Sweeps over a plan that is never stored: soft minima in tiles, the policy of all sweeps on the potentials.

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

from jumbot.transport._points.rounding import EMPTY, Proof, exponents, prove
from jumbot.transport.certificate import solved
from jumbot.transport.divergences import KL, Balanced
from jumbot.transport.entropic.mixing import RingMixing
from jumbot.transport.entropic.policy import Relaxation, kappa, stricter
from jumbot.transport.entropic.shift import best_shift
from jumbot.transport.entropic.translation import translate
from jumbot.transport.problem import Problem

_STALLED = {np.float32: 20, np.float64: 300}  # sweeps without progress after which a precision is given up
_SHARE = 0.15  # of tol, that left-out blocks may add to the gap
_FAR = 1e11  # a soft minimum, in units of epsilon, beyond which nothing can be matched
_MOVED = 0.25  # change of a potential, in units of epsilon, after which blocks are chosen again


@dataclass(frozen=True)
class Found:
    """Potentials `(1, n)`, `(1, m)`, sweeps taken, and what they prove."""

    f: Tensor
    g: Tensor
    taken: int
    proof: Proof
    kept: float
    interrupted: bool = False


class Sweeps:
    """One problem; `stream` gives its tiles.  `leave_out` says whether blocks may be left out."""

    def __init__(self, problem: Problem, stream: Any, tol: float, leave_out: bool = True) -> None:
        self.problem, self.stream, self.tol, self.epsilon = problem, stream, tol, problem.epsilon
        self.a, self.b = problem.a[0].numpy(), problem.b[0].numpy()
        self.leave_out = leave_out and hasattr(stream, "choose")
        sides = problem.source, problem.target
        self.hard = any(side.hard for side in sides)
        kinds = {type(side.divergence) for side in sides}
        known = KL in kinds and kinds <= {KL, Balanced}
        kappas = [kappa(s.tau / self.epsilon) if isinstance(s.divergence, KL) else 1.0 for s in sides]
        self.relaxation = Relaxation(kappas[0] * kappas[1] if known else None)
        self.inverse = [self.epsilon / s.tau if isinstance(s.divergence, KL) else 0.0 for s in sides]
        self.mixing = RingMixing(len(self.b)) if kinds == {KL} else None
        self.price = self.epsilon * stream.mean_cost(self.a, self.b) + self.epsilon if self.hard else 0.0
        self.dtype = np.float32 if self._single() else np.float64
        self.soft: list[np.ndarray | None] = [None, None]
        self.count, self.scale = 0, 0.0

    def _single(self) -> bool:
        """Whether float32 entries leave a gap well below tol: it grows with the square of their noise, times tau."""
        noise = self.stream.noise
        if self.hard:
            return 100 * noise <= self.tol
        taus = [side.tau / self.epsilon for side in (self.problem.source, self.problem.target)]
        return noise**2 * (1 + max(taus)) <= 0.1 * self.tol

    def _half(self, k: int, exponent: np.ndarray) -> Tensor:
        """The soft minima of side k, in units of cost, infinite where nothing can be matched."""
        logs = self.stream.log_sums(k, exponent, self.soft[k], self.dtype)
        closed = logs < -_FAR
        self.soft[k] = np.where(closed, 0.0, -logs)
        soft = torch.from_numpy(-logs)[None] * self.epsilon + self.problem.offsets[k]
        return torch.where(torch.from_numpy(closed)[None], torch.inf, soft)

    def _step(self, k: int, soft: Tensor, before: Tensor | None, omega: float) -> Tensor:
        side, weights = self.problem.sides[k]
        closed = torch.isposinf(soft)
        soft = torch.where(closed, 0.0, soft)
        if before is None or omega == 1.0:
            new = side.step(soft, weights, self.epsilon)
        else:
            at = torch.where(closed, 0.0, before)
            new = side.relaxed_step(at, soft, weights, self.epsilon, torch.as_tensor(omega, dtype=torch.float64))
        return torch.where(closed, EMPTY * side.tau, new)

    def sweep(self, f: Tensor | None, g: Tensor) -> tuple[Tensor, Tensor]:
        """f from g, and the next g from f; the estimates of gap and scale are at (f, g)."""
        self.count += 1
        relaxed = self.count > 1 and self.mixing is None
        self.omega = self.relaxation.next() if relaxed else 1.0
        zero = torch.zeros_like(self.problem.a)
        _, G = exponents(self.problem, zero, g)
        soft_a = self._half(0, G)
        f = self._step(0, soft_a, f, self.omega)
        F, _ = exponents(self.problem, f, g)
        soft_b = self._half(1, F)
        self._estimate(f, g, F, G)
        return f, self._step(1, soft_b, g, self.omega)

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
        self.mass = mass

    def advance(self, f: Tensor, g: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """The next (f, g): translated where that has a closed form, and mixed."""
        if self.mixing is None:
            moved = (new - g).abs()[self.problem.reference_weights[1] > 0]
            self.relaxation.observe(float(moved.max()) / (self.omega * self.epsilon), self.count)
        if self.relaxation.known:
            F, G = f[0].numpy() / self.epsilon, new[0].numpy() / self.epsilon
            work = np.empty(len(F)), np.empty(len(G))
            shift = best_shift(*self.inverse, self.a, self.b, F, G, *work) * self.epsilon
            f, new = f + shift, new - shift
        if self.mixing is not None:
            x, image = g[0].numpy() / self.epsilon, new[0].numpy() / self.epsilon
            mixed = self.mixing.next(x, image, self.b, self.gap / max(self.scale, 1e-300))
            new = torch.from_numpy(mixed)[None] * self.epsilon
        return f, new

    def _choose(self, f: Tensor, g: Tensor) -> None:
        if self.leave_out:
            budget = _SHARE * self.tol * max(self.scale / self.epsilon, 1e-12)
            self.stream.choose(*exponents(self.problem, f, g), budget)
            self.chosen = f, g

    def _moved(self, f: Tensor, g: Tensor) -> bool:
        if not self.leave_out or not hasattr(self, "chosen"):
            return self.leave_out
        pairs = zip((f, g), self.chosen, self.problem.reference_weights, strict=True)
        return any(
            float(torch.where(r > 0, (x - y).abs(), 0.0).max()) > _MOVED * self.epsilon for x, y, r in pairs
        )  # fmt: skip

    def run(
        self, f: Tensor | None, g: Tensor, limit: int, prove_it: bool = True, tell: Callable[[int, float], None] | None = None
    ) -> Found:  # fmt: skip
        """Sweep until the gap is within tol; from `g` alone, or from both where blocks are to be left out at once."""
        safety, best, best_at, interrupted = 1.0, math.inf, 0, False
        if f is not None and self.leave_out:
            self.scale = self.epsilon * float(min(self.a.sum(), self.b.sum()))
            self._choose(f, g)
        new, last = g, (f, g)
        try:
            while True:
                f, new = self.sweep(f, g)
                last = f, g
                relative = self.gap / max(self.scale, 1e-300)
                if tell is not None:
                    tell(self.count, relative)
                if relative < 0.99 * best:
                    best, best_at = relative, self.count
                if self.dtype is np.float32 and self.count > best_at + _STALLED[np.float32]:
                    self.dtype, best_at = np.float64, self.count
                ended = self.count >= limit or self.count > best_at + _STALLED[self.dtype]
                if ended or solved(self.gap, self.scale, safety * self.tol):
                    if not prove_it:
                        break
                    found = self._prove(f, g)
                    if ended or solved(found.gap, found.scale, self.tol):
                        return Found(f, g, self.count, found, self.stream.kept)
                    safety = stricter(safety, self.tol, found.scale, found.gap)
                if self._moved(f, new):
                    self._choose(f, new)
                f, g = self.advance(f, g, new)
        except KeyboardInterrupt:
            interrupted = True
        f, g = last
        if f is None:
            f = torch.zeros_like(self.problem.a)
        proof = self._prove(f, g) if prove_it or interrupted else _nothing()
        return Found(f, g, self.count, proof, self.stream.kept, interrupted)

    def _prove(self, f: Tensor, g: Tensor) -> Proof:
        self._choose(f, g)
        return prove(self.problem, self.stream, f, g)


def _nothing() -> Any:
    return None


def improve(problem: Problem, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Translated as well as can be, at any divergence."""
    return translate(problem, f, g)
