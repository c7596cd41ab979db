"""The engines behind one protocol: problem and start in, outcome out, and the outcome is the next start."""

import math

import numpy as np
import pytest
import torch

from jumbot.transport._certificate import certify
from jumbot.transport._entropic import compiled_sweeps, large_sweeps, newton_steps, solver, torch_sweeps
from jumbot.transport._entropic.translation import translate
from jumbot.transport._kernels.policy import DEPTH, BatchMixing, RingMixing, best_shift, best_shifts
from jumbot.transport._problem import Terms, make_problem

ENGINES = [compiled_sweeps, large_sweeps, torch_sweeps, newton_steps]


def problem(rng, batch=2, n=9, m=12, tau=0.5, divergence="kl"):
    a, b = (torch.from_numpy(rng.random((batch, size)) + 0.1) for size in (n, m))
    cost = torch.from_numpy(rng.random((batch, n, m)))
    settings = {"epsilon": 0.05, "tau": tau, "divergence": divergence, "reference": "product", "mass": None}
    return make_problem(cost, a, b, Terms(**settings))


@pytest.mark.parametrize("divergence", ["kl", "tv", "chi2"])
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__.rpartition(".")[2])
def test_each_goes_on_from_what_another_leaves(engine, divergence, rng):
    given, price = problem(rng, divergence=divergence), torch.zeros(2, dtype=torch.float64)
    assert engine.fits(given)
    assert engine.PATIENCE > 0
    begun = compiled_sweeps.sweep(given, None, 1e-2, 4, price)
    before = begun.certificate.relative_gap
    outcome = engine.sweep(given, (begun.f, begun.g), 1e-6, 3000, price)
    assert outcome.all_within(1e-6)
    assert bool((outcome.certificate.relative_gap < before).all())
    torch.testing.assert_close(begun.certificate.relative_gap, before)  # what it started from is left alone
    checked = certify(given, outcome.f, outcome.g)
    torch.testing.assert_close(outcome.certificate.objective, checked.objective, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(outcome.plan, checked.plan, rtol=1e-9, atol=1e-12)
    again = engine.sweep(given, (outcome.f, outcome.g), 1e-6, 3000, price)
    assert bool((again.taken <= 5).all()), "it sees that there is nothing left to do"


def test_the_last_engine_fits_everything():
    assert solver.ENGINES[-1].fits(None)


def test_mixing_is_the_same_compiled_and_in_torch(rng):
    """The iterates of a contraction with some slow directions."""
    size = 20
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    slow = basis @ np.diag(np.r_[0.97, 0.95, 0.9, rng.random(size - 3) / 4]) @ basis.T
    fixed, weights = rng.normal(size=size), rng.random(size) + 0.1
    one, many = RingMixing(size), BatchMixing(torch.from_numpy(np.stack([weights, weights])))
    x, z = np.zeros(size), torch.zeros(2, size, 1, dtype=torch.float64)
    for _ in range(DEPTH + 4):
        image = fixed + slow @ (x - fixed)
        x = one.next(x, image, weights, gap=1.0)
        z = many.next(z, torch.from_numpy(fixed[:, None] + slow @ (z.numpy() - fixed[:, None])), torch.zeros(()))
        np.testing.assert_allclose(z[0, :, 0], x, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(z[0], z[1])
    assert np.abs(x - fixed).max() < 5e-2 * np.abs(fixed).max()


@pytest.mark.parametrize("tau", [0.5, 20.0, (0.5, 3.0), (0.7, math.inf), (math.inf, 0.7)], ids=str)
def test_the_translation_is_the_same_compiled_in_torch_and_by_bisection(tau, rng):
    given = problem(rng, batch=1, tau=tau)
    f, g = (torch.from_numpy(3 * rng.normal(size=(1, size))) for size in (9, 12))
    slopes = [0.0 if side.exact else 1 / side.tau for side, _ in given.sides]
    a, b = given.a[0].numpy(), given.b[0].numpy()
    t = best_shift(*slopes, a, b, f[0].numpy(), g[0].numpy(), np.empty(9), np.empty(12))
    logs = (torch.log(w)[..., None] for w in (given.a, given.b))
    assert float(best_shifts(*slopes, *logs, f[..., None], g[..., None])) == pytest.approx(t, rel=1e-12)
    moved_f, moved_g = translate(given, f, g)
    np.testing.assert_allclose(moved_f - f, t, rtol=1e-6)
    np.testing.assert_allclose(moved_g - g, -t, rtol=1e-6)


def test_newton_steps_of_a_batch_of_large_problems_on_several_threads(rng):
    """MKL fails on batches of matrices of 300 rows where torch has more than one thread."""
    given = problem(rng, batch=5, n=320, m=310, divergence="chi2")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        start = torch.zeros(5, 320, dtype=torch.float64), torch.zeros(5, 310, dtype=torch.float64)
        before = certify(given, *start).relative_gap
        outcome = newton_steps.sweep(given, start, 1e-9, 10, torch.ones(5, dtype=torch.float64))
    finally:
        torch.set_num_threads(threads)
    assert bool((outcome.certificate.relative_gap < before).all())
