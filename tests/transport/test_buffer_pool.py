"""Memory of large results: used again when nobody holds it, and never before."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import jumbot
from jumbot.transport._kernels import memory as pool
from jumbot.transport._kernels.memory import LEAST, acquire

pytestmark = pytest.mark.skipif(pool._FREE is None, reason="memory cannot be marked as free on this platform")
SIDE = 1024
HOLDERS = {
    "a row": lambda x: x[3],
    "the transpose": lambda x: x.T,
    "a flat view": lambda x: x.reshape(-1)[::7],
    "other numbers": lambda x: x.view(np.int64),
    "a copy of the view": lambda x: x[...],
    "a buffer": lambda x: memoryview(x),
    "an array of the buffer": lambda x: np.asarray(memoryview(x)),
    "a broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "an ndarray of a kind": lambda x: x.view(np.ma.MaskedArray),
    "an iterator": lambda x: x.flat,
    "a tensor": lambda x: torch.from_numpy(x),
    "a part of a tensor": lambda x: torch.from_numpy(x)[5:],
    "an array of a tensor": lambda x: torch.from_numpy(x)[:, 2].numpy(),
    "a storage": lambda x: torch.from_numpy(x).untyped_storage(),
    "dlpack": lambda x: torch.from_dlpack(x),
    "a gradient's past": lambda x: (torch.ones(SIDE, SIDE, requires_grad=True).double() * torch.from_numpy(x)).sum(),
}


@pytest.fixture(scope="module", autouse=True)
def _only_new_objects_are_looked_through():
    """Collecting garbage among all that numba and torch have made takes a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_lies_there():
    gc.collect()
    pool._pool.clear()


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_held_is_not_reused(name):
    first = acquire(SIDE, SIDE)
    first[:] = 1.0
    place, holder = first.ctypes.data, HOLDERS[name](first)
    del first
    others = [acquire(SIDE, SIDE) for _ in range(4)]
    for other in others:
        other[:] = 2.0
    assert place not in [other.ctypes.data for other in others]
    del holder
    gc.collect()
    assert acquire(SIDE, SIDE).ctypes.data == place, "nobody holds it any more"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_results_of_large_problems_lie_there(dtype):
    cost = np.random.default_rng(0).random((2 * SIDE, SIDE + 8)).astype(dtype)
    solution = jumbot.solve(cost, epsilon=0.1, tau=1.0)
    place = solution.plan.ctypes.data
    del solution
    again = jumbot.solve(torch.from_numpy(cost), epsilon=0.1, tau=1.0)
    assert again.plan.data_ptr() == place


def test_another_size_is_other_memory():
    first = acquire(SIDE, SIDE)
    place = first.ctypes.data
    del first
    other = acquire(SIDE, SIDE + 1)
    assert other.ctypes.data != place
    assert acquire(SIDE + 1, SIDE).ctypes.data != place
    assert acquire(2 * SIDE, SIDE // 2).ctypes.data == place


def test_few_pieces_are_kept_and_small_ones_not_at_all():
    arrays = [acquire(SIDE + k, SIDE) for k in range(9)]
    del arrays
    assert len(pool._pool) == pool._pool.maxlen == 3
    assert isinstance(acquire(LEAST // 8 - 1).base, type(None))
    assert acquire(SIDE, SIDE).flags.carray


def test_memory_that_cannot_be_marked_is_given_back(monkeypatch):
    monkeypatch.setattr(pool, "_FREE", -1)  # as the system answers for locked memory: an invalid argument
    array = acquire(SIDE, SIDE)
    del array
    assert not pool._pool


def test_a_system_without_large_pages(monkeypatch):
    monkeypatch.setattr(pool.mmap, "MADV_HUGEPAGE", 9999)
    assert acquire(SIDE, SIDE).shape == (SIDE, SIDE)


def test_where_memory_is_short_the_pool_is_cleared(monkeypatch):
    def refused(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    first = acquire(SIDE, SIDE)
    del first
    monkeypatch.setattr(pool.mmap, "mmap", refused)
    assert acquire(SIDE, SIDE + 1).base is None
    assert not pool._pool


def test_too_much_is_the_error_of_numpy():
    with pytest.raises((MemoryError, ValueError)):
        acquire(1 << 30, 1 << 30)


def test_eight_threads_never_share():
    def mine(number):
        held = []
        for turn in range(20):
            array = acquire(SIDE, SIDE)
            array[:] = number
            held = [*held[-1:], array]
            if not all((x == number).all() for x in held[:: 1 + turn % 2]):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(mine, range(8)))
