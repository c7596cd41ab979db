"""The memory that compiled calls work in: begins at cache lines, is used again, and never by two threads at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

import jumbot
from jumbot.transport._kernels.memory import own, parts


def test_parts_begin_at_cache_lines_and_do_not_overlap():
    shapes = (9, 65), (5,), (2, 3, 1), (1,)
    found = parts(*shapes)
    for number, part in enumerate(found):
        part[:] = number
    assert [part.shape for part in found] == list(shapes)
    assert not any(part.ctypes.data % 64 for part in found)
    for number, part in enumerate(found):
        np.testing.assert_array_equal(part, number)


def test_memory_is_used_again_in_one_thread_alone():
    meeting = Barrier(2)

    def mine(_):
        meeting.wait()
        first, second = own((3, 4))[0], own((3, 4))[0]
        meeting.wait()
        return first, second

    with ThreadPoolExecutor(2) as pool:
        (one, one_again), (other, _) = pool.map(mine, range(2))
    assert one is one_again
    assert not np.shares_memory(one, other)


def test_large_memory_is_not_kept():
    assert own((1, 1 << 20))[0] is not own((1, 1 << 20))[0]


def test_problems_in_threads_at_once_have_the_bits_of_one_after_another(rng):
    """Hundreds of sweeps each: with common memory they would meet."""
    clouds = rng.random((24, 2, 60, 2))
    costs = ((clouds[:, 0, :, None] - clouds[:, 1, None]) ** 2).sum(-1)

    def plan(cost):
        return jumbot.solve(cost, epsilon=1e-3, tau=20.0).plan

    alone = [plan(cost) for cost in costs]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(plan, costs))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
