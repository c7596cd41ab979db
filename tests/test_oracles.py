"""The oracles against each other, so that a test that fails points at the package."""

import numpy as np
import pytest
from scipy.optimize import minimize

from .generators import diracs, posed
from .oracles import ENTROPIES, HIGH, LOW, RANGE, SETTINGS


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_model_is_the_objective(setting, reference, rng):
    """The convex solver's value is the formula at its plan, and no dual value exceeds it."""
    problem = posed(rng, 3, 4, epsilon=0.2, reference=reference, **SETTINGS[setting])
    value, plan = problem.truth()
    soft = problem.but(tau=1.0, divergence="kl", mass=None)  # all but the hard constraints, which the solver bends
    if setting in ("range", "balanced", "partial"):
        assert soft.objective(plan) - sum(soft.penalties(plan)) == pytest.approx(value, rel=1e-6)
    elif "exact" not in setting:
        assert problem.objective(plan) == pytest.approx(value, rel=1e-6)
    for _ in range(20):
        assert problem.dual(*(rng.normal(size=k) * 0.3 for k in problem.cost.shape)) <= value + 1e-8


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("setting", [name for name in SETTINGS if not name.startswith("tv")])
def test_dual_meets_the_primal(setting, reference, rng):
    """Maximising the dual formula by brute force gives the convex solver's minimum."""
    problem = posed(rng, 2, 3, epsilon=0.3, reference=reference, **SETTINGS[setting])
    found = minimize(
        lambda z: -problem.dual(z[:2], z[2:]),
        np.zeros(5),
        method="Powell",
        options={"xtol": 1e-10, "ftol": 1e-15, "maxiter": 10_000},
    )
    found = minimize(
        lambda z: -problem.dual(z[:2], z[2:]),
        found.x,
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000},
    )
    assert -found.fun == pytest.approx(problem.truth()[0], abs=1e-5)


@pytest.mark.parametrize("reference", ["product", "ones"])
@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in ("balanced", "partial")])
def test_scalar_equation(setting, reference):
    problem = diracs(0.3, (0.9, 1.05), epsilon=0.2, reference=reference, **SETTINGS[setting])
    assert problem.scalar_plan() == pytest.approx(problem.truth()[1].item(), rel=1e-5)


@pytest.mark.parametrize("name", ENTROPIES)
def test_conjugates(name):
    x = np.linspace(0, 60, 600_001)
    phi = ENTROPIES[name].phi(x)
    for s in (-3.0, -2.0, -1.0, -0.3, 0.0, 0.2, 0.9, 1.0):
        assert ENTROPIES[name].conjugate(np.array(s)) == pytest.approx((s * x - phi).max(), abs=1e-6)
    low, high, step = (LOW, HIGH, 1e-7) if name == RANGE else (0.05, 50, 1e-6)
    for point in np.linspace(low, high, 200)[1:-1]:
        difference = (ENTROPIES[name].phi(point + step) - ENTROPIES[name].phi(point - step)) / (2 * step)
        assert ENTROPIES[name].slope(point) == pytest.approx(difference, abs=1e-4)
