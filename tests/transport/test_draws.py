"""Pairs drawn from plans: their frequencies, their shapes, and where their randomness comes from."""

import numpy as np
import pytest
import torch
from scipy import stats

import jumbot
from tests.refusals import refused


def plans(rng, *batch, n=3, m=4, **setting):
    return jumbot.solve(rng.random((*batch, n, m)), **setting or {"epsilon": 0.3, "tau": 1.0})


def p_value(plan, i, j):
    """Of the chi-square test that the pairs come from the plan."""
    counts = np.zeros(plan.shape)
    np.add.at(counts, (np.asarray(i), np.asarray(j)), 1)
    inside = plan > 0
    assert counts[~inside].sum() == 0
    expected = plan[inside] / plan.sum() * counts.sum()
    return stats.chisquare(counts[inside], expected * (counts.sum() / expected.sum())).pvalue


@pytest.mark.parametrize(
    "setting",
    [
        {"epsilon": 0.3, "tau": 1.0},
        {"epsilon": 0.05},
        {"epsilon": 0.0, "tau": 0.3},
        {"epsilon": 0.0},
        {"epsilon": 0.1, "mass": 0.4},
        {"epsilon": 0.3, "reference": "ones", "tau": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_frequencies_are_those_of_the_plan(rng, setting, kind):
    solution = plans(rng, **setting)
    generator = torch.Generator().manual_seed(1) if kind == "torch" else np.random.default_rng(1)
    assert p_value(solution.plan, *solution.sample(20_000, generator)) > 1e-3


def test_each_problem_of_a_batch_draws_from_its_own_plan(rng):
    solution = plans(rng, 2, 3)
    i, j = solution.sample(20_000, np.random.default_rng(0))
    assert i.shape == j.shape == (2, 3, 20_000)
    own = [p_value(solution.plan[at], i[at], j[at]) for at in np.ndindex(2, 3)]
    assert min(own) > 1e-3
    assert p_value(solution.plan[0, 0], i[1, 2], j[1, 2]) < 1e-6
    assert len({tuple(i[at]) for at in np.ndindex(2, 3)}) == 6


def test_pairs_are_independent(rng):
    """Neighbouring pairs of a plan over 2 x 2 cells: no correlation beyond four standard errors."""
    solution = plans(rng, n=2, m=2)
    i, j = solution.sample(40_000, np.random.default_rng(3))
    cells = (2 * i + j).astype(float)
    assert abs(np.corrcoef(cells[:-1], cells[1:])[0, 1]) < 4 / np.sqrt(40_000)


def test_kind_and_dtype_of_the_indices(rng):
    cost = rng.random((3, 4))
    i, j = jumbot.solve(cost, epsilon=0.1).sample(5)
    assert isinstance(i, np.ndarray)
    assert i.dtype == j.dtype == np.int64
    i, j = jumbot.solve(torch.tensor(cost, dtype=torch.float32), epsilon=0.1).sample(5)
    assert i.dtype == j.dtype == torch.int64
    assert i.shape == (5,)


def test_the_generator_decides(rng):
    solution = plans(rng, 2)

    def torch_draw(seed):
        return np.stack(solution.sample(50, torch.Generator().manual_seed(seed)))

    def numpy_draw(seed):
        return np.stack(solution.sample(50, np.random.default_rng(seed)))

    for draw in (torch_draw, numpy_draw):
        assert (draw(0) == draw(0)).all()
        assert (draw(0) != draw(1)).any()
    carried = np.random.default_rng(0)
    assert (np.stack(solution.sample(50, carried)) != np.stack(solution.sample(50, carried))).any()
    assert (np.stack(solution.sample(50)) != np.stack(solution.sample(50))).any()


def test_global_generators_are_left_alone(rng):
    solution = plans(rng)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    solution.sample(10)
    solution.sample(10, torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


def test_cells_without_mass_are_never_drawn():
    """A plan of a single cell in the middle, and the largest draw that a generator can give."""
    from jumbot.transport._solution import draw_pairs

    plan = torch.zeros(1, 3, 3, dtype=torch.float64)
    plan[0, 1, 1] = 0.1

    class Top(np.random.Generator):
        def random(self, shape):
            return np.full(shape, np.nextafter(1.0, 0.0))

    for generator in (Top(np.random.PCG64(0)), np.random.default_rng(0)):
        i, j = draw_pairs(plan, 1000, generator)
        assert (i == 1).all()
        assert (j == 1).all()


@pytest.mark.parametrize("n", [0, -1, 2.5, "many", None])
def test_a_wrong_number_of_pairs_is_refused(rng, n):
    with refused("n"):
        plans(rng).sample(n)


def test_a_seed_is_not_a_generator(rng):
    with refused("generator"):
        plans(rng).sample(3, 0)


def test_a_plan_without_mass_is_refused():
    cost = np.stack([np.zeros((2, 2)), np.full((2, 2), 10.0)])
    solution = jumbot.solve(cost, epsilon=0.0, tau=1.0, divergence="tv")
    assert solution.mass[1] == 0
    with refused(r"\b1\b.*\b2\b"):
        solution.sample(3)
