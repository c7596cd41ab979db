"""What a call returned belongs to the caller: no later call changes it, in threads, forks and workers neither."""

import multiprocessing
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import jumbot

from .calls import CALLS, Call, changes, copied

THREADS = 8
LARGE = [name for name, call in CALLS.items() if call.large]
SMALL = [name for name in CALLS if name not in LARGE]
KINDS = list(dict.fromkeys(name.rpartition(", ")[0] for name in LARGE))


def kept_and_changed(names, calls=CALLS):
    """Names of results that later calls changed: each call is made with other data while the first is kept."""
    held = {name: calls[name](0) for name in names}
    before = {name: copied(result) for name, result in held.items()}
    for seed in (1, 2):
        for name in names:
            calls[name](seed)
    return {name: found for name in names if (found := changes(before[name], held[name]))}


def test_small_results_stay():
    assert not kept_and_changed(SMALL)


@pytest.mark.parametrize(
    ("kind", "library"),  # libraries take turns in coming first, which is what the quick run tries of each kind
    [(kind, ("numpy", "torch")[(place + at) % 2]) for place, kind in enumerate(KINDS) for at in range(2)],
)
def test_large_results_stay(kind, library):
    assert not kept_and_changed([f"{kind}, {library}"])


def test_a_reused_buffer_is_found():
    """The defect that this file is for: memory of a plan that is handed out again while it is in use."""
    memory = {}

    def reuse(*arrays):
        plan = jumbot.solve(*arrays, epsilon=0.1, tau=1.0).plan
        shared = memory.setdefault(plan.shape, plan)
        shared[...] = plan
        return {"plan": shared}

    call = CALLS["kl, numpy"]
    assert kept_and_changed(["lent"], {"lent": Call(call.make, reuse)}) == {"lent": [".plan"]}


def in_threads(names):
    """Names of (call, seed) whose result, made beside seven others, is not that of a call alone, or did not stay."""
    tasks = [(name, seed) for seed in range(2) for name in names]
    alone = {task: copied(CALLS[task[0]](task[1])) for task in tasks}
    with ThreadPoolExecutor(THREADS) as pool:
        held = dict(zip(tasks, pool.map(lambda task: CALLS[task[0]](task[1]), tasks), strict=True))
    return {task: found for task in tasks if (found := changes(alone[task], held[task]))}


def test_eight_threads_get_what_one_gets():
    assert not in_threads(SMALL)


@pytest.mark.slow
def test_eight_threads_with_large_plans():
    assert not in_threads(["large kl, numpy", "large kl, torch", "large balanced, torch", "large divergence, torch"])


FORKED = [*SMALL, "large kl, numpy"]


def _child(expected, connection):
    torch.set_num_threads(1)  # OpenMP's own threads do not survive a fork
    connection.send({name: found for name in FORKED if (found := changes(expected[name], CALLS[name](0)))})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_gets_the_same_and_leaves_the_parent_alone():
    held = {name: CALLS[name](0) for name in FORKED}
    expected = {name: copied(result) for name, result in held.items()}
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forks beside threads, ours or those of another package
        child = context.Process(target=_child, args=(expected, theirs))
        child.start()
    theirs.close()
    try:
        assert ours.poll(120), "the child hangs"
        assert ours.recv() == {}
    finally:
        child.join(10)
        child.kill()
    assert child.exitcode == 0
    assert not {name: found for name in FORKED if (found := changes(expected[name], held[name]))}


class Plans(torch.utils.data.Dataset):
    """Item k is what a small call returns."""

    def __len__(self):
        return len(SMALL)

    def __getitem__(self, k):
        return copied(CALLS[SMALL[k]](0))


def test_workers_of_a_loader_get_the_same():
    expected = [copied(CALLS[name](0)) for name in SMALL]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = torch.utils.data.DataLoader(Plans(), batch_size=None, num_workers=2, collate_fn=dict, timeout=120)
        found = list(loader)
    for name, one, other in zip(SMALL, expected, found, strict=True):
        assert not changes(one, {key[1:]: np.asarray(x) for key, x in other.items()}), name
