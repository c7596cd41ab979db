"""What the first sweeps leave unfinished goes on alone, from where it is."""

import warnings

import numpy as np
import pytest

import jumbot
from jumbot.minibatch import _losses as losses
from jumbot.minibatch import _losses as tiles
from jumbot.transport._entropic import compiled_sweeps


@pytest.fixture
def runs(monkeypatch):
    """(problems, whether from a start) of every run of compiled sweeps outside of tiles."""
    seen, sweep = [], compiled_sweeps.sweep

    def watched(problem, start, *rest):
        seen.append((problem.cost.shape[0], start is not None))
        return sweep(problem, start, *rest)

    monkeypatch.setattr(compiled_sweeps, "sweep", watched)
    return seen


def test_of_a_batch(runs, monkeypatch, rng):
    """Of eight problems two need more sweeps than the others."""
    cost = 1e-3 * rng.random((8, 30, 30))
    cost[[2, 5]] *= 1e3
    options = {"epsilon": 0.001, "tau": 1.0, "tol": 1e-9}
    expected = jumbot.solve(cost, **options)
    assert runs == [(8, False)]
    runs.clear()
    easy = expected.iterations[[0, 1, 3, 4, 6, 7]].max()
    assert easy < expected.iterations[[2, 5]].min()
    monkeypatch.setattr(compiled_sweeps, "PATIENCE", int(easy) + 1)
    solution = jumbot.solve(cost, **options)
    assert runs[0] == (8, False)
    assert len(runs) > 1
    assert all(count <= 2 and started for count, started in runs[1:])
    assert solution.converged.all()
    np.testing.assert_allclose(solution.value, expected.value, rtol=1e-8)
    np.testing.assert_array_equal(solution.iterations[[0, 7]], expected.iterations[[0, 7]])


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_of_an_estimate(runs, monkeypatch, loss, rng):
    x, y = rng.random((200, 2)), rng.random((200, 2)) + 0.5
    options = {"m": 16, "k": 20, "epsilon": 1e-3, "tau": 1.0, "tol": 1e-9, "loss": loss, "plan": True}
    expected = jumbot.estimate(x, y, **options)
    assert not runs
    for module in (tiles, losses):
        monkeypatch.setattr(module, "SWEEPS", 80)
    cut = jumbot.estimate(x, y, **options)
    assert runs
    assert all(started for _, started in runs)
    np.testing.assert_allclose(cut.values, expected.values, rtol=0, atol=1e-8)
    np.testing.assert_allclose(cut.plan.to_dense(), expected.plan.to_dense(), atol=1e-5)


def test_of_a_flow(runs, monkeypatch, rng):
    from jumbot import flow

    x, y = rng.random((60, 2)), rng.random((60, 2)) + 0.5
    options = {"m": 16, "k": 4, "steps": 3, "learning_rate": 0.01, "epsilon": 1e-3, "tau": 1.0, "tol": 1e-9}
    expected = jumbot.gradient_flow(x, y, **options)
    runs.clear()
    monkeypatch.setattr(flow, "_SWEEPS", 60)
    cut = jumbot.gradient_flow(x, y, **options)
    assert sum(not started for _, started in runs) <= 3, "one run from nothing per step, of OT(x, y)"
    assert any(started for _, started in runs)
    np.testing.assert_allclose(cut.points, expected.points, atol=1e-6)


@pytest.mark.parametrize(
    "setting",
    [{"tau": 1.0}, {"tau": 100.0}, {}, {"tau": 1.0, "divergence": "chi2"}, {"divergence": "range(0.5,2)"}],
    ids=str,
)
def test_no_more_is_asked_of_a_batch_than_float64_can_prove(setting, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jumbot.NotConvergedWarning)
        solution = jumbot.solve(rng.random((16, 20, 20)), epsilon=0.01, tol=0.0, **setting)
    assert solution.relative_gap.max() <= 1e-13
    assert solution.iterations.max() <= 7000
