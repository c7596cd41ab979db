"""`jumbot.solve` where one engine takes over from another."""

from __future__ import annotations

from ..case import random_case
from ..draw import Generator
from ..engines import engine
from ..report import Report
from ..watch import Watch
from .solving import judged

#: around 2^20 entries, the most that the compiled kernels take; also as strips
LARGE = ((1024, 1024), (1025, 1024), (1024, 1025), (1100, 1000), (1023, 1025), (2, 600_000), (300_000, 4), (4096, 257))
#: around 2^14 and 2^16 entries in all, from which on work is shared among threads
SHARED = ((128, 128), (127, 129), (129, 128), (256, 256), (255, 257), (257, 256))


def large(rng: Generator, watch: Watch, report: Report) -> None:
    shape = LARGE[int(rng.integers(len(LARGE)))]
    case = random_case(rng, shape)
    while case.wild or case.problems[0].epsilon == 0 or "power" in case.problems[0].divergence:
        case = random_case(rng, shape)
    with engine("its own", int(rng.choice([1, 2]))):
        judged(rng, watch, report, case, "around 2^20 entries")


def shared(rng: Generator, watch: Watch, report: Report) -> None:
    n, m = SHARED[int(rng.integers(len(SHARED)))]
    case = random_case(rng, (n, m))
    while case.wild:
        case = random_case(rng, (n, m))
    with engine("its own", int(rng.choice([1, 2, 3, 4]))):
        judged(rng, watch, report, case, "where threads begin")
