"""`jumbot.estimate` against loops over `jumbot.solve`, and its bad days."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import jumbot
from jumbot.minibatch._sampling import draw_subsets
from tests.refusals import refused

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.normal(size=(50, 2)) + 0.5
KL = {"epsilon": 0.1, "tau": 1.0}


def cost(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


CASES = {
    "kl": KL,
    "ones": {**KL, "reference": "ones"},
    "balanced": {"epsilon": 0.1},
    "tv, exact": {"epsilon": 0.0, "tau": 0.7, "divergence": "tv"},
    "kl, exact": {"epsilon": 0.0, "tau": 0.7},
    "pair": {"epsilon": 0.2, "tau": (0.5, math.inf)},
    "range": {"epsilon": 0.2, "divergence": "range(0.5,2)"},
}


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_values_are_those_of_solve(settings):
    result = jumbot.estimate(X, Y, m=7, k=5, seed=3, tol=1e-9, **settings)
    I, J = draw_subsets(3, 0, 5, 0, 60, 7), draw_subsets(3, 0, 5, 1, 50, 7)
    expected = [jumbot.solve(cost(X[i], Y[j]), tol=1e-9, **settings).value for i, j in zip(I, J, strict=True)]
    np.testing.assert_allclose(result.values, expected, rtol=1e-7)
    assert result.value == pytest.approx(np.mean(expected), rel=1e-7)


def test_values_of_the_sinkhorn_divergence():
    result = jumbot.estimate(X, Y, m=6, k=4, loss="sinkhorn_divergence", **KL)
    I, J = draw_subsets(0, 0, 4, 0, 60, 6), draw_subsets(0, 0, 4, 1, 50, 6)
    expected = [jumbot.sinkhorn_divergence(X[i], Y[j], **KL) for i, j in zip(I, J, strict=True)]
    np.testing.assert_allclose(result.values, expected, rtol=1e-6)


def test_complete_estimator_and_its_plan_enumerate_all_pairs():
    x, y = X[:5], Y[:4]
    result = jumbot.estimate(x, y, m=2, k="all", plan=True, tol=1e-10, **KL)
    values, plan = [], np.zeros((5, 4))
    for I, J in itertools.product(itertools.combinations(range(5), 2), itertools.combinations(range(4), 2)):
        solution = jumbot.solve(cost(x[list(I)], y[list(J)]), tol=1e-10, **KL)
        values.append(solution.value)
        plan[np.ix_(I, J)] += solution.plan
    assert result.k == len(values) == 60
    assert result.value == pytest.approx(np.mean(values), rel=1e-9)
    np.testing.assert_allclose(result.plan.to_dense(), plan / 60, atol=1e-9)
    assert result.standard_error("complete") == 0
    assert result.standard_error() > 0


def test_lifted_plan():
    result = jumbot.estimate(X, Y, m=10, k=50, plan=True, **KL)
    dense = result.plan.to_dense()
    np.testing.assert_allclose(result.plan.marginals[0], dense.sum(1))
    np.testing.assert_allclose(result.plan.marginals[1], dense.sum(0))
    np.testing.assert_allclose(result.plan.to_scipy().toarray(), dense)
    rows = dense.sum(1)
    mapped = result.plan.barycentric_map(Y, missing=X)
    np.testing.assert_allclose(mapped[rows > 0], (dense @ Y)[rows > 0] / rows[rows > 0, None])
    np.testing.assert_allclose(result.plan.barycentric_map(Y[:, 0], missing=X[:, 0]), mapped[:, 0])
    with refused("^y "):
        result.plan.barycentric_map(Y[:3])
    for missing in (X[:1], X[0], X[:, :1], X[:, 0]):  # NumPy would repeat some of them
        with refused("^missing "):
            result.plan.barycentric_map(Y, missing=missing)


def test_balanced_plans_average_to_the_uniform_weights():
    result = jumbot.estimate(X[:6], Y[:6], m=3, k="all", plan=True, epsilon=0.0)
    np.testing.assert_allclose(result.plan.marginals[0], np.full(6, 1 / 6), rtol=1e-9)


def test_weights_are_carried_so_that_they_average_to_the_given_ones():
    a, b = RNG.random(6) + 0.1, 2 * (RNG.random(6) + 0.1)
    result = jumbot.estimate(X[:6], Y[:6], a, b, m=3, k="all", tol=1e-9, **KL)
    values = [
        jumbot.solve(cost(X[list(I)], Y[list(J)]), a[list(I)] * 2, b[list(J)] * 2, tol=1e-9, **KL).value
        for I, J in itertools.product(itertools.combinations(range(6), 3), repeat=2)
    ]
    assert result.value == pytest.approx(np.mean(values), rel=1e-7)


def test_balanced_weights_are_drawn_with_replacement():
    a = np.zeros(60)
    a[:3] = (0.2, 0.3, 0.5)
    result = jumbot.estimate(X, Y, a, m=8, k=400, epsilon=0.0, plan=True, tol=1e-9)
    rows = result.plan.marginals[0]
    assert rows[3:].max() == 0
    np.testing.assert_allclose(rows[:3], a[:3], atol=0.03)
    with refused("replacement"):
        jumbot.estimate(X[:5], Y[:5], np.arange(5.0) / 10, m=2, k="all", epsilon=0.1)


def test_a_weight_of_zero_leaves_the_error_finite():
    """With the reference of ones the derivative there is infinite, and none of the minibatch's."""
    a = np.where(np.arange(60) % 3 == 0, 0.0, 1 / 40)
    result = jumbot.estimate(X, Y, a, m=8, k=30, epsilon=0.1, tau=1.0, reference="ones")
    assert math.isfinite(result.standard_error())


