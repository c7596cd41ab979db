"""epsilon > 0: which engine is used, and what happens to problems that it does not finish."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from jumbot.transport._certificate import Certificate, certify
from jumbot.transport._entropic import barrier, compiled_sweeps, large_sweeps, newton_steps, torch_sweeps
from jumbot.transport._entropic.translation import translate
from jumbot.transport._kernels import policy
from jumbot.transport._kernels.memory import contiguous
from jumbot.transport._kernels.rounded_plan import reaches
from jumbot.transport._outcome import ITERATIONS, AnyOutcome, Outcome, Start
from jumbot.transport._problem import EMPTY, Problem
from jumbot.transport.divergences import KL, Balanced


class Engine(Protocol):
    """A module with these names; `solver.py` chooses among them and chains them, using nothing else."""

    @property
    def PATIENCE(self) -> int:
        """Iterations before another engine is tried."""

    def fits(self, problem: Problem) -> bool:
        """Whether this is the right engine, or a possible one."""

    def certifies(self, problem: Problem) -> bool:
        """Whether the certificate of `sweep` is also valid if a marginal is constrained."""

    def sweep(
        self, problem: Problem, start: Start | None, tol: float, limit: int, price: Tensor, rounded: bool = True
    ) -> AnyOutcome:
        """Continue from `start` until each gap seems to be within `tol`, or for `limit` iterations.

        `price` `(B,)` is the assumed cost of a unit of violated constraint when a gap is estimated.  The certificate is
        exact if no marginal is constrained, or if the engine `certifies`; without `rounded` only the potentials are
        needed.
        """


#: In the order of preference; the last one fits every problem.
ENGINES: tuple[Engine, ...] = (compiled_sweeps, large_sweeps, torch_sweeps)
_FIRST, _EACH, _NEVER = 150, 2, 1 << 62  # sweeps before the interior point, and more of them for each point
_POWERS = 600  # of 3, which are floats
_ROUNDING = 1e-11  # a relative gap below which one round without much progress is the last


def solve_entropic(
    problem: Problem,
    start: tuple[Tensor, Tensor] | None,
    tol: float,
    max_iterations: int,
    symmetric: bool = False,
    swept: int = 0,
) -> AnyOutcome:
    """Sweeps first; for problems that they do not finish, rounds of Newton steps and more sweeps.

    With `swept`, so many sweeps have led to `start` without finishing these problems.
    """
    if barrier.is_direct(problem):
        return _by_barrier(problem, start, tol, max_iterations)
    engine = _engine(problem)
    symmetric = symmetric and compiled_sweeps.is_symmetric(problem)
    if start is None and not _alone(problem, engine) and (parts := _apart(problem)):
        solved = [solve_entropic(problem.take(at), None, tol, max_iterations, symmetric) for at in parts]
        return _joined(parts, solved)
    certified = not _hard(problem) or engine.certifies(problem)
    priced = _hard(problem) and not (engine is compiled_sweeps and certified)
    price = _price(problem) if priced else _no_price(problem.cost.shape[0], problem.cost.device)
    limit = min(_patience(problem, engine), max_iterations)
    if swept and start is not None:
        f, g = start
        taken = torch.full_like(f[:, 0], swept)
        outcome: AnyOutcome = Outcome(f, g, taken, certify(problem, f, g))
    elif symmetric:
        outcome = compiled_sweeps.sweep_symmetric(problem, tol, limit, price)
    else:
        outcome = sweep_or_anneal(problem, engine, start, tol, limit, price)
    leaks = problem.blocked is not None and bool((outcome.plan[problem.blocked] > 0).any())
    if not certified or leaks:  # the compiled sweeps support neither bounds nor blocked pairs
        outcome = Outcome(outcome.f, outcome.g, outcome.taken, certify(problem, outcome.f, outcome.g))
    if not outcome.all_within(tol):
        if barrier.fits(problem):
            _improve(problem, outcome, tol, max_iterations)
        if not outcome.all_within(tol):
            _finish(problem, outcome, engine, tol, max_iterations)
    if problem.closed is not None:
        _add_closed(problem, outcome)
    return outcome


def _patience(problem: Problem, engine: Engine) -> int:
    """Sweeps before something else is tried: before the interior point, about as many as take the same time."""
    if barrier.fits(problem) and engine is compiled_sweeps:
        return _FIRST + _EACH * min(problem.cost.shape[1:])
    return engine.PATIENCE if newton_steps.fits(problem) else _NEVER


def _by_barrier(problem: Problem, start: tuple[Tensor, Tensor] | None, tol: float, limit: int) -> AnyOutcome:
    """The interior point, which cannot use a start that is not a solution."""
    if start is not None:
        f, g = start
        given = Outcome(f, g, torch.zeros_like(f[:, 0]), certify(problem, f, g))
        if given.all_within(tol):
            return given
    outcome = barrier.solve_all(problem, tol, limit)
    if not outcome.all_within(tol):
        _finish(problem, outcome, _engine(problem), tol, limit)
    return outcome


def _improve(problem: Problem, outcome: AnyOutcome, tol: float, max_iterations: int) -> None:
    """Improve by the interior point, in place, the problems that sweeps did not finish."""
    relative, taken = outcome.certificate.relative_gap, outcome.taken
    at = torch.nonzero(~(relative <= tol) & (taken < max_iterations))[:, 0]
    if at.numel() == 0:
        return
    found = barrier.solve_all(problem.take(at), tol, max_iterations - int(taken[at].max()))
    better = found.certificate.relative_gap < relative[at]
    taken[at] += found.taken.to(taken.dtype)
    at = at[better]
    outcome.f[at], outcome.g[at] = found.f[better], found.g[better]
    outcome.certificate.put(at, found.certificate, better)


def _add_closed(problem: Problem, outcome: AnyOutcome) -> None:
    """Add what the closed rows and columns lose, and potentials at which they keep no mass."""
    assert problem.closed is not None
    assert problem.lost is not None
    for total in (outcome.certificate.objective, outcome.certificate.scale):
        total += problem.lost
    outcome.f[problem.closed.rows] = EMPTY * problem.source.tau
    outcome.g[problem.closed.columns] = EMPTY * problem.target.tau


def _hard(problem: Problem) -> bool:
    return problem.source.hard or problem.target.hard


def _finish(problem: Problem, outcome: AnyOutcome, engine: Engine, tol: float, max_iterations: int) -> None:
    """Improve, in place, the problems whose gap is above `tol`, while there is progress."""
    f, g, taken, certificate = outcome.f, outcome.g, outcome.taken, outcome.certificate
    price = _price(problem) if _hard(problem) else torch.zeros_like(certificate.gap)
    sound = torch.isfinite(certificate.objective) & torch.isfinite(certificate.relative_gap)
    failed = torch.nonzero(~sound)[:, 0]
    if failed.numel():  # over-relaxed out of range: start again from larger epsilon
        part = problem.take(failed)
        begun = anneal(part, engine, price[failed])
        f[failed], g[failed] = (0.0, 0.0) if begun is None else begun
        certificate.put(failed, certify(part, f[failed], g[failed]))
    relative = certificate.relative_gap
    stalls = torch.zeros_like(relative, dtype=torch.long)
    steps = not _rate_known(problem)  # if the rate is known, a second run of sweeps mostly suffices, and costs less
    while True:
        index = torch.nonzero(~(relative <= tol) & (taken < max_iterations) & (stalls < policy.STALLS))[:, 0]
        if index.numel() == 0:
            return
        before = relative[index]
        left = max_iterations - int(taken[index].max())
        pushed = _push(problem.take(index), f[index], g[index], tol, left, price[index], engine, steps)
        after = pushed.certificate.relative_gap
        improved = ~(after >= before)
        at = index[improved]
        f[at], g[at] = pushed.f[improved], pushed.g[improved]
        certificate.put(at, pushed.certificate, improved)
        relative[at] = after[improved]
        taken[index] += pushed.taken.to(taken.dtype)
        price[index] *= 10
        stalls[index] += torch.where(after < 0.5 * before, 0, torch.where(before < _ROUNDING, policy.STALLS, 1))
        steps = True


def _push(
    problem: Problem, f: Tensor, g: Tensor, tol: float, left: int, price: Tensor, engine: Engine, steps: bool
) -> Outcome:
    """Newton steps if asked for, then sweeps for those that still need them."""
    f, g = translate(problem, f, g)
    taken = torch.zeros_like(f[:, 0])
    if steps and newton_steps.fits(problem):
        stepped = newton_steps.sweep(problem, (f, g), tol, newton_steps.PATIENCE, price)
        f, g, taken, relative = stepped.f, stepped.g, stepped.taken, stepped.certificate.relative_gap
    else:
        relative = certify(problem, f, g).relative_gap
    left_open = torch.nonzero(~(relative <= tol))[:, 0]
    if left_open.numel():
        part, limit = problem.take(left_open), max(min(4 * engine.PATIENCE, left), 1)
        swept = engine.sweep(part, (f[left_open], g[left_open]), tol, limit, price[left_open])
        taken[left_open] += swept.taken
        f[left_open], g[left_open] = swept.f, swept.g
    return Outcome(f, g, taken, certify(problem, f, g))


def _engine(problem: Problem) -> Engine:
    return next(engine for engine in ENGINES if engine.fits(problem))


def _rate_known(problem: Problem) -> bool:
    kinds = {type(problem.source.divergence), type(problem.target.divergence)}
    return KL in kinds and kinds <= {KL, Balanced}


def _is_kl(problem: Problem) -> bool:
    return isinstance(problem.source.divergence, KL) and isinstance(problem.target.divergence, KL)


def needs_annealing(problem: Problem) -> bool:
    """Whether epsilon is small and no penalty on the marginals limits the potentials."""
    return not _is_kl(problem) and bool((_reach(problem) > 100 * problem.epsilon).any())


def _reach(problem: Problem) -> Tensor:
    """The spread of the costs that can be paid, `(B,)`."""
    cost, blocked = problem.cost, problem.blocked
    if blocked is None and cost.device.type == "cpu":
        return torch.from_numpy(reaches(contiguous(cost.numpy())))
    if blocked is None:
        return cost.amax((-2, -1)) - cost.amin((-2, -1))
    low, high = (
        cost.masked_fill(blocked, torch.inf).amin((-2, -1)),
        cost.masked_fill(blocked, -torch.inf).amax((-2, -1)),
    )
    return (high - low).clamp_min(0)


def _levels(problem: Problem) -> Tensor:
    """How many larger epsilons each problem passes, the largest about a 20th to a 60th of its reach, `(B,)`."""
    steps = torch.log(_reach(problem).double().clamp_min(1e-300)) - math.log(20 * problem.epsilon)
    return torch.floor(steps / math.log(3)).clamp_min(0).long()


def anneal(problem: Problem, engine: Engine, price: Tensor) -> tuple[Tensor, Tensor] | None:
    """Potentials of the problems at epsilon 3^k, k = ..., 2, 1, each the start of the next."""
    levels = _levels(problem)
    if not bool(levels.any()):
        return None
    (batch, n, m), like = problem.cost.shape, problem.a
    f, g = like.new_zeros(batch, n), like.new_zeros(batch, m)
    for level in range(int(levels.max()), 0, -1):
        at = torch.nonzero(levels >= level)[:, 0]
        part = problem.take(at)
        times = 3.0 ** min(level, _POWERS) * part.epsilon * 3.0 ** max(level - _POWERS, 0)
        larger = replace(part, epsilon=times)
        outcome = engine.sweep(larger, (f[at], g[at]), 1e-3, 60, price[at], False)
        f[at], g[at] = translate(part, outcome.f, outcome.g)
    return f, g


def sweep_or_anneal(
    problem: Problem, engine: Engine, start: tuple[Tensor, Tensor] | None, tol: float, limit: int, price: Tensor
) -> AnyOutcome:
    """Sweeps from `start`, or from potentials at larger epsilons where there is none and they are needed."""
    if start is not None or not _alone(problem, engine):
        if start is None and needs_annealing(problem):
            start = anneal(problem, engine, price)
        return engine.sweep(problem, start, tol, limit, price)
    # these sweeps decide themselves where to anneal: reading the costs beforehand takes half as long as a sweep
    outcome = compiled_sweeps.sweep(problem, None, tol, limit, price)
    far = outcome.out[:, ITERATIONS] < 0
    if not far.any():
        return outcome
    at = torch.from_numpy(far).nonzero()[:, 0]
    part = problem.take(at)
    begun = anneal(part, engine, price[at])
    f, g = begun or (price.new_zeros(len(at), size) for size in part.cost.shape[1:])
    finished = compiled_sweeps.sweep(part, (f, g), tol, limit, price[at])
    if far.all():
        return finished
    outcome.put(far, finished)
    return outcome


def _alone(problem: Problem, engine: Engine) -> bool:
    """Whether the sweeps decide for each problem by itself how it begins."""
    return engine is compiled_sweeps and compiled_sweeps.is_balanced(problem)


def _apart(problem: Problem) -> list[Tensor]:
    """Where to anneal and where not, if a batch holds both: each problem is treated as it would be alone."""
    if len(problem.cost) == 1 or _is_kl(problem):
        return []
    far = _reach(problem) > 100 * problem.epsilon
    return [torch.nonzero(where)[:, 0] for where in (far, ~far)] if bool(far.any()) and not bool(far.all()) else []


def _joined(parts: list[Tensor], outcomes: list[AnyOutcome]) -> Outcome:
    """The outcomes of the problems at `parts`, as one."""
    order = torch.argsort(torch.cat(parts))

    def join(tensors: list[Tensor]) -> Tensor:
        return torch.cat(tensors)[order]

    f, g, taken = (join([getattr(x, name) for x in outcomes]) for name in ("f", "g", "taken"))
    names = Certificate.__dataclass_fields__
    return Outcome(f, g, taken, Certificate(*(join([getattr(x.certificate, k) for x in outcomes]) for k in names)))


def _price(problem: Problem) -> Tensor:
    """A first guess of what rounding a unit of violated constraint costs: the average cost under R."""
    weights = problem.a[:, :, None] * problem.b[:, None, :]
    if problem.blocked is not None:
        weights = weights.masked_fill(problem.blocked, 0.0)
    total = (problem.cost.abs() * weights).sum((-2, -1)) / weights.sum((-2, -1)).clamp_min(1e-300)
    return total.double() + problem.epsilon


@lru_cache(maxsize=64)
def _no_price(batch: int, device: torch.device) -> Tensor:
    return torch.zeros(batch, dtype=torch.float64, device=device)
