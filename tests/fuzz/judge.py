"""What an answer must keep: each broken promise is one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .entropies import Array, Extended
from .problem import Problem, marginals

CLOSE = 1e-5  # of the scale: how far a value that is called converged may be off
EXACT = {np.float64: 1e-9, np.float32: 1e-6}  # of the total weight: how far an exact marginal may be missed


@dataclass(frozen=True)
class Answer:
    """What `jumbot.Solution` says of one problem, in numpy."""

    plan: Array
    value: float
    linear: float
    dual: float
    gap: float
    relative_gap: float
    mass: float
    rows: Array
    columns: Array
    f: Array
    g: Array
    status: str
    converged: bool
    tol: float

    @property
    def unit(self) -> float:
        """got Rounding of the precision that the answer."""
        return float(np.finfo(self.plan.dtype).eps)


def judge(problem: Problem, answer: Answer, proof: tuple[Array, Array] | None = None) -> list[str]:
    """Everything that is wrong with `answer`; `proof` are potentials that may know better than its own rounded ones."""
    arrays = answer.plan, answer.rows, answer.columns, answer.f, answer.g
    if answer.status == "OVERFLOW":
        numbers = answer.plan.sum(dtype=Extended), answer.value, answer.linear, answer.gap, answer.mass
        return [] if not np.isfinite(numbers).all() else ["OVERFLOW, but every number is finite"]
    if not answer.converged and answer.gap >= 0 and math.isinf(answer.gap + answer.relative_gap):
        return []  # it says itself that it has no answer
    if any(np.isnan(x).any() for x in arrays) or not np.isfinite(answer.plan).all():
        return ["NaN or infinite mass in the plan, its marginals or its potentials"]
    wrong = list(_plan_faults(problem, answer))
    if wrong:
        return wrong
    with np.errstate(over="ignore", invalid="ignore"):
        return list(_value_faults(problem, answer, _Recomputed.of(problem, answer, proof)))


def _plan_faults(problem: Problem, answer: Answer) -> Iterator[str]:
    plan = answer.plan.astype(Extended)
    if (plan < 0).any():
        yield f"negative mass {plan.min():.3g}"
    forbidden = plan[np.isposinf(problem.cost)]
    if forbidden.any():
        yield f"mass {forbidden.sum():.3g} on forbidden pairs"
    if plan[~problem.free].any():
        yield f"mass {plan[~problem.free].sum():.3g} where only an infinite objective allows it"
    for name, side, p in zip(("row", "column"), problem.sides, marginals(plan), strict=True):
        missed = side.violation(p)
        if missed > EXACT[answer.plan.dtype.type]:
            yield f"{name} constraint missed by {missed:.3g} of the total weight"


@dataclass(frozen=True)
class _Recomputed:
    """The numbers of an answer, computed again, with what rounding its plan and potentials can do to them."""

    linear: Extended
    primal: Extended
    dual: Extended
    scale: Extended
    rounding: float

    @classmethod
    def of(cls, problem: Problem, answer: Answer, proof: tuple[Array, Array] | None) -> _Recomputed:
        plan, (f, g) = answer.plan.astype(Extended), (x.astype(Extended) for x in proof or (answer.f, answer.g))
        primal, unit = problem.primal(plan), answer.unit
        own = float(np.finfo(np.float64).eps) if proof else unit
        # a relative error u of the plan changes F(p) by u |f| p, and by u tau p where phi has a kink
        slopes = sum(
            (np.abs(np.where(np.isfinite(h), h, 0)) * p).sum() + (0 if side.hard else side.tau * p.sum())
            for h, p, side in zip((f, g), marginals(plan), problem.sides, strict=True)
        )
        size = np.abs(problem.linear(plan, np.abs(problem.cost)))
        rounding = 4 * unit * (abs(primal) + slopes + size)
        rounding += problem.epsilon * plan.sum() * min(blur(problem, f, g, own), 1e3) ** 2
        if problem.epsilon == 0:  # potentials are differences of costs, also where the plan pays none
            heaviest = max(float(side.weights.sum()) for side in problem.sides)
            rounding += 4 * own * heaviest * float(np.abs(problem.cost[problem.free]).max(initial=0))
        dual = problem.dual(f, g, max(1e-12, 4 * own))
        return cls(problem.linear(plan), primal, dual, problem.scale(plan), float(rounding))


def blur(problem: Problem, f: Array, g: Array, unit: float) -> float:
    """What rounding the potentials can do to the logarithm of an entry of the plan."""
    if problem.epsilon == 0:
        return 0.0
    reach = sum(np.abs(h[np.isfinite(h)]).max(initial=0) for h in (f, g))
    return float(4 * unit * (reach + np.abs(problem.cost[problem.free]).max(initial=0)) / problem.epsilon)


def _value_faults(problem: Problem, answer: Answer, true: _Recomputed) -> Iterator[str]:
    close = CLOSE * float(true.scale) + true.rounding
    plan = answer.plan.astype(Extended)

    def off(name: str, claimed: float, found: Any, room: float = close) -> Iterator[str]:
        if not abs(claimed - float(found)) <= room:
            yield f"{name} {claimed:.9g}, recomputed {float(found):.9g} (scale {float(true.scale):.3g})"

    yield from off("value", answer.value, true.primal)
    yield from off("linear", answer.linear, true.linear)
    yield from off("dual", answer.dual, answer.value - answer.gap)
    least = plan.size * float(np.finfo(answer.plan.dtype).smallest_subnormal)  # entries of 1e-44 have few digits
    room = CLOSE * float(plan.sum()) + least
    yield from off("mass", answer.mass, plan.sum(), room)
    for name, claimed, found in zip(("rows", "columns"), (answer.rows, answer.columns), marginals(plan), strict=True):
        if not np.abs(claimed - found).max() <= room:
            yield f"marginals: {name} are not those of the plan"
    if not abs(answer.relative_gap * float(true.scale) - answer.gap) <= 1e-3 * answer.gap + close:
        yield f"relative_gap {answer.relative_gap:.3g} is not {answer.gap:.3g} over {float(true.scale):.3g}"
    if not answer.gap >= 0:
        yield f"gap {answer.gap:.3g} is negative"
    if answer.dual > true.dual + close + 1e-6 * answer.gap:
        yield f"dual {answer.dual:.9g} is more than the potentials prove, {float(true.dual):.9g}"
    if answer.converged != (answer.status == "CONVERGED"):
        yield f"converged is {answer.converged} beside the status {answer.status}"
    if answer.converged:
        yield from _lies(problem, answer, true, close)
    if problem.epsilon > 0 and not any(side.hard for side in problem.sides):
        yield from _mismatch(problem, answer)


def _lies(problem: Problem, answer: Answer, true: _Recomputed, close: float) -> Iterator[str]:
    """Faults of an answer that calls itself converged."""
    if not math.isfinite(answer.value):
        yield f"CONVERGED with the value {answer.value}"
    if answer.relative_gap > max(answer.tol, 1e-12) * (1 + 1e-5):
        yield f"CONVERGED with a relative gap of {answer.relative_gap:.3g}, tol = {answer.tol:g}"
    allowed = max(answer.tol, CLOSE) * float(true.scale) + close
    if not true.primal - true.dual <= allowed:
        yield (
            f"CONVERGED with primal {float(true.primal):.9g} and dual {float(true.dual):.9g} "
            f"(scale {float(true.scale):.3g}, rounding {true.rounding:.1g})"
        )


def _mismatch(problem: Problem, answer: Answer) -> Iterator[str]:
    """P = R e^{(f+g-C)/epsilon}, entry by entry, where the potentials are fine enough to tell."""
    room = blur(problem, answer.f, answer.g, answer.unit)
    if room > 1e-2:
        return
    gibbs = problem.gibbs(answer.f.astype(Extended), answer.g.astype(Extended))
    # what lies below e^-650 of the reference is written as zero
    nothing = float(np.finfo(answer.plan.dtype).tiny) + 1e-100 * float(gibbs.max()) + 1e-280 * float(problem.R.max())
    off = np.abs(answer.plan - gibbs) > (2 * room + 8 * answer.unit + 1e-9) * gibbs + nothing
    if off.any():
        i, j = np.argwhere(off)[0]
        yield f"plan[{i}, {j}] is {answer.plan[i, j]:.9g}, its potentials say {float(gibbs[i, j]):.9g}"


def against(truth: float, answer: Answer, scale: float, who: str) -> list[str]:
    """The value beside that of another solver, which is good to `CLOSE` itself."""
    if abs(answer.value - truth) <= (CLOSE + max(CLOSE, answer.tol)) * scale + 4 * answer.unit * abs(truth):
        return []
    return [f"value {answer.value:.9g}, but {who} finds {truth:.9g} (scale {scale:.3g})"]
