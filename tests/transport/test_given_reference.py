"""A reference matrix of one's own, beside POT, closed forms and the two named ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import ot
import pytest
import torch

import jumbot
from tests.refusals import refused

RNG = np.random.default_rng(0)
N, M = 6, 8
COST, A, B = RNG.random((N, M)), RNG.random(N) + 0.2, RNG.random(M) + 0.2
R = RNG.random((N, M)) + 0.05
SETTINGS: dict[str, dict[str, Any]] = {
    "kl": {"tau": 0.7},
    "two taus": {"tau": (0.7, 3.0)},
    "one exact": {"tau": (0.7, math.inf)},
    "tv": {"tau": 0.4, "divergence": "tv"},
    "chi2": {"tau": 0.4, "divergence": "chi2"},
    "partial": {"mass": 0.8},
    "balanced": {},
}


def weights(name: str) -> tuple[np.ndarray, np.ndarray]:
    return (A / A.sum(), B / B.sum()) if name == "balanced" else (A, B)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("named", ["product", "ones"])
def test_the_named_ones_as_matrices(name: str, named: str) -> None:
    a, b = weights(name)
    matrix = np.outer(a, b) if named == "product" else np.ones((N, M))
    settings = {"epsilon": 0.1, "tol": 1e-11, **SETTINGS[name]}
    one, other = (jumbot.solve(COST, a, b, reference=each, **settings) for each in (named, matrix))
    for field in ("value", "linear", "dual", "plan", "mass"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-5, atol=1e-8)
    assert other.converged


@pytest.mark.parametrize("name", SETTINGS)
def test_the_value_is_the_objective_and_no_plan_is_better(name: str) -> None:
    a, b = weights(name)
    settings = {"epsilon": 0.1, "tol": 1e-11, **SETTINGS[name]}
    solution = jumbot.solve(COST, a, b, reference=R, **settings)
    P = solution.plan
    entropy = (P * np.log(P / R) - P + R).sum()
    taus = settings.get("tau", math.inf)
    taus = taus if isinstance(taus, tuple) else (taus, taus)
    penalty = 0.0
    for tau, p, w in zip(taus, (P.sum(1), P.sum(0)), (a, b), strict=True):
        if math.isfinite(tau):
            x = p / w
            phi = {"kl": x * np.log(x) - x + 1, "tv": abs(x - 1), "chi2": (x - 1) ** 2}
            penalty += tau * (w * phi[settings.get("divergence", "kl")]).sum()
    np.testing.assert_allclose(solution.linear, (COST * P).sum(), rtol=1e-9)
    np.testing.assert_allclose(solution.value, (COST * P).sum() + 0.1 * entropy + penalty, rtol=1e-7)
    assert solution.converged
    f, g = solution.potentials
    if name in ("kl", "two taus", "tv", "chi2"):
        np.testing.assert_allclose(P, R * np.exp((f[:, None] + g - COST) / 0.1), rtol=1e-6)


def test_against_pot() -> None:
    plan = ot.unbalanced.sinkhorn_unbalanced(A, B, COST, 0.1, 0.7, reg_type="kl", c=R, stopThr=1e-14, numItermax=10**5)
    solution = jumbot.solve(COST, A, B, epsilon=0.1, tau=0.7, reference=R, tol=1e-12)
    np.testing.assert_allclose(solution.plan, plan, rtol=1e-5, atol=1e-9)


def test_zeros_are_never_matched() -> None:
    holes = np.where(RNG.random((N, M)) < 0.3, 0.0, R)
    solution = jumbot.solve(COST, A, B, epsilon=0.1, tau=0.7, reference=holes, tol=1e-11)
    assert (solution.plan[holes == 0] == 0).all()
    assert solution.converged
    tiny = jumbot.solve(COST, A, B, epsilon=0.1, tau=0.7, reference=np.where(holes > 0, holes, 1e-30), tol=1e-11)
    np.testing.assert_allclose(solution.value, tiny.value, rtol=1e-7)
    with refused(r"cost|reference"):
        jumbot.solve(COST, A / A.sum(), B / B.sum(), epsilon=0.1, reference=holes)


def test_gradients() -> None:
    def total(cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, field: str) -> torch.Tensor:
        solution = jumbot.solve(cost, a, b, epsilon=0.1, tau=0.7, reference=torch.from_numpy(R), tol=1e-13)
        return getattr(solution, field)

    for field in ("value", "linear"):
        inputs = [torch.from_numpy(x).clone().requires_grad_() for x in (COST, A, B)]
        total(*inputs, field).backward()
        for k in (0, 1, 2) if field == "value" else (1, 2):
            direction = torch.randn(inputs[k].shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
            ends = []
            for step in (1e-5, -1e-5):
                moved = [x.detach() for x in inputs]
                moved[k] = moved[k] + step * direction
                ends.append(total(*moved, field))
            slope = float((inputs[k].grad * direction).sum())
            assert slope == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_batches_and_float32() -> None:
    costs = np.stack([COST, 2 * COST]).astype(np.float32)
    solution = jumbot.solve(costs, epsilon=0.1, tau=0.7, reference=R.astype(np.float32))
    for k in (0, 1):
        single = jumbot.solve(costs[k], epsilon=0.1, tau=0.7, reference=R.astype(np.float32))
        np.testing.assert_allclose(solution.plan[k], single.plan, rtol=1e-4)
    assert solution.plan.dtype == np.float32


@pytest.mark.parametrize(
    ("reference", "epsilon"),
    [
        (R[:3], 0.1),
        (-R, 0.1),
        (R * math.nan, 0.1),
        (0 * R, 0.1),
        (R, 0.0),
        (R[0], 0.1),
        (2.0, 0.1),
        (3.0 * torch.ones(N, M), 0.1),
    ],
    ids=["shape", "negative", "nan", "zero", "epsilon", "row", "number", "torch"],
)
def test_what_is_refused(reference: Any, epsilon: float) -> None:
    with refused(r"^reference"):
        jumbot.solve(COST, A, B, epsilon=epsilon, tau=0.7, reference=reference)


def test_gradients_in_it_are_refused() -> None:
    with pytest.raises(jumbot.UnsupportedError, match=r"^reference"):
        jumbot.solve(torch.ones(2, 2), epsilon=0.1, reference=torch.ones(2, 2, requires_grad=True))


def test_estimates_take_the_named_ones() -> None:
    with refused(r"^reference"):
        jumbot.estimate(np.ones((9, 2)), np.ones((9, 2)), m=3, k=2, epsilon=0.1, reference=np.ones((3, 3)))  # type: ignore[arg-type]
