"""`jumbot.CoupledLoader`: the pairs of `couple`, by seed and rank, resumed, in a process of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import jumbot
from tests.refusals import refused


def loaders(n=96, labels=False, shuffle=True, size=8):
    draw = torch.Generator().manual_seed(0)
    clouds = torch.randn(n, 2, generator=draw), torch.randn(n, 2, generator=draw) + 2
    if labels:
        sets = [TensorDataset(x, torch.arange(n) % 2) for x in clouds]
        return [DataLoader(one, batch_size=size, shuffle=shuffle) for one in sets]
    return [DataLoader(x, batch_size=size, shuffle=shuffle) for x in clouds]


def passes(loader, count=1):
    return [[x.clone() for x in pair] for _ in range(count) for pair in loader]


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b) for first, second in zip(one, other, strict=True) for a, b in zip(first, second, strict=True)
    )


def test_pairs_are_those_of_couple_on_the_larger_batch():
    noise, data = loaders(shuffle=False)
    found = passes(jumbot.CoupledLoader(noise, data, batch=48, minibatch=16, workers=0))
    assert [len(x0) for x0, _ in found] == [16] * 6
    for half in (0, 1):
        x0, x1 = jumbot.couple(noise.dataset[48 * half : 48 * half + 48], data.dataset[48 * half : 48 * half + 48])
        torch.testing.assert_close(torch.cat([pair[0] for pair in found[3 * half : 3 * half + 3]]), x0)
        torch.testing.assert_close(torch.cat([pair[1] for pair in found[3 * half : 3 * half + 3]]), x1)


@pytest.mark.parametrize(("n", "batch", "minibatch", "draw"), [(96, 48, 16, None), (90, 40, 16, None), (90, 40, 7, 20)])
def test_lengths(n, batch, minibatch, draw):
    loader = jumbot.CoupledLoader(*loaders(n), batch=batch, minibatch=minibatch, workers=0, draw=draw)
    found = passes(loader)
    assert len(found) == len(loader)
    assert sum(len(x0) for x0, _ in found) == (n if draw is None else 45)


def test_a_pass_ends_with_the_shorter_loader_and_batches_need_not_fit():
    noise, _ = loaders(50, size=7)
    _, data = loaders(30, size=9)
    found = passes(jumbot.CoupledLoader(noise, data, batch=16, minibatch=16, workers=0))
    assert [len(x0) for x0, _ in found] == [16, 14]


def test_deterministic_by_seed_and_leaves_the_global_generator_alone():
    make = {"batch": 32, "minibatch": 16, "workers": 0, "epsilon": 0.5}
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = passes(jumbot.CoupledLoader(*loaders(), **make), 2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert same(first, passes(jumbot.CoupledLoader(*loaders(), **make), 2))
    assert not same(first, passes(jumbot.CoupledLoader(*loaders(), **make, seed=1), 2))
    assert not same(first[:6], first[6:])  # another pass, another order


@pytest.mark.parametrize("after", [1, 3, 6, 8])
def test_resumes_where_it_stopped(after):
    make = {"batch": 32, "minibatch": 16, "workers": 0, "epsilon": 0.5}
    whole = passes(jumbot.CoupledLoader(*loaders(), **make), 2)
    stopped, seen = jumbot.CoupledLoader(*loaders(), **make), []
    while len(seen) < after:
        for pair in stopped:
            seen.append([x.clone() for x in pair])
            if len(seen) == after:
                state = stopped.state_dict()
                break
    resumed = jumbot.CoupledLoader(*loaders(), **make)
    resumed.load_state_dict(state)
    rest = passes(resumed) if after > 6 else passes(resumed, 2)
    assert same(whole[after:], rest)
    with refused(r"^state"):
        jumbot.CoupledLoader(*loaders(), **make, seed=5).load_state_dict(state)


def test_ranks_have_their_own(monkeypatch):
    make = {"batch": 32, "minibatch": 32, "workers": 0, "epsilon": 0.5}
    first = passes(jumbot.CoupledLoader(*loaders(), **make))
    monkeypatch.setenv("RANK", "1")
    assert not same(first, passes(jumbot.CoupledLoader(*loaders(), **make)))


def test_a_distributed_sampler_is_given_the_epoch():
    sets = [loader.dataset for loader in loaders()]
    samplers = [DistributedSampler(one, num_replicas=2, rank=0, seed=3) for one in sets]
    parts = [DataLoader(one, batch_size=8, sampler=sampler) for one, sampler in zip(sets, samplers, strict=True)]
    loader = jumbot.CoupledLoader(*parts, batch=16, minibatch=16, workers=0)
    assert len(loader) == 3
    assert not same(passes(loader), passes(loader))
    assert samplers[0].epoch == 1


def test_labels_follow_their_rows_and_may_be_conditions():
    noise, data = loaders(labels=True)
    free = jumbot.CoupledLoader(noise, data, batch=48, minibatch=48, workers=0)
    for (x0, c0), (_, c1) in free:
        assert (noise.dataset.tensors[1][(noise.dataset.tensors[0] == x0[:1]).all(1)] == c0[0]).all()
        assert not torch.equal(c0, c1)
    kept = jumbot.CoupledLoader(noise, data, batch=96, minibatch=96, workers=0, conditions=1e4, return_mass=True)
    for (x0, c0), (x1, c1), growth in kept:
        assert torch.equal(c0, c1)
        assert len(x0) == len(x1) == len(growth)


def test_a_worker_process_gives_the_same():
    make = {"batch": 32, "minibatch": 16, "epsilon": 0.5, "tau": 2.0, "return_mass": True}
    here = passes(jumbot.CoupledLoader(*loaders(), workers=0, **make))
    with jumbot.CoupledLoader(*loaders(), workers=1, **make) as loader:
        assert same(here, passes(loader))
        for pair in loader:  # left early: the next pass is whole
            del pair
            break
        loader.load_state_dict({"seed": 0, "epoch": 0, "minibatch": 0})
        assert same(here, passes(loader))
    assert loader._pool is None


def test_errors_of_a_worker_are_raised_here():
    noise, _ = loaders()
    data = DataLoader(torch.full((96, 2), torch.nan), batch_size=8)
    with refused(r"^x1"):
        passes(jumbot.CoupledLoader(noise, data, batch=32, minibatch=16, workers=0))


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("loader0", {"loader0": 3}),
        ("loader1", {"loader1": iter([torch.ones(2)])}),
        ("batch", {"batch": 0}),
        ("minibatch", {"minibatch": 64}),
        ("workers", {"workers": -1}),
        ("seed", {"seed": -1}),
        ("conditions", {"conditions": -1}),
        ("draw", {"draw": 0}),
        ("return_mass", {"return_mass": 1}),
        ("epsilonn", {"epsilonn": 1}),
        ("epsilon", {"epsilon": -1}),
        ("tau", {"tau": 0}),
        ("cost", {"cost": "x"}),
    ],
)
def test_bad_input_is_refused_at_once(argument, given):
    noise, data = loaders()
    good = {"loader0": noise, "loader1": data, "batch": 32, "minibatch": 16, "workers": 0}
    with refused(rf"^{argument}\b"):
        jumbot.CoupledLoader(**(good | given))


def test_conditions_need_labels():
    with refused(r"^conditions"):
        passes(jumbot.CoupledLoader(*loaders(), batch=32, minibatch=16, workers=0, conditions=1.0))


def test_numpy_seeds_are_not_touched():
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    passes(jumbot.CoupledLoader(*loaders(), batch=32, minibatch=16, workers=0, epsilon=1.0))
    assert np.random.random() == expected  # noqa: NPY002