@pytest.mark.parametrize("loss", ["transport", "sinkhorn_divergence"])
def test_reproducible_whatever_the_chunks_and_threads(loss):
    def run(**how):
        return jumbot.estimate(X, Y, m=12, k=40, seed=5, loss=loss, **KL, **how)

    first = run()
    np.testing.assert_array_equal(first.values, run().values)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        np.testing.assert_allclose(run(chunk=3).values, first.values, rtol=1e-12)
    finally:
        torch.set_num_threads(threads)
    assert not np.array_equal(jumbot.estimate(X, Y, m=12, k=40, seed=6, loss=loss, **KL).values, first.values)


def test_inputs_of_every_kind_agree(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "y.npz", Y)
    expected = jumbot.estimate(X, Y, m=8, k=10, **KL).values
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for x, y in [
        (torch.from_numpy(X), torch.from_numpy(Y)),
        (mapped, Y),
        (tmp_path / "x.npy", str(tmp_path / "y.npz")),
        (X.tolist(), Y),
    ]:
        np.testing.assert_allclose(jumbot.estimate(x, y, m=8, k=10, **KL).values, expected, rtol=1e-9)


def test_costs_by_name_and_callable():
    squared = jumbot.estimate(X, Y, m=8, k=10, **KL).values
    own = jumbot.estimate(X, Y, m=8, k=10, cost=lambda x, y: torch.cdist(x, y) ** 2, **KL).values
    np.testing.assert_allclose(own, squared, rtol=1e-9)
    wide = RNG.normal(size=(40, 100))
    distance = jumbot.estimate(wide, wide + 1, m=8, k=10, cost="euclidean", **KL).values
    own = jumbot.estimate(wide, wide + 1, m=8, k=10, cost=torch.cdist, **KL).values
    np.testing.assert_allclose(distance, own, rtol=1e-7)


def test_precision_is_reached_or_the_budget_spent():
    result = jumbot.estimate(X, Y, m=8, precision=0.02, **KL)
    low, high = result.interval(target="complete")
    assert (high - low) / 2 <= 0.02
    assert result.k > 128
    assert jumbot.estimate(X, Y, m=8, precision=1e-6, budget=200, **KL).k == 200


