"""One test case that every divergence passes, the user's own included."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

import jumbot
from jumbot.transport._kernels import sides
from jumbot.transport.divergences import REGISTRY, parse

from ..generators import rectangular
from ..oracles import ENTROPIES, RANGE


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


class DivergenceCase:
    """What makes phi an entropy function. A subclass gives `make` and passes all of it."""

    def make(self):
        raise NotImplementedError

    @pytest.fixture
    def phi(self):
        return self.make()

    def grid(self, phi, count=4001):
        """Points of [0, 50] where phi is finite, 1 and both ends of its domain among them."""
        inside = np.concatenate([np.linspace(0, 3, count), np.geomspace(3, 50, count), [1.0, phi.lower]])
        inside = np.unique(np.clip(inside, phi.lower, min(phi.upper, 50.0)))
        return inside[np.isfinite(phi.phi(torch.tensor(inside)).numpy())]

    def slopes(self, phi):
        """Slopes whose maximiser lies within the grid."""
        x = self.grid(phi)
        below = [-5.0, -2.0, -1.0, -0.3]
        above = [s for s in (0.0, 0.2, 0.5, 0.9, 1.5) if s < phi.recession]
        return np.array(
            [
                s
                for s in below + above
                if np.argmax(s * x - phi.phi(torch.tensor(x)).numpy()) < len(x) - 1 or phi.upper <= 50
            ]
        )

    def test_zero_at_one_and_nowhere_less(self, phi):
        values = phi.phi(torch.tensor(self.grid(phi)))
        assert phi.phi(doubles(1.0)).item() == pytest.approx(0, abs=1e-15)
        assert values.min() >= -1e-14

    def test_convex(self, phi):
        x = torch.tensor(self.grid(phi))
        generator = torch.Generator().manual_seed(0)
        i, j = torch.randint(len(x), (2, 2000), generator=generator)
        t = torch.rand(2000, generator=generator, dtype=torch.float64)
        chord = t * phi.phi(x[i]) + (1 - t) * phi.phi(x[j])
        assert (phi.phi((t * x[i] + (1 - t) * x[j]).clamp(phi.lower, phi.upper)) <= chord + 1e-10 * (1 + chord)).all()

    def test_outside_the_domain_is_infinite(self, phi):
        if phi.lower > 0:
            assert phi.phi(doubles(0.9 * phi.lower)).item() == math.inf
        if phi.upper < math.inf:
            assert phi.phi(doubles(1.1 * phi.upper)).item() == math.inf

    def test_recession_is_the_limit(self, phi):
        if phi.upper < math.inf:
            assert phi.recession == math.inf
            return
        near, far = (phi.phi(doubles(x)).item() / x for x in (1e8, 1e16))
        if math.isinf(phi.recession):
            assert far > near + 1
        else:
            assert far == pytest.approx(phi.recession, rel=1e-4)

    def test_conjugate_is_the_supremum(self, phi):
        x = self.grid(phi, 40001)
        values = phi.phi(torch.tensor(x)).numpy()
        for s in self.slopes(phi):
            assert phi.conjugate(doubles(s)).item() == pytest.approx((s * x - values).max(), abs=1e-5), s

    def test_conjugate_is_infinite_above_the_recession(self, phi):
        if math.isfinite(phi.recession):
            assert phi.conjugate(doubles(phi.recession + 1e-3, phi.recession + 1)).isposinf().all()

    def test_conjugate_gradient_is_its_slope(self, phi):
        """Between the one-sided differences, which differ at a kink."""
        step = 1e-6
        for s in self.slopes(phi):
            before, at, after = (phi.conjugate(doubles(s + t * step)).item() for t in (-1, 0, 1))
            slope = phi.conjugate_gradient(doubles(s)).item()
            if math.isfinite(after):
                assert (at - before) / step - 1e-4 <= slope <= (after - at) / step + 1e-4, s

    def test_fenchel_young(self, phi):
        """phi(x) + phi*(s) - s x, which is >= 0 and vanishes at x = phi*'(s)."""
        x = torch.tensor(self.grid(phi, 41))
        for s in self.slopes(phi):
            s = torch.full_like(x, s)
            found = phi.fenchel_young(x, s)
            torch.testing.assert_close(found, phi.phi(x) + phi.conjugate(s) - s * x, rtol=1e-9, atol=1e-10)
            assert (found >= 0).all()
            best = phi.conjugate_gradient(s).clamp(phi.lower, phi.upper)
            if bool(best.isfinite().all()):
                torch.testing.assert_close(phi.fenchel_young(best, s), torch.zeros_like(s), rtol=0, atol=1e-9)

    @pytest.mark.parametrize("tau", [0.1, 1.0, 30.0])
    @pytest.mark.parametrize("epsilon", [0.05, 1.0])
    def test_step_is_optimal(self, phi, tau, epsilon):
        """max_h -tau phi*(-h/tau) - epsilon e^{(h-f)/epsilon}, by brute force on values."""
        tau = 1.0 if phi.lower > 0 or phi.upper < math.inf else tau  # tau plays no part in a constraint
        for f in (-3.0, -0.4, 0.0, 0.25, 2.0):

            def loss(h, f=f):
                conjugate = phi.conjugate(doubles(-h / tau)).item()
                return tau * conjugate + epsilon * math.exp(min((h - f) / epsilon, 500))

            step = phi.step(doubles(f), tau, epsilon).item()
            low = max(-tau * phi.recession, min(step, f, 0.0) - 5)
            best = minimize_scalar(
                loss, bounds=(low, max(step, f, 0.0) + 5), method="bounded", options={"xatol": 1e-10}
            )
            scale = 1 + abs(best.fun)
            assert loss(step) <= best.fun + 1e-8 * scale, f

    def test_step_far_away_stays_finite(self, phi):
        """Soft minima of 1e5 epsilon, either way: no overflow on the way to the root."""
        tau = 1.0
        steps = phi.step(doubles(-1e4, 1e4), tau, 0.1)
        assert steps.isfinite().all()
        assert steps[0] <= steps[1]

    def test_solves(self, phi, rng):
        """The value is the objective at the plan, penalties by `phi` itself."""
        hard = phi.lower > 0 or phi.upper < math.inf
        problem = rectangular(rng, 6, 5, epsilon=0.1, divergence=phi, tau=math.inf if hard else 0.5)
        solution = problem.solve()
        assert solution.converged
        plan, expected = solution.plan, problem.linear(solution.plan)
        expected += 0.1 * (plan * np.log(plan / problem.R) - plan + problem.R).sum()
        for marginal, w in zip(solution.marginals, (problem.a, problem.b), strict=True):
            ratio = torch.tensor(marginal / w)
            if hard:
                assert phi.lower - 1e-9 <= ratio.min() <= ratio.max() <= phi.upper + 1e-9
            else:
                expected += 0.5 * (w * phi.phi(ratio).numpy()).sum()
        assert solution.value == pytest.approx(expected, rel=1e-9)


