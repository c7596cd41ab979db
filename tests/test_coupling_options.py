"""Conditions, numbers of pairs, each sample once, and growth, of `jumbot.couple`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import jumbot
from tests.refusals import refused


def clouds(rng, n=24, m=None):
    return rng.normal(size=(n, 2)), rng.normal(size=(m or n, 2)) + 1


def squared(x, y):
    return ((x[:, None] - y) ** 2).sum(-1)


class TestConditions:
    @pytest.mark.parametrize("kind", ["integers", "texts", "tensors"])
    def test_labels_cost_their_weight_where_they_differ(self, rng, kind):
        x0, x1 = clouds(rng)
        c0, c1 = rng.permutation(24) % 3, rng.permutation(24) % 3
        conditions = {"integers": (c0, c1), "texts": (c0.astype(str), c1.astype(str))}.get(kind, (c0, c1))
        if kind == "tensors":
            conditions = torch.from_numpy(c0), torch.from_numpy(c1)
        for weight in (0.7, 1e4):
            *_, i, j = jumbot.couple(x0, x1, conditions=(*conditions, weight), return_index=True)
            best = linear_sum_assignment(squared(x0, x1) + weight * (c0[:, None] != c1))[1]
            assert j.tolist() == best.tolist()
        assert (c0[i] == c1[j]).all()  # 8 of each label on both sides

    def test_numbers_cost_their_squared_distance(self, rng):
        x0, x1 = clouds(rng)
        c0, c1 = rng.normal(size=(24, 3, 2)), rng.normal(size=(24, 3, 2))
        *_, j = jumbot.couple(x0, x1, conditions=(c0, c1, 2.0), return_index=True)
        cost = squared(x0, x1) + 2 * squared(c0.reshape(24, -1), c1.reshape(24, -1))
        assert j.tolist() == linear_sum_assignment(cost)[1].tolist()

    def test_a_weight_of_zero_changes_nothing(self, rng):
        x0, x1 = clouds(rng)
        labels = np.arange(24)
        *_, j = jumbot.couple(x0, x1, conditions=(labels, labels, 0), return_index=True)
        assert j.tolist() == jumbot.couple(x0, x1, return_index=True)[3].tolist()

    @pytest.mark.parametrize(
        "conditions",
        [
            np.arange(24),
            (np.arange(24), np.arange(24)),
            (np.arange(23), np.arange(24), 1.0),
            (np.arange(24), np.arange(24.0), 1.0),
            (np.arange(24.0) * np.nan, np.arange(24.0), 1.0),
            (np.ones((24, 2)), np.ones((24, 3)), 1.0),
            (np.arange(24), np.arange(24), -1.0),
            (np.arange(24), np.arange(24), math.inf),
            (np.array([None] * 24), np.arange(24), 1.0),
            (np.arange(24), np.arange(24).astype(str), 1.0),
            (np.ma.masked_less(np.arange(24), 3), np.arange(24), 1.0),
            (np.ma.masked_less(np.arange(24.0), 3), np.arange(24.0), 1.0),
        ],
    )
    def test_what_is_not_right_is_refused(self, rng, conditions):
        with refused(r"^conditions"):
            jumbot.couple(*clouds(rng), conditions=conditions)


class TestDraw:
    @pytest.mark.parametrize("settings", [{}, {"epsilon": 0.5}, {"epsilon": 0.5, "tau": 1.0}, {"mass": 0.5}])
    @pytest.mark.parametrize("draw", [5, 24, 100])
    def test_as_many_as_asked_for(self, rng, settings, draw):
        x0, x1 = clouds(rng)
        z0, z1, i, j = jumbot.couple(x0, x1, draw=draw, seed=0, return_index=True, **settings)
        assert len(z0) == len(z1) == draw
        assert (z0 == x0[i]).all()
        assert (z1 == x1[j]).all()
        if not settings:  # all of them are pairs of the permutation
            best = linear_sum_assignment(squared(x0, x1))[1]
            assert (best[i] == j).all()

    def test_frequencies_are_those_of_the_plan(self, rng):
        x0, x1 = clouds(rng, 4)
        plan = jumbot.solve(squared(x0, x1), epsilon=1.0, tau=1.0).plan
        *_, i, j = jumbot.couple(x0, x1, 1.0, 1.0, draw=200_000, seed=0, return_index=True)
        found = np.zeros((4, 4))
        np.add.at(found, (i, j), 1 / len(i))
        np.testing.assert_allclose(found, plan / plan.sum(), atol=0.006)


class TestReplace:
    @pytest.mark.parametrize("settings", [{}, {"epsilon": 0.5}, {"epsilon": 0.5, "tau": 1.0}, {"tau": 0.5}])
    @pytest.mark.parametrize("m", [24, 30, 18])
    def test_false_uses_each_sample_once(self, rng, settings, m):
        x0, x1 = clouds(rng, 24, m)
        *_, i, j = jumbot.couple(x0, x1, replace=False, return_index=True, **settings)
        assert len(i) == len(set(i.tolist())) == len(set(j.tolist())) == min(24, m)
        if settings:
            plan = jumbot.solve(
                squared(x0, x1), epsilon=settings.get("epsilon", 0.0), tau=settings.get("tau", math.inf)
            )
            best = plan.plan[linear_sum_assignment(plan.plan, maximize=True)].sum()
            assert plan.plan[i, j].sum() == pytest.approx(best, rel=1e-6)

    def test_a_small_epsilon_rounds_to_the_permutation(self, rng):
        x0, x1 = clouds(rng)
        *_, j = jumbot.couple(x0, x1, epsilon=1e-3, replace=False, return_index=True)
        assert j.tolist() == linear_sum_assignment(squared(x0, x1))[1].tolist()

    def test_fewer_pairs_are_different_ones_chosen_by_mass(self, rng):
        x0, x1 = clouds(rng)
        x0[0] += 100  # an outlier, to which the unbalanced plan gives nothing
        for seed in range(20):
            *_, i, j = jumbot.couple(x0, x1, 0.1, 1.0, seed, draw=12, replace=False, return_index=True)
            assert len(set(i.tolist())) == len(set(j.tolist())) == 12
            assert 0 not in i
        first, second = (
            jumbot.couple(x0, x1, seed=s, draw=12, replace=False, return_index=True)[2].tolist() for s in (0, 1)
        )
        assert first != second
        assert len(set(first)) == 12

    def test_true_draws_from_the_permutation_too(self, rng):
        x0, x1 = clouds(rng)
        *_, i, _ = jumbot.couple(x0, x1, seed=0, replace=True, return_index=True)
        assert len(set(i.tolist())) < 24

    def test_more_pairs_than_samples_are_refused(self, rng):
        with refused("draw"):
            jumbot.couple(*clouds(rng, 24, 18), draw=20, replace=False)


class TestMass:
    def test_growth_of_the_source_where_the_target_is_exact(self, rng):
        x0, x1 = clouds(rng, 20, 30)
        *_, i, _j, growth = jumbot.couple(x0, x1, 0.5, (0.5, math.inf), seed=0, return_index=True, return_mass=True)
        plan = jumbot.solve(squared(x0, x1), epsilon=0.5, tau=(0.5, math.inf)).plan
        np.testing.assert_allclose(growth, 20 * plan.sum(1)[i], rtol=1e-3)
        assert growth.shape == i.shape
        assert growth.std() > 0.1

    def test_both_sides(self, rng):
        x0, x1 = (torch.from_numpy(x) for x in clouds(rng))
        *_, i, j, growth = jumbot.couple(x0, x1, 0.5, 0.7, seed=0, return_index=True, return_mass=True)
        plan = jumbot.solve(torch.cdist(x0, x1) ** 2, epsilon=0.5, tau=0.7).plan
        torch.testing.assert_close(growth, plan.sum(1)[i] / plan.sum(0)[j], rtol=1e-3, atol=1e-6)

    def test_one_for_balanced_pairs(self, rng):
        for epsilon in (0.0, 0.5):
            _, _, growth = jumbot.couple(*clouds(rng), epsilon, seed=0, return_mass=True)
            np.testing.assert_allclose(growth, 1, atol=1e-6)
