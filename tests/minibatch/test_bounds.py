"""`jumbot.bounds`: each inequality is sampled on random problems, and the printed ones that are false are caught."""

import math

import numpy as np
import pytest

import jumbot
from jumbot import bounds
from tests.refusals import refused

from ..generators import clouds, weights

SAMPLES = 40
TIGHT = {"tol": 1e-11}
MARGINALS = {
    "kl": {"tau": 0.4},
    "pair": {"tau": (0.3, 2.0)},
    "semi-relaxed": {"tau": (math.inf, 0.5)},
    "tv": {"tau": 0.5, "divergence": "tv"},
    "chi2": {"tau": 0.3, "divergence": "chi2"},
    "range": {"divergence": "range(0.6,1.5)"},
    "power": {"tau": 0.5, "divergence": "power(0.5)"},
    "balanced": {},
}


def squared(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def masses(rng, setting):
    """Unequal wherever the setting allows it, on both sides of one."""
    if setting == "balanced":
        return (rng.uniform(0.3, 3),) * 2
    if setting == "range":
        first = rng.uniform(0.5, 2)
        return first, first * rng.uniform(0.8, 1.2)
    return tuple(rng.uniform(0.3, 3, 2))


# Lemma 1


def outlier(rng, far=10):
    """Clouds, uniform weights, the position z, and the weights of the cloud with z."""
    x, y = clouds(rng, 6, 5)
    z = rng.normal(size=(1, 2)) * rng.uniform(0, far)
    zeta = rng.uniform(0.05, 0.95)
    tainted = np.append(np.full(6, zeta / 6), 1 - zeta)
    return x, y, z, zeta, tainted


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_outlier_upper_bound(epsilon, rng):
    slack = []
    for _ in range(SAMPLES):
        x, y, z, zeta, tainted = outlier(rng)
        tau = rng.uniform(0.1, 5)
        options = {"epsilon": epsilon, "tau": tau, "tol": 1e-9}
        clean = float(jumbot.solve(squared(x, y), **options).value)
        found = float(jumbot.solve(squared(np.vstack([x, z]), y), tainted, **options).value)
        bound = bounds.outlier_upper_bound(clean, squared(z, y).mean(), zeta=zeta, tau=tau, epsilon=epsilon)
        assert found <= bound + 1e-8
        slack.append(bound - found)
    assert min(slack) < 0.05  # near enough to be worth stating


def test_outlier_upper_bound_saturates_where_balanced_transport_grows(rng):
    x, y = clouds(rng, 6, 5)
    tainted = np.append(np.full(6, 0.9 / 6), 0.1)
    clean = float(jumbot.solve(squared(x, y), epsilon=0.0, tau=0.5).value)
    plateau = bounds.outlier_upper_bound(clean, math.ldexp(1, 60), zeta=0.9, tau=0.5)
    assert plateau == pytest.approx(0.9 * clean + 0.1)
    balanced = []
    for distance in (10.0, 100.0, 1000.0):
        cost = squared(np.vstack([x, [[distance, 0]]]), y)
        assert float(jumbot.solve(cost, tainted, epsilon=0.0, tau=0.5).value) <= plateau + 1e-8
        balanced.append(float(jumbot.solve(cost, tainted, epsilon=0.0).value))
    assert balanced[1] > 50 * balanced[0] > 50 * plateau


def test_outlier_lower_bound_and_the_printed_one(rng):
    """The corrected bound always holds; with an arbitrary y* in place of the minimiser it is violated."""
    violated = 0
    for _ in range(SAMPLES):
        x, y, z, zeta, tainted = outlier(rng)
        solution = jumbot.solve(squared(x, y), epsilon=0.0)
        clean, g = float(solution.value), solution.potentials[1]
        found = float(jumbot.solve(squared(np.vstack([x, z]), y), tainted, epsilon=0.0).value)
        to_z = squared(z, y)[0]
        bound = bounds.outlier_lower_bound(clean, to_z, g, zeta=zeta)
        assert found >= bound - 1e-9
        printed = zeta * clean + (1 - zeta) * (to_z - g + g.mean())  # one per point y*
        assert bound == pytest.approx(printed.min(), abs=1e-12)
        violated += bool((printed > found + 1e-6).any())
    assert violated > SAMPLES / 2


def test_outlier_lower_bound_with_weights(rng):
    """A point of no weight is no candidate for y*."""
    x, y, z, zeta, tainted = outlier(rng)
    b = weights(rng, 5)
    solution = jumbot.solve(squared(x, y), b=b, epsilon=0.0)
    to_z, g = squared(z, y)[0], solution.potentials[1]
    bound = bounds.outlier_lower_bound(float(solution.value), to_z, g, b, zeta=zeta)
    assert float(jumbot.solve(squared(np.vstack([x, z]), y), tainted, b, epsilon=0.0).value) >= bound - 1e-9
    more = np.append(to_z, -1e6), np.append(g, 0.0), np.append(b, 0.0)
    assert bounds.outlier_lower_bound(float(solution.value), *more, zeta=zeta) == pytest.approx(bound)


# Lemma 2


@pytest.mark.parametrize(
    ("setting", "epsilon"),
    [(setting, 0.3) for setting in MARGINALS] + [(setting, 0.0) for setting in ("kl", "pair", "tv", "balanced")],
)
def test_value_and_mass(setting, epsilon, rng):
    options = {"epsilon": epsilon, **MARGINALS[setting]}
    for _ in range(SAMPLES // 2):
        M, (mass_a, mass_b) = rng.uniform(0.1, 5), masses(rng, setting)
        least = M * rng.uniform(0, 1)
        cost = rng.uniform(least, M, (4, 5))
        a, b = weights(rng, 4, mass_a), weights(rng, 5, mass_b)
        solution = jumbot.solve(cost, a, b, tol=1e-8, **options)
        value, mass = float(solution.value), float(solution.mass)
        assert -1e-7 <= value <= bounds.value_bound(M, mass_a, mass_b, **options) + 1e-7
        bound = bounds.mass_bound(M, mass_a, mass_b, **options)
        tighter = bounds.mass_bound(M, mass_a, mass_b, cost_least=least, **options)
        assert mass <= tighter * (1 + 1e-6)
        assert tighter <= bound * (1 + 1e-9)


@pytest.mark.parametrize("setting", ["kl", "tv", "chi2", "range", "balanced"])
def test_divergence_bound(setting, rng):
    options = {"epsilon": 0.3, **MARGINALS[setting]}
    for _ in range(SAMPLES // 2):
        mass_a, mass_b = masses(rng, setting)
        x, y = rng.uniform(0, 1, (4, 2)), rng.uniform(0, 1, (5, 2))
        a, b = weights(rng, 4, mass_a), weights(rng, 5, mass_b)
        value = float(jumbot.sinkhorn_divergence(x, y, a, b, **options))
        assert abs(value) <= bounds.divergence_bound(2.0, mass_a, mass_b, **options) + 1e-7


def test_bounds_are_reached():
    """Constant cost M without a way out: the bound is the value, and M less would be too little."""
    cost = np.full((3, 3), 2.5)
    for tau in (math.inf, 1e6):
        value = float(jumbot.solve(cost, epsilon=0.1, tau=tau, **TIGHT).value)
        assert value == pytest.approx(bounds.value_bound(2.5, epsilon=0.1, tau=tau), rel=1e-5)
    weights_a = np.full(3, 0.7)
    found = float(jumbot.solve(cost, weights_a, weights_a, epsilon=0.1, **TIGHT).value)
    assert found == pytest.approx(bounds.value_bound(2.5, 2.1, 2.1, epsilon=0.1), rel=1e-6)


def test_the_printed_divergence_bound_is_too_small():
    """The sum of the three values' bounds needs M (m_a^2 + m_b^2)/2; 2 M m_a m_b is less for unequal masses."""
    M, mass_a, mass_b, options = 4.0, 3.0, 0.5, {"epsilon": 0.1, "tau": 0.5}
    parts = [bounds.value_bound(M, *pair, **options) for pair in ((3.0, 0.5), (3.0, 3.0), (0.5, 0.5))]
    full = bounds.divergence_bound(M, mass_a, mass_b, **options)
    assert full == pytest.approx(parts[0] + parts[1] / 2 + parts[2] / 2 + 0.05 * 2.5**2)
    printed = full + M * (2 * mass_a * mass_b - mass_a * mass_b - (mass_a**2 + mass_b**2) / 2)
    assert printed < full - 10


def test_mass_bound_is_the_root():
    """KL, probabilities, epsilon = 0: 2 tau (p log p - p + 1) = M."""
    p = bounds.mass_bound(3.0, epsilon=0.0, tau=0.5)
    assert p * math.log(p) - p + 1 == pytest.approx(3.0, rel=1e-9)
    assert bounds.mass_bound(3.0, 2.0, 2.0, epsilon=0.1) == pytest.approx(2.0)
    assert bounds.mass_bound(3.0, epsilon=0.1, divergence="range(0.5,1.3)") == pytest.approx(1.3)


def test_losses_by_name():
    for loss, bound in (("transport", bounds.value_bound), ("sinkhorn_divergence", bounds.divergence_bound)):
        options = {"epsilon": 0.1, "tau": 0.4, "divergence": "chi2"}
        assert bounds.loss_bound(2.0, 1.5, 0.5, loss=loss, **options) == bound(2.0, 1.5, 0.5, **options)


# Theorem 1


def minibatch_values(rng, n, m, k, repetitions):
    """The incomplete estimator on fresh coin tosses x against y = 0: h = mean(x), the widest distribution on [0, 1]."""
    x = rng.integers(0, 2, (repetitions, n)).astype(float)
    chosen = rng.permuted(np.tile(np.arange(n), (repetitions * k, 1)), axis=1)[:, :m].reshape(repetitions, k, m)
    return np.take_along_axis(x[:, None], chosen, 2).mean((1, 2))


def test_deviation_bound_holds_and_is_no_larger_than_needed_by_far(rng):
    """h is the value of balanced transport to a single place, where it is the mean cost."""
    cost = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert float(jumbot.solve(cost, epsilon=0.1, **TIGHT).value) == pytest.approx(0.5)
    n, m, k, delta = 8, 1, 40, 0.2
    off = abs(minibatch_values(rng, n, m, k, 20_000) - 0.5)
    bound = bounds.deviation_bound(bounds.value_bound(1.0, epsilon=0.1), n=n, m=m, k=k, delta=delta)
    assert (off > bound).mean() <= delta
    assert (off > bound / 5).mean() > delta


def test_deviation_bound_constants():
    options = {"n": 100, "m": 7, "k": 30, "delta": 0.1}
    corrected, printed = (bounds.deviation_bound(2.0, **options, printed=p) for p in (False, True))
    assert corrected == pytest.approx(2 * (math.sqrt(math.log(40) / 28) + math.sqrt(2 * math.log(40) / 30)))
    assert printed == pytest.approx(2 * (math.sqrt(math.log(20) / 28) + math.sqrt(2 * math.log(20) / 30)))
    complete = bounds.deviation_bound(2.0, n=100, m=7, delta=0.1)
    assert complete == pytest.approx(2 * math.sqrt(math.log(20) / 28))


def test_marginal_bound_holds_and_the_printed_one_is_twice_as_large(rng):
    """Two points and m = 1: row 1 of a minibatch plan has mass 0 or 1, a fair coin."""
    k, delta = 20, 0.1
    plans = [np.zeros((2, 2)) for _ in range(4)]
    for number, plan in enumerate(plans):
        i, j = divmod(number, 2)
        plan[i, j] = float(jumbot.solve(np.array([[0.3]]), epsilon=0.1).mass)
    drawn = rng.integers(0, 4, (20_000, k))
    off = abs(np.stack(plans)[drawn].mean(1)[:, 0].sum(-1) - np.mean(plans, 0)[0].sum())
    bound = bounds.marginal_bound(1.0, k=k, delta=delta)
    assert (off > bound).mean() <= delta
    assert (off > bound / 2).mean() > delta
    assert bounds.marginal_bound(1.0, k=k, delta=delta, printed=True) == pytest.approx(2 * bound)


# errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.outlier_upper_bound(1, 1, zeta=1.5, tau=1), "zeta: 1.5"),
        (lambda: bounds.outlier_upper_bound(1, 1, zeta=0.5, tau=0), "tau: 0"),
        (lambda: bounds.outlier_lower_bound(1, [1.0], [1.0, 2.0], zeta=0.5), "cost, g, b: shapes"),
        (lambda: bounds.outlier_lower_bound(1, [1.0], [1.0], [0.5], zeta=0.5), "b: weights of mass 0.5"),
        (lambda: bounds.value_bound(1, 1, 2, epsilon=0.1), "mass_a, mass_b: no plan between 1 and 2"),
        (lambda: bounds.value_bound(-1, epsilon=0.1), "cost_bound: -1"),
        (lambda: bounds.divergence_bound(1, epsilon=0.1, tau=(1, 2)), "tau: a pair"),
        (lambda: bounds.loss_bound(1, loss="mmd", epsilon=0.1), "loss: 'mmd'"),
        (lambda: bounds.deviation_bound(1, n=3, m=4, k=1, delta=0.1), "m: 4"),
        (lambda: bounds.deviation_bound(1, n=4, m=4, k=0, delta=0.1), "k: 0"),
        (lambda: bounds.marginal_bound(1, k=1, delta=1), "delta must"),
    ],
)
def test_errors(call, message):
    with refused(message):
        call()
