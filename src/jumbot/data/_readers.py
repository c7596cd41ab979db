"""Image files read ahead of their use by other processes.

Decoding releases Python's lock, but opening, converting and cropping hold it, as does a training step: in one process
the two wait for each other.  The processes are joblib's (loky): they start as new processes that neither import the
user's script again, as spawned ones do, nor copy a process with running threads, as forked ones do, and results come
through pipes, which need no shared memory, of which containers have little.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import parent_process
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.data._domain import JoinedSamples, Samples, SubsetSamples
from jumbot.data._images import FileSamples
from jumbot.data._inputs import FormattedSamples
from jumbot.errors import JumbotError, need

MOST = 4  # processes, where the number is left to us
_WORTH = 2000  # images: fewer would be read before the processes have started

Wait = Callable[[], Tensor]
Submit = Callable[[str, np.ndarray, tuple[int, ...] | None], Wait]
"""(which samples, which rows, seed of the augmentation or None) -> a function that waits for the batch."""


def in_files(samples: Samples) -> bool:
    """Whether some of the samples are decoded from files."""
    if isinstance(samples, JoinedSamples):
        return any(in_files(part) for part in samples.parts)
    if isinstance(samples, SubsetSamples):
        return in_files(samples.samples)
    return isinstance(samples.raw if isinstance(samples, FormattedSamples) else samples, FileSamples)


def count_workers(asked: int | None, samples: Mapping[str, Samples], images: int) -> int:
    """The number of processes to read these samples, with `images` in total: as requested, or as many as are
    worthwhile.

    The half of the cores that this process may use, less one, and at most four: the rest computes.  None for data in
    memory, for few images, and in a process that is itself a worker.
    """
    if not any(in_files(one) for one in samples.values()):
        return 0
    if asked is not None:
        return asked
    if images < _WORTH or parent_process() is not None:
        return 0
    cores = need("joblib", "reading image files", "adapt").cpu_count()  # those that a container may use
    cores //= max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))  # torchrun's processes share them
    return min(max(cores // 2 - 1, 0), MOST)


@contextmanager
def readers(samples: Mapping[str, Samples], workers: int) -> Iterator[Submit]:
    """Processes that read batches of `samples`, started at the first request and stopped at the end of the block.

    Samples in memory are read here, not sent to them.
    """
    loky = need("joblib.externals.loky", "workers above 0", "adapt")
    there = {name: one for name, one in samples.items() if in_files(one)}
    pool = loky.ProcessPoolExecutor(workers, initializer=_prepare, initargs=(there, os.getpid()))

    def submit(name: str, rows: np.ndarray, key: tuple[int, ...] | None) -> Wait:
        if name not in there:
            return lambda: _batch(samples[name], rows, key)
        with _interrupts_ignored(), _lost_worker_named(workers):
            future = pool.submit(_read, name, rows, key)

        def wait() -> Tensor:
            with _lost_worker_named(workers):
                return torch.from_numpy(future.result())

        return wait

    try:
        yield submit
    finally:
        pool.shutdown(wait=True, kill_workers=True)


@contextmanager
def _lost_worker_named(workers: int) -> Iterator[None]:
    """Raise a clear error for a lost process, which the next request or the wait for its answer notices."""
    try:
        yield
    except BrokenProcessPool as error:
        raise JumbotError(
            "workers: a process that reads images has ended unexpectedly, perhaps because of a lack of memory; use "
            f"fewer than {workers}, or workers=0."
        ) from error


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C, which this process handles."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_samples: dict[str, Samples] = {}
"""In a worker: the samples that it reads from."""


def _prepare(samples: dict[str, Samples], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where there is no mask to inherit
    torch.set_num_threads(1)
    _samples.update(samples)
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    """Exit if the process that requests the images has been killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _read(name: str, rows: np.ndarray, key: tuple[int, ...] | None) -> Any:
    return _batch(_samples[name], rows, key).numpy()


def _batch(samples: Samples, rows: np.ndarray, key: tuple[int, ...] | None) -> Tensor:
    return samples.batch(rows, None if key is None else np.random.default_rng(key))
