"""Intervals hold as often as they say, by simulation."""

import numpy as np
import pytest

import jumbot

SETTINGS = {
    "kl": {"epsilon": 0.1, "tau": 1.0},
    "balanced": {"epsilon": 0.1},
    "divergence": {"epsilon": 0.1, "tau": 1.0, "loss": "sinkhorn_divergence"},
}


def draw(rng, n):
    return rng.normal(size=(n, 2)), 1.3 * rng.normal(size=(n, 2)) + 0.7


def coverage(repetitions, n, m, k, target, settings):
    """How often the interval covers E_h (from fresh minibatches of the population), or the complete estimator."""
    x, y = draw(np.random.default_rng(1), 1_000_000)
    truth = jumbot.estimate(x, y, m=m, k=100_000, seed=99, **settings).value
    hits = 0
    for repetition in range(repetitions):
        if target == "population":
            x, y = draw(np.random.default_rng(1000 + repetition), n)
        elif repetition == 0:
            x, y = draw(np.random.default_rng(2), n)
            truth = jumbot.estimate(x, y, m=m, k=50_000, seed=98, **settings).value
        low, high = jumbot.estimate(x, y, m=m, k=k, seed=repetition, **settings).interval(target=target)
        hits += low <= truth <= high
    return hits / repetitions


@pytest.mark.parametrize("target", ["population", "complete"])
def test_coverage(target):
    assert 0.90 <= coverage(200, 200, 8, 60, target, SETTINGS["kl"]) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("target", ["population", "complete"])
def test_coverage_closely(target, settings):
    assert 0.93 <= coverage(1000, 300, 16, 100, target, settings) <= 0.97


@pytest.mark.slow
def test_precision_keeps_its_coverage():
    x, y = draw(np.random.default_rng(2), 300)
    settings = SETTINGS["kl"]
    truth = jumbot.estimate(x, y, m=8, k=100_000, seed=98, **settings).value
    hits = 0
    for seed in range(1000):
        low, high = jumbot.estimate(x, y, m=8, precision=0.02, seed=seed, **settings).interval(target="complete")
        hits += low <= truth <= high
    assert 0.93 <= hits / 1000 <= 0.97
