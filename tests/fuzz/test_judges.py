"""The judges themselves: a right answer passes, and each defect that is planted is found."""

import dataclasses
import math
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import jumbot

from .campaign import campaign, run_case
from .case import Case
from .entropies import Extended, entropy
from .families import FAMILIES
from .judge import Answer, judge
from .opinions import clarabel, highs
from .problem import Problem
from .read import SCALARS, read
from .watch import Fault, Refused, Watch

pytestmark = pytest.mark.slow  # they judge the campaign, which is not part of the quick run either

COST = np.array([[0.0, 1.0, 2.0, 0.3], [1.5, 0.2, 0.7, np.inf], [0.4, 1.1, 0.1, 0.9]])
A, B = np.array([0.5, 0.3, 0.4]), np.array([0.2, 0.4, 0.1, 0.3])
FINITE = np.where(np.isfinite(COST), COST, 3.0)
SETTINGS = {
    "kl": {"tau": 0.7},
    "ones": {"tau": 0.7, "reference": "ones"},
    "tv": {"divergence": "tv", "tau": 0.4},
    "chi2": {"divergence": "chi2", "tau": 0.6},
    "power": {"divergence": "power(0.5)", "tau": 0.6},
    "one side": {"tau": (math.inf, 0.5)},
    "exact kl": {"epsilon": 0.0, "tau": 0.7},
    "exact tv": {"epsilon": 0.0, "divergence": "tv", "tau": 0.4},
    "balanced": {"cost": FINITE, "a": A / A.sum(), "b": B / B.sum()},
    "range": {"cost": FINITE, "divergence": "range(0.5,2)"},
    "partial": {"cost": FINITE, "mass": 0.6},
    "exact partial": {"cost": FINITE, "mass": 0.6, "epsilon": 0.0},
}
SOFT = ["kl", "ones", "tv", "chi2", "power", "exact kl", "exact tv"]


def posed(name: str) -> tuple[Problem, Answer]:
    problem = Problem(**{"cost": COST, "a": A, "b": B, "epsilon": 0.1, **SETTINGS[name]})
    solution = jumbot.solve(problem.cost, problem.a, problem.b, **problem.settings)
    case = Case({"cost": problem.cost}, [problem], (), np.float64, "numpy", False)
    (answer,), wrong = read(solution, case)
    assert not wrong
    return problem, answer


@pytest.mark.parametrize("name", SETTINGS)
def test_right_answers_pass(name):
    problem, answer = posed(name)
    assert answer.converged
    assert judge(problem, answer) == []


def test_a_range_without_end_takes_mass_where_there_is_no_weight():
    """phi grows by nothing at infinity, so that p > 0 = a costs nothing."""
    b = B * np.array([1, 1, 0, 1])
    problem = Problem(FINITE, A, b, epsilon=0.1, divergence="range(0.5,inf)", reference="ones")
    assert problem.free.all()
    assert not problem.but(divergence="range(0.5,2)").free[:, 2].any()


@pytest.mark.parametrize("name", SETTINGS)
def test_other_solvers_agree_with_the_recomputed_primal(name):
    problem, answer = posed(name)
    linear = name in ("exact partial",)
    who, value = (highs if linear else clarabel)(problem)
    assert value == pytest.approx(float(problem.primal(answer.plan.astype(Extended))), rel=1e-5), who


def scaled(answer, factor=1.01):
    return dataclasses.replace(
        answer,
        plan=answer.plan * factor,
        rows=answer.rows * factor,
        columns=answer.columns * factor,
        mass=answer.mass * factor,
        linear=answer.linear * factor,
    )


def with_entry(answer, at, mass):
    plan = answer.plan.copy()
    plan[at] = mass
    return dataclasses.replace(answer, plan=plan, rows=plan.sum(1), columns=plan.sum(0), mass=plan.sum())


