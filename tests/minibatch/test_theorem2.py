"""Theorem 2 and the structure of the complete estimator, enumerated on five points per side by `jumbot.solve`."""

import itertools
import math

import numpy as np
import pytest
import torch

import jumbot
from jumbot.cost import squared_euclidean
from tests.oracles import Problem

N = 5
TRANSPORT = {
    "entropic kl": {"epsilon": 0.2, "tau": 0.7},
    "entropic balanced": {"epsilon": 0.2},
    "entropic chi2": {"epsilon": 0.2, "tau": 0.7, "divergence": "chi2"},
    "exact kl": {"epsilon": 0.0, "tau": 0.7},
    "exact balanced": {"epsilon": 0.0},
    "exact tv": {"epsilon": 0.0, "tau": 0.7, "divergence": "tv"},
}


def transport(x, y, options):
    tol = 1e-9 if options["epsilon"] > 0 else 1e-12
    return jumbot.solve(squared_euclidean(x, y), tol=tol, **options).value


def divergence(x, y, options):
    return jumbot.sinkhorn_divergence(x, y, tol=1e-7, **options)


def pairs(m):
    subsets = list(itertools.combinations(range(N), m))
    return itertools.product(subsets, subsets)


def complete(h, x, y, m, options):
    """The complete estimator: the mean of h over all pairs of subsets, in one batch."""
    rows, columns = (torch.tensor(index) for index in zip(*pairs(m), strict=True))
    return h(x[rows], y[columns], options).mean()


def clouds(rng):
    return (torch.tensor(p, dtype=torch.float64) for p in (rng.normal(size=(N, 2)), rng.normal(size=(N, 2)) + 0.5))


def mean_of_gradients(h, x, y, m, options):
    """Each minibatch differentiated alone, its gradient put where its points are."""
    total, count = torch.zeros_like(x), 0
    for rows, columns in pairs(m):
        leaf = x[list(rows)].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(h(leaf, y[list(columns)], options), leaf)
        total[list(rows)] += gradient
        count += 1
    return total / count


