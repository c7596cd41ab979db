"""`jumbot.solve`: any problem, any engine, from any start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

import jumbot

from .. import draw, opinions
from ..case import Case, random_case
from ..draw import Generator, chance
from ..engines import ENGINES, engine
from ..entropies import Extended
from ..judge import CLOSE, Answer, against, judge
from ..read import read
from ..report import Report
from ..watch import Refused, Watch


def any_problem(rng: Generator, watch: Watch, report: Report) -> None:
    case = random_case(rng)
    name, threads = str(rng.choice(ENGINES, p=[0.8, 0.1, 0.1])), int(rng.choice([1, 1, 1, 2, 4]))
    with engine(name, threads):
        judged(rng, watch, report, case, f"{name} engine, {threads} threads")


def judged(rng: Generator, watch: Watch, report: Report, case: Case, how: str) -> None:
    """Solve the case, judge every answer, solve another, and see that the first has not changed."""
    report.label, report.problems = f"{case.label}, {how}", len(case.problems)
    must_refuse = any(map(draw.unbounded, case.problems))
    may_refuse = must_refuse or any(map(draw.overflows, case.problems))
    if not may_refuse:
        case = _with_start(rng, watch, case)
        report.label = f"{case.label}, {how}"
    try:
        solution, warned = watch(jumbot.solve, **case.arguments)
    except Refused as refusal:
        report.refused = 1
        report.faults += [] if may_refuse else [f"refused, but within the contract: {refusal}"]
        return
    if must_refuse:
        report.faults.append("not refused, but ever more mass pays")
        return
    answers, report.faults = read(solution, case)
    report.converged = sum(answer.converged for answer in answers)
    if warned == (report.converged == len(answers)):
        report.faults.append(f"warned: {warned}, converged: {report.converged} of {len(answers)}")
    proofs = _proofs(watch, case)
    for k, (problem, answer) in enumerate(zip(case.problems, answers, strict=True)):
        report.faults += [f"[{k}] {fault}" for fault in judge(problem, answer, proofs[k])]
    if not report.faults:
        report.faults += _other_opinions(rng, case, answers)
        report.faults += _aliasing(rng, watch, case, solution)


def _with_start(rng: Generator, watch: Watch, case: Case) -> Case:
    """Sometimes from the answer to a similar problem, sometimes from potentials that lead astray."""
    arguments = case.arguments
    if not chance(rng, 0.2):
        return case
    if chance(rng, 0.5):
        init, _ = watch(jumbot.solve, **arguments | {"epsilon": 3 * arguments["epsilon"]})
    else:
        size = draw.power_of_ten(rng, -3, 3) * np.abs(case.problems[0].cost[case.problems[0].free]).max(initial=0)
        init = tuple((size * rng.normal(size=k)).astype(case.dtype) for k in case.shape[-2:])
        if chance(rng, 0.2):
            init[0][0] = rng.choice([np.inf, -np.inf])
        if case.library == "torch":
            init = tuple(map(torch.from_numpy, init))
    return replace(case, arguments=arguments | {"init": init})


def _proofs(watch: Watch, case: Case) -> list[Any]:
    """float32 potentials are too coarse to prove much, so the same numbers in float64 do."""
    if case.dtype is np.float64:
        return [None] * len(case.problems)
    proofs = []
    for p in case.problems:
        twin, _ = watch(jumbot.solve, p.cost, p.a, p.b, **p.settings)
        proofs.append(twin.potentials)
    return proofs


def _other_opinions(rng: Generator, case: Case, answers: list[Answer]) -> list[str]:
    k = int(rng.integers(len(answers)))
    problem, answer = case.problems[k], answers[k]
    if case.wild or not answer.converged:
        return []
    scale = float(problem.scale(answer.plan.astype(Extended)))
    faults = []
    if chance(rng, 0.3):
        opinion = opinions.second(problem)
        faults += against(opinion[1], answer, scale, opinion[0]) if opinion else []
    if chance(rng, 0.1):
        plan = opinions.pot(problem)
        better = np.inf if plan is None else float(problem.primal(plan.astype(Extended)))
        room = (CLOSE + answer.tol) * scale + 4 * answer.unit * abs(answer.value)
        faults += [f"value {answer.value:.9g}, but POT's plan has {better:.9g}"] if better < answer.value - room else []
    return faults


def _aliasing(rng: Generator, watch: Watch, case: Case, solution: Any) -> list[str]:
    """Another answer of the same shape must not change this one."""
    if not chance(rng, 0.2):
        return []
    arrays = solution.plan, *solution.potentials, *solution.marginals
    held = [x.numpy() if case.library == "torch" else x for x in arrays]
    before = [x.copy() for x in held]
    shifted = case.arguments["cost"] * 0.5
    watch(jumbot.solve, **case.arguments | {"cost": shifted})
    return (
        []
        if all(np.array_equal(x, y, equal_nan=True) for x, y in zip(before, held, strict=True))
        else ["the next call changed it"]
    )