DEFECTS = {
    "plan scaled": scaled,
    "value shifted": lambda s: dataclasses.replace(s, value=s.value * (1 + 1e-3), dual=s.value * (1 + 1e-3) - s.gap),
    "value of another plan": lambda s: dataclasses.replace(s, value=s.value - 1e-3, dual=s.value - 1e-3 - s.gap),
    "linear shifted": lambda s: dataclasses.replace(s, linear=s.linear + 1e-3),
    "negative mass": lambda s: with_entry(s, (0, 2), -1e-9),
    "mass in a wrong place": lambda s: with_entry(s, (0, 2), 0.01),
    "NaN": lambda s: with_entry(s, (0, 0), np.nan),
    "potentials off": lambda s: dataclasses.replace(s, f=s.f + np.array([0.1, 0.0, 0.0])),
    "potentials of nothing": lambda s: dataclasses.replace(s, f=np.zeros_like(s.f), g=np.zeros_like(s.g)),
    "dual above the value": lambda s: dataclasses.replace(s, dual=s.value + 1e-2, gap=-1e-2),
    "marginals of another plan": lambda s: dataclasses.replace(s, rows=s.rows[::-1]),
    "mass of another plan": lambda s: dataclasses.replace(s, mass=s.mass * 1.01),
    "relative gap of nothing": lambda s: dataclasses.replace(s, relative_gap=0.5),
    "two stories": lambda s: dataclasses.replace(s, status="FAILED"),
}


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_planted_defects_are_found(name, defect):
    problem, answer = posed(name)
    assert judge(problem, DEFECTS[defect](answer))


@pytest.mark.parametrize("name", SOFT)
def test_mass_on_a_forbidden_pair_is_found(name):
    problem, answer = posed(name)
    assert any("forbidden" in fault for fault in judge(problem, with_entry(answer, (1, 3), 1e-12)))


@pytest.mark.parametrize("name", ["one side", "balanced", "range", "partial", "exact partial"])
def test_a_constraint_that_is_missed_is_found(name):
    problem, answer = posed(name)
    assert any("constraint missed" in fault for fault in judge(problem, scaled(answer, 1.5)))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_lying_status_is_found(name):
    """Honest numbers of a plan that is far from optimal, called converged, with the gap made small."""
    problem, answer = posed(name)
    plan = problem.gibbs(np.zeros(3), np.zeros(4)) if problem.epsilon else np.where(problem.free, 0.1, 0.0)
    plan = plan.astype(np.float64)
    if any(side.hard for side in problem.sides):
        plan = np.outer(problem.a, problem.b) / problem.b.sum()
        plan = plan * (problem.mass / plan.sum() if problem.mass else 1.0)
        if name == "one side":
            plan[1, 3] = 0
            plan *= (problem.a / plan.sum(1))[:, None]
    honest = problem.primal(plan.astype(Extended))
    changed = dataclasses.replace(
        answer,
        plan=plan,
        rows=plan.sum(1),
        columns=plan.sum(0),
        mass=plan.sum(),
        value=float(honest),
        linear=float(problem.linear(plan)),
        gap=0.0,
        relative_gap=0.0,
        dual=float(honest),
    )
    assert any("CONVERGED" in fault or "potentials" in fault for fault in judge(problem, changed))


def planted(monkeypatch, **changes):
    """`jumbot.solve` with some of what it returns replaced by a function of it."""
    solve = jumbot.solve
    names = [*SCALARS, "plan", "marginals", "potentials", "status", "converged"]

    def faulty(*args, **options):
        solution = solve(*args, **options)
        changed = {name: getattr(solution, name) for name in names}
        return SimpleNamespace(**changed | {name: change(changed[name]) for name, change in changes.items()})

    monkeypatch.setattr(jumbot, "solve", faulty)


def found(family, cases=40):
    """Whether one of the first cases fails."""
    return any(run_case(5, number, family)[1].faults for number in range(cases))


def test_the_campaign_finds_what_is_planted_in_solve(monkeypatch):
    planted(monkeypatch, value=lambda value: value * 1.001)
    assert found("solve", 10)


def test_the_campaign_finds_a_plan_that_the_next_call_overwrites(monkeypatch):
    memory = {}

    def reuse(plan):
        shared = memory.setdefault((tuple(plan.shape), str(plan.dtype)), plan)
        shared[...] = plan
        return shared

    planted(monkeypatch, plan=reuse)
    monkeypatch.setattr("tests.fuzz.families.solving.chance", lambda rng, p: True)
    assert found("solve")