def finite_differences(f, x, step=2e-3):
    """Fourth order, coordinate by coordinate; take short steps where h has kinks."""
    out = torch.zeros_like(x)
    for at in np.ndindex(*x.shape):
        values = []
        for t in (-2, -1, 1, 2):
            moved = x.clone()
            moved[at] += t * step
            values.append(float(f(moved)))
        out[at] = (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * step)
    return out


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("name", TRANSPORT)
def test_gradients_of_transport_are_unbiased(name, m, rng):
    """Random clouds: the optimal plans are unique at epsilon = 0 too, so h is differentiable there."""
    x, y = clouds(rng)
    options = TRANSPORT[name]
    step = 2e-3 if options["epsilon"] > 0 else 1e-4
    expected = finite_differences(lambda moved: complete(transport, moved, y, m, options), x, step)
    assert float(expected.abs().max()) > 0.05
    torch.testing.assert_close(mean_of_gradients(transport, x, y, m, options), expected, rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("tau", [0.7, math.inf])
def test_gradients_of_the_divergence_are_unbiased(tau, rng):
    x, y = clouds(rng)
    options = {"epsilon": 0.2, "tau": tau}
    expected = finite_differences(lambda moved: complete(divergence, moved, y, 2, options), x)
    assert float(expected.abs().max()) > 0.02
    torch.testing.assert_close(mean_of_gradients(divergence, x, y, 2, options), expected, rtol=1e-5, atol=3e-6)


def test_the_mean_of_minibatch_gradients_is_not_the_gradient_of_the_whole(rng):
    """What is unbiased is the gradient of the minibatch loss; that of transport between all points is another."""
    x, y = clouds(rng)
    options = TRANSPORT["entropic balanced"]
    whole = finite_differences(lambda moved: transport(moved, y, options), x)
    assert float((mean_of_gradients(transport, x, y, 2, options) - whole).abs().max()) > 0.01


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_minibatch_weights_average_to_the_weights(m):
    """The mean over subsets I of the lifted u_m is u_n."""
    lifted = [np.isin(np.arange(N), subset) / m for subset in itertools.combinations(range(N), m)]
    np.testing.assert_allclose(np.mean(lifted, axis=0), np.full(N, 1 / N), rtol=1e-14)


@pytest.mark.parametrize("m", [2, 3])
def test_balanced_plans_average_to_the_marginals(m, rng):
    """So the averaged minibatch plan of balanced transport is a plan between all points."""
    x, y = clouds(rng)
    plan = torch.zeros(N, N, dtype=torch.float64)
    for rows, columns in pairs(m):
        minibatch = jumbot.solve(squared_euclidean(x[list(rows)], y[list(columns)]), epsilon=0.0).plan
        plan[torch.tensor(rows)[:, None], torch.tensor(columns)] += minibatch
    plan /= math.comb(N, m) ** 2
    uniform = torch.full((N,), 1 / N, dtype=torch.float64)
    torch.testing.assert_close(plan.sum(0), uniform)
    torch.testing.assert_close(plan.sum(1), uniform)


@pytest.mark.parametrize("name", TRANSPORT)
def test_positive_and_symmetric(name, rng):
    x, y = clouds(rng)
    there, back = (float(complete(transport, *pair, 2, TRANSPORT[name])) for pair in ((x, y), (y, x)))
    assert there > 0
    assert there == pytest.approx(back, rel=1e-9)


@pytest.mark.parametrize("name", ["exact kl", "exact balanced", "exact tv"])
def test_not_definite(name, rng):
    """h(X, X) > 0 for 1 < m < n, though transport between equal clouds costs nothing."""
    x, _ = clouds(rng)
    for m in (2, 3, 4):
        assert float(complete(transport, x, x, m, TRANSPORT[name])) > 1e-3
    assert float(complete(transport, x, x, N, TRANSPORT[name])) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("tau", [0.7, math.inf])
def test_the_divergence_is_positive_symmetric_and_not_definite(tau, rng):
    x, y = clouds(rng)
    options = {"epsilon": 0.2, "tau": tau}
    there, back = (float(complete(divergence, *pair, 2, options)) for pair in ((x, y), (y, x)))
    assert there > 0
    assert there == pytest.approx(back, rel=1e-8)
    assert float(complete(divergence, x, x, 2, options)) > 1e-3
    assert float(complete(divergence, x, x, N, options)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["exact kl", "exact balanced", "exact tv"])
def test_optimal_plans_are_a_convex_set(name, rng):
    """Lemma 3: mixtures of plans that changes of the cost by 1e-9 single out; the objective is the oracle's."""
    x, y = np.array([[0, 0], [1, 1], [2, 0]]), np.array([[1, 0], [0, 1], [2, 1]])
    cost = ((x[:, None] - y) ** 2).sum(-1).astype(float)  # ones and fives: three permutations are optimal
    problem = Problem(cost, np.full(3, 1 / 3), np.full(3, 1 / 3), **TRANSPORT[name])
    plans = [problem.but(cost=cost + 1e-9 * rng.normal(size=(3, 3))).solve().plan for _ in range(8)]
    first, second = max(itertools.combinations(plans, 2), key=lambda pair: np.abs(pair[0] - pair[1]).max())
    assert np.abs(first - second).max() > 0.05
    least = problem.truth()[0]
    for share in (0.0, 0.25, 0.5, 1.0):
        assert problem.objective(share * first + (1 - share) * second) == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("name", ["exact kl", "exact balanced", "exact tv"])
@pytest.mark.parametrize("m", [2, 3])
def test_a_derivative_at_ties_is_one_of_clarke(name, m, rng):
    """Lemma 7 and Theorem 2: -E h is Clarke regular, so one-sided derivatives bracket every generalised gradient.

    Points of a lattice: many plans are optimal, h has kinks there, and `solve` returns one of the gradients.
    """
    x = torch.tensor([[0, 0], [1, 1], [0, 1], [2, 0], [1, 2]], dtype=torch.float64)
    y = torch.tensor([[1, 0], [0, 1], [1, 1], [2, 1], [0, 2]], dtype=torch.float64)
    options, step, kinks = TRANSPORT[name], 1e-5, 0

    def mean(moved):
        return float(complete(transport, moved, y, m, options))

    gradient, here = mean_of_gradients(transport, x, y, m, options), mean(x)
    for _ in range(12):
        direction = torch.tensor(rng.normal(size=x.shape))
        ahead = (mean(x + step * direction) - here) / step
        behind = (here - mean(x - step * direction)) / step
        returned = float((gradient * direction).sum())
        assert ahead - 1e-3 <= returned <= behind + 1e-3
        kinks += behind - ahead > 1e-2
    assert kinks > 6