NAMED = [
    "kl",
    "tv",
    "chi2",
    "balanced",
    RANGE,
    "range(0,1)",
    "range(0.5,1)",
    "power(0.5)",
    "power(2)",
    "power(1.5)",
    "power(-1)",
]


@pytest.mark.parametrize("name", NAMED)
class TestNamed(DivergenceCase):
    @pytest.fixture
    def phi(self, name):
        return parse(name)


def test_every_registered_name_is_tested():
    named = {name.partition("(")[0] for name in NAMED}
    assert named == set(REGISTRY) - {"l2"}  # which is no function of p/a (`test_l2.py`)


@pytest.mark.parametrize("name", ENTROPIES)
def test_named_is_the_formula(name):
    phi, entropy = parse(name), ENTROPIES[name]
    x, s = np.linspace(0, 4, 101), np.linspace(-4, 0.95, 101)
    np.testing.assert_allclose(phi.phi(torch.tensor(x)), entropy.phi(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(phi.conjugate(torch.tensor(s)), entropy.conjugate(s), rtol=1e-12, atol=1e-14)
    assert phi.recession == pytest.approx(entropy.recession)


class Hellinger(jumbot.Divergence):
    """2 (sqrt x - 1)^2, written as a user would: no step, no conjugate gradient."""

    recession = 2.0

    def phi(self, x):
        return 2 * (torch.sqrt(x) - 1) ** 2

    def conjugate(self, s):
        return torch.where(s < 2, 2 * s / (2 - s), math.inf)


class TestUserMade(DivergenceCase):
    def make(self):
        return Hellinger()

    @pytest.mark.parametrize("reference", ["product", "ones"])
    def test_solve_agrees_with_the_convex_solver(self, reference, rng):
        problem = rectangular(
            rng, 5, 4, (1.2, 0.8), epsilon=0.1, tau=(0.5, 0.9), divergence="power(0.5)", reference=reference
        )
        solution = problem.but(divergence=Hellinger()).solve(tol=1e-8)
        truth, plan = problem.truth()
        assert solution.value == pytest.approx(truth, rel=1e-6)
        np.testing.assert_allclose(solution.plan, plan, atol=1e-3 * plan.max())

    def test_gradient(self, rng):
        problem = rectangular(rng, 4, 3, (1.2, 0.8), epsilon=0.5, tau=0.5, divergence=Hellinger())
        a = torch.tensor(problem.a, requires_grad=True)
        jumbot.solve(
            torch.tensor(problem.cost), a, torch.tensor(problem.b), **problem.arguments, tol=1e-12
        ).value.backward()
        step = 1e-4
        for i in (0, 3):
            ahead, behind = (problem.but(a=problem.a + t * np.eye(4)[i]).solve(tol=1e-12).value for t in (step, -step))
            assert a.grad[i].item() == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["kl", "chi2", "power(0.5)", "power(-1)", "power(1.5)", "power(3)"])
def test_phi_near_one_keeps_its_digits(name):
    """Times a tau of 1e9, what x log x - x + 1 rounds off at x = 1 + 1e-6 would be a millionth of the value."""
    p = {"kl": Decimal(1), "chi2": Decimal(2)}.get(name) or Decimal(name[6:-1])
    for d in (9.9e-4, -9.9e-4, 1.1e-3, 1e-5, -1e-8):
        x = Decimal(1 + d)
        exact = x * x.ln() - x + 1 if p == 1 else (x**p - p * (x - 1) - 1) / (p * (p - 1))
        exact = float(2 * exact if name == "chi2" else exact)
        assert float(parse(name).phi(doubles(1 + d))) == pytest.approx(exact, rel=2e-9, abs=0)
        if name not in ("kl", "chi2"):
            assert sides._power(float(p), float(x.ln()), 0.0)[1] == pytest.approx(exact, rel=2e-9, abs=0)