@pytest.mark.slow
def test_the_campaign_finds_what_is_planted_in_the_divergence(monkeypatch):
    right = jumbot.sinkhorn_divergence
    monkeypatch.setattr(jumbot, "sinkhorn_divergence", lambda *a, **k: right(*a, **k) * 1.001)
    assert found("divergence", 6)

    class Longer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 1.01

    def steep(x, *args, **options):
        return right(Longer.apply(x) if isinstance(x, torch.Tensor) else x, *args, **options)

    monkeypatch.setattr(jumbot, "sinkhorn_divergence", steep)
    assert found("divergence", 6)


@pytest.mark.slow
def test_the_campaign_finds_what_is_planted_in_estimates_and_flows(monkeypatch):
    estimate, flow = jumbot.estimate, jumbot.gradient_flow

    def high(*args, **options):
        right = estimate(*args, **options)
        return SimpleNamespace(value=right.value * 1.001, values=right.values, plan=right.plan)

    monkeypatch.setattr(jumbot, "estimate", high)
    assert found("estimate", 3)

    def fast(x, *args, learning_rate, **options):
        return flow(x, *args, learning_rate=learning_rate * 1.01, **options)

    monkeypatch.setattr(jumbot, "gradient_flow", fast)
    assert found("flow", 4)


def test_the_campaign_finds_bad_input_that_is_accepted(monkeypatch):
    monkeypatch.setattr(jumbot, "solve", lambda *args, **options: None)
    assert all(run_case(5, number, "refusals")[1].faults for number in range(5))


def test_the_watch_finds_slow_calls_writes_warnings_and_foreign_exceptions(monkeypatch):
    def raising(error):
        def call(*args):
            raise error

        return call

    def writing(x):
        x[0] += 1

    watch = Watch()
    with pytest.raises(Fault, match="ZeroDivisionError is not ours"):
        watch(raising(ZeroDivisionError("1/0")))
    with pytest.raises(Refused, match="bad"):
        watch(raising(jumbot.ArgumentError("bad")))
    watch(writing, np.zeros(3))
    watch(lambda: warnings.warn("strange", RuntimeWarning, stacklevel=1))
    assert watch.faults == ["an input was written to", "RuntimeWarning: strange"]
    assert watch(lambda: warnings.warn("short", jumbot.NotConvergedWarning, stacklevel=1)) == (None, True)
    monkeypatch.setattr("tests.fuzz.watch.LONGEST", 0.01)
    watch(lambda: sum(range(3_000_000)))
    assert "took" in watch.faults[-1]
    monkeypatch.setattr("tests.fuzz.watch._GIVEN_UP", 0.05)
    with pytest.raises(Fault, match="more than"):
        watch(time.sleep, 10)


def test_the_watch_looks_at_large_arrays_of_any_kind():
    """Complex ones too, whose sum is no float: a large case of the family of refusals broke down on it."""

    def write(x):
        x[0, 0] += 1

    for kind in (np.complex64, np.float64):
        watch = Watch()
        watch(lambda x: x, np.ones((300, 300), dtype=kind))
        assert not watch.faults
        watch(write, np.ones((300, 300), dtype=kind))
        assert watch.faults == ["an input was written to"]


def test_a_case_depends_on_its_number_alone(monkeypatch):
    labels = [run_case(3, number, "refusals")[1].label for number in (4, 5, 4)]
    assert labels[0] == labels[2] != labels[1]

    def faulty(rng, watch, report):
        report.faults.append("as planted")

    monkeypatch.setitem(FAMILIES, "solve", (faulty, 1.0))
    reports = []
    tally = campaign(11, cases=2, first=40, family="solve", say=reports.append)
    assert [line.partition(" -m ")[2] for line in tally.failures] == [
        f"tests.fuzz --seed 11 --case {number} --family solve" for number in (40, 41)
    ]
    assert "as planted" in reports[0]


@pytest.mark.parametrize("name", ["kl", "tv", "chi2", "range(0.5,2)", "power(0.5)", "power(-1)", "power(3)"])
def test_conjugates_are_suprema(name):
    phi = entropy(name)
    x = np.concatenate([np.geomspace(1e-6, 1e-2, 2000), np.linspace(0.01, 60, 400_001)])
    values = phi.phi(x)
    for s in (-3.0, -2.0, -0.7, 0.0, 0.2, 0.45):
        assert float(phi.conjugate(np.array(s))) == pytest.approx((s * x - values).max(), abs=2e-3)