def test_bias_curve_over_sizes():
    curve = jumbot.estimate(X, Y, m=[4, 8, 16], k=200, **KL)
    assert curve.m == [4, 8, 16]
    assert curve.intervals().shape == (3, 2)
    assert curve.values[0] > curve.values[2]  # smaller minibatches are further from each other
    assert curve[1].m == 8
    import matplotlib as mpl

    mpl.use("Agg")
    assert curve.plot().get_xlabel() == "minibatch size m"


@pytest.mark.parametrize("m", [np.array(8), np.int64(8), torch.tensor(8)])
def test_a_size_without_axes_is_one_size(m):
    assert jumbot.estimate(X, Y, m=m, k=3, **KL).value == jumbot.estimate(X, Y, m=8, k=3, **KL).value


def test_interrupted_run_returns_what_is_done(monkeypatch):
    from jumbot.minibatch._estimate import _Work

    solve, calls = _Work._solve, []

    def interrupted(self, I, J):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return solve(self, I, J)

    monkeypatch.setattr(_Work, "_solve", interrupted)
    result = jumbot.estimate(X, Y, m=8, k=100, chunk=10, **KL)
    assert result.interrupted
    assert result.k == 30
    assert "interrupted" in repr(result)


BAD = {
    "m": {"m": 70, "k": 3},
    "k": {"m": 5, "k": 0},
    "precision": {"m": 5, "k": 3, "precision": 0.1},
    "loss": {"m": 5, "k": 3, "loss": "sinkhorn"},
    "cost": {"m": 5, "k": 3, "cost": "euclid"},
    "a": {"m": 5, "k": 3, "a": np.ones(3)},
    "x": {"m": 5, "k": 3, "x": np.full((60, 2), np.nan)},
    "chunk": {"m": 5, "k": 3, "chunk": 0},
    "tau": {"m": 5, "k": 3, "tau": (1.0, 2.0), "loss": "sinkhorn_divergence"},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name):
    arguments = {"x": X, "y": Y, **KL, **BAD[name]}
    with refused(name):
        jumbot.estimate(arguments.pop("x"), arguments.pop("y"), **arguments)


def test_complete_is_refused_with_the_count_where_it_is_too_much():
    with refused("k=1000"):
        jumbot.estimate(X, Y, m=20, k="all", **KL)


def test_pictures_are_to_be_made_rows():
    pictures = np.zeros((6, 4, 4))
    with refused(r"\(4, 4\).*x\.reshape\(len\(x\), -1\)"):
        jumbot.estimate(pictures, pictures, m=2, k=3, epsilon=0.1)


def test_points_of_different_spaces_are_refused():
    with refused(r"\(2,\) and \(1,\)"):
        jumbot.estimate(X, Y[:, :1], m=5, k=3, **KL)


@pytest.mark.parametrize("loss", ["transport", "sinkhorn_divergence"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "uint8", "torch.float32", "torch.bfloat16"])
def test_every_kind_of_points_takes_the_fast_path(kind, loss, rng, monkeypatch):
    """The same numbers, to the last bit, whatever holds them."""
    from jumbot.minibatch import _losses as losses

    x, y = rng.integers(0, 8, (60, 3)), rng.integers(2, 9, (50, 3))
    options = {"m": 8, "k": 6, "epsilon": 1.0, "tau": 5.0, "loss": loss}
    expected = jumbot.estimate(x.astype(np.float64), y.astype(np.float64), **options).values
    seen, tiles = [], losses.solve_tiles
    monkeypatch.setattr(losses, "solve_tiles", lambda *rest: seen.append(1) or tiles(*rest))
    if kind.startswith("torch."):
        x, y = (torch.from_numpy(z).to(getattr(torch, kind[6:])) for z in (x, y))
    else:
        x, y = x.astype(kind), y.astype(kind)
    np.testing.assert_array_equal(jumbot.estimate(x, y, **options).values, expected)
    assert seen


def test_the_mean_of_values_whose_sum_overflows():
    found = jumbot.estimate(np.zeros((4, 2)), np.ones((4, 2)), m=2, k=4, epsilon=1.0, tau=1.0)
    assert replace(found, values=np.full(4, 1.5e308)).value == pytest.approx(1.5e308)
