"""`jumbot.CoupledLoader`: pairs from transport batches larger than the training batch, solved during training."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import Seed, check, check_flag, check_non_negative, check_whole
from jumbot.coupling._couple import couple
from jumbot.errors import ArgumentError, suggest_option

Fields = tuple[Tensor, ...]


@dataclass(frozen=True)
class Gathered:
    """As many samples of either side, each with its fields; `single` where a loader yields x alone."""

    sides: tuple[Fields, Fields]
    single: tuple[bool, bool]

    def __len__(self) -> int:
        return len(self.sides[0][0])

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The x of either side, as a worker takes them."""
        x0, x1 = (fields[0].detach().cpu() for fields in self.sides)
        x0, x1 = (x if x.dtype in (torch.float32, torch.float64) else x.float() for x in (x0, x1))
        return x0.numpy(), x1.to(x0.dtype).numpy()

    def conditions(self) -> tuple[np.ndarray, np.ndarray]:
        if any(len(fields) < 2 for fields in self.sides):
            raise ArgumentError("conditions need loaders that yield (x, condition).")
        first, second = (fields[1].detach().cpu().numpy() for fields in self.sides)
        return first, second

    def take(self, side: int, rows: np.ndarray) -> Any:
        index = torch.from_numpy(np.ascontiguousarray(rows))
        fields = tuple(field[index.to(field.device)] for field in self.sides[side])
        return fields[0] if self.single[side] else fields


def batches_of(loader0: Iterable[Any], loader1: Iterable[Any], size: int, seed: Sequence[int]) -> Iterator[Gathered]:
    """Batches of `size` samples of either loader until one of them ends; the last one may be smaller."""
    sides = [_Side(loader, (*seed, k)) for k, loader in enumerate((loader0, loader1))]
    while True:
        count = min(side.fill(size) for side in sides)
        if count == 0:
            return
        fields = [side.cut(count) for side in sides]
        yield Gathered((fields[0], fields[1]), (sides[0].single, sides[1].single))
        if count < size:
            return


class _Side:
    """A loader, read with its own stream of random numbers."""

    def __init__(self, loader: Iterable[Any], seed: Sequence[int]) -> None:
        words = np.random.default_rng(list(seed)).integers(2**63 - 1, size=2)
        self.state = torch.Generator().manual_seed(int(words[0])).get_state()
        for part in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
            if isinstance(getattr(part, "generator", None), torch.Generator):
                part.generator.manual_seed(int(words[1]))  # type: ignore[union-attr]
            if hasattr(part, "set_epoch"):
                part.set_epoch(seed[2])  # type: ignore[union-attr]
        self.iterator: Iterator[Any] | None = None
        self.loader, self.single = loader, True
        self.kept: list[Fields] = []

    def _next(self) -> Any:
        """The next batch of the loader, whose draws do not depend on what is drawn elsewhere."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self.state)
        try:
            self.iterator = self.iterator or iter(self.loader)
            return next(self.iterator, None)
        finally:
            self.state = torch.get_rng_state()
            torch.set_rng_state(outside)

    def fill(self, size: int) -> int:
        """Read what is needed; return how many samples are available, up to `size`."""
        have = sum(len(fields[0]) for fields in self.kept)
        while have < size and (found := self._next()) is not None:
            self.single = isinstance(found, Tensor)
            fields = (found,) if isinstance(found, Tensor) else tuple(found)
            if not all(isinstance(field, Tensor) and len(field) == len(fields[0]) for field in fields):
                raise ArgumentError("loader0, loader1 must yield tensors, or tuples of tensors of the same length.")
            self.kept.append(fields)
            have += len(fields[0])
        return min(have, size)

    def cut(self, count: int) -> Fields:
        """The first `count` samples; what is left is kept for the next batch."""
        fields = tuple(torch.cat(parts) for parts in zip(*self.kept, strict=True))
        self.kept = [tuple(field[count:] for field in fields)] if len(fields[0]) > count else []
        return tuple(field[:count] for field in fields)


def size_of(loader: Any) -> int:
    """How many samples a `DataLoader` yields in a pass."""
    size: int = len(loader.sampler) if hasattr(loader, "sampler") else sum(len(x) for x in loader)
    if getattr(loader, "drop_last", False):
        size -= size % loader.batch_size
    return size


def start_worker() -> None:
    """Use one thread, so that training keeps the others, and leave Ctrl-C to the training process."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def solve_job(data: tuple[Any, Any, Any], settings: dict[str, Any], draw: int | None, seed: Any) -> Any:
    """Rows i and j and the growth of the pairs, as arrays."""
    x0, x1, conditions = data
    *_, i, j, growth = couple(
        x0,
        x1,
        **settings,
        conditions=conditions,
        draw=draw,
        generator=np.random.default_rng(seed),
        return_index=True,
        return_mass=True,
    )
    return i, j, np.array(growth)


class CoupledLoader:
    """Minibatches of pairs from two loaders, coupled in larger batches.

    A worker process couples `batch` samples of each loader with `jumbot.couple` while the model trains on the pairs of
    the previous batch; `minibatch` pairs are yielded at a time.  An epoch ends with the shorter loader.  Loaders yield
    tensors, or tuples whose first entry is x; the other entries of a sample are kept with it.

    All randomness depends only on `seed`, the rank of this process (of a `torch.distributed` run, or the variable
    RANK), and the numbers of the epoch and of the batch.  PyTorch's global generator is not used.

    Parameters
    ----------
    loader0, loader1 : iterable
        `DataLoader`s, or other iterables that can be iterated over repeatedly.  In a distributed run, give each rank
        its share, e.g. with a `DistributedSampler`, whose `set_epoch` is called.
    batch : int, default 4096
        The number of samples of each side that are coupled at once.
    minibatch : int, default 256
        The number of pairs that are yielded at once; the last minibatch of a batch may be smaller.
    workers : int, default 1
        The number of processes that solve; 0 solves in this process.  They are started by "spawn", so a script needs
        `if __name__ == "__main__":`.
    seed : int, default 0
        Random seed.
    conditions : float, optional
        The weight of the second entries of the samples as conditions: see `jumbot.couple`.
    draw : int, optional
        The number of pairs per batch; by default `batch`.
    return_mass : bool, default False
        Yield the growth of each pair as a third entry.
    **settings
        The other keywords of `jumbot.couple`: epsilon, tau, divergence, mass, cost, tol, replace.

    Examples
    --------
    >>> import torch, jumbot
    >>> from torch.utils.data import DataLoader
    >>> noise, data = (DataLoader(torch.randn(64, 2), batch_size=8, shuffle=True) for _ in range(2))
    >>> loader = jumbot.CoupledLoader(noise, data, batch=32, minibatch=16, workers=0)
    >>> [tuple(x0.shape) for x0, x1 in loader]
    [(16, 2), (16, 2), (16, 2), (16, 2)]
    """

    def __init__(
        self,
        loader0: Iterable[Any],
        loader1: Iterable[Any],
        batch: int = 4096,
        minibatch: int = 256,
        workers: int = 1,
        *,
        seed: int = 0,
        conditions: float | None = None,
        draw: int | None = None,
        return_mass: bool = False,
        **settings: Any,
    ) -> None:
        self.loader0, self.loader1 = loader0, loader1
        for name, loader in (("loader0", loader0), ("loader1", loader1)):
            if isinstance(loader, Tensor | Iterator) or not hasattr(loader, "__iter__"):
                raise ArgumentError(
                    f"{name} must be a DataLoader, or an iterable that can be iterated over repeatedly."
                )
        self.batch = check_whole("batch", batch, least=1)
        self.minibatch = check_whole("minibatch", minibatch, least=1)
        if self.minibatch > self.batch:
            raise ArgumentError(f"minibatch must be at most batch, {self.batch}, got {self.minibatch}.")
        self.workers, self.seed = check_whole("workers", workers, least=0, most=256), check("seed", seed, Seed)
        self.conditions = None if conditions is None else check_non_negative("conditions", conditions)
        self.draw = None if draw is None else check_whole("draw", draw, least=1)
        self.return_mass = check_flag("return_mass", return_mass)
        known = ["epsilon", "tau", "divergence", "mass", "cost", "tol", "replace"]
        if unknown := set(settings) - {*known}:
            name = min(unknown)
            raise ArgumentError(f"{name}: not an option of CoupledLoader; {suggest_option(name, known)}")
        self.settings = settings
        one = np.ones((2, 1))
        solve_job((one, one, None), settings, None, 0)  # wrong settings raise here, not in a worker
        self._epoch, self._delivered = 0, 0
        self._pool: ProcessPoolExecutor | None = None

    def __iter__(self) -> Iterator[Any]:
        """The pairs of one pass, starting where `load_state_dict` says."""
        skip, epoch = self._delivered, self._epoch
        for number, (gathered, pairs) in enumerate(self._solved(epoch, skip)):
            for k, rows in enumerate(self._parts(len(gathered))):
                if number * self._full_parts + k < skip:
                    continue
                self._delivered = number * self._full_parts + k + 1
                yield self._taken(gathered, pairs, rows)
        self._epoch, self._delivered = epoch + 1, 0

    def __len__(self) -> int:
        """Minibatches of a whole pass; a TypeError if a loader does not know its number of samples."""
        full, rest = divmod(min(size_of(self.loader0), size_of(self.loader1)), self.batch)
        return full * self._full_parts + (len(self._parts(rest)) if rest else 0)

    def state_dict(self) -> dict[str, int]:
        """The state of this epoch, to be saved with the model and passed to `load_state_dict`."""
        return {"seed": self.seed, "epoch": self._epoch, "minibatch": self._delivered}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from `state_dict`: the next iteration yields the rest of that epoch."""
        if state["seed"] != self.seed:
            raise ArgumentError(f"state was saved with the seed {state['seed']}, but this loader has {self.seed}.")
        self._epoch, self._delivered = int(state["epoch"]), int(state["minibatch"])

    def close(self) -> None:
        """End the worker processes; another iteration starts them again."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> CoupledLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _solved(self, epoch: int, skip: int) -> Iterator[tuple[Gathered, Any]]:
        """Batches with their pairs, in order; those that are skipped are gathered but not solved."""
        rank = _rank()
        ahead: deque[tuple[Gathered, Callable[[], Any] | Future[Any] | None]] = deque()
        source = batches_of(self.loader0, self.loader1, self.batch, (self.seed, rank, epoch))
        try:
            for number, gathered in enumerate(source):
                done = (number + 1) * self._full_parts <= skip
                ahead.append((gathered, None if done else self._submitted(gathered, (self.seed, rank, epoch, number))))
                if len(ahead) > self.workers:
                    yield _result(*ahead.popleft())
            while ahead:
                yield _result(*ahead.popleft())
        finally:
            for _, job in ahead:
                if isinstance(job, Future):
                    job.cancel()

    def _submitted(self, gathered: Gathered, seed: tuple[int, ...]) -> Future[Any] | Callable[[], Any]:
        count = None if self.draw is None else self._pairs(len(gathered))
        conditions = None if self.conditions is None else (*gathered.conditions(), self.conditions)
        job = (*gathered.points(), conditions), self.settings, count, seed
        if self.workers == 0:
            return lambda: solve_job(*job)
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=start_worker)
        return self._pool.submit(solve_job, *job)

    def _pairs(self, samples: int) -> int:
        """Pairs of a batch of so many samples."""
        return samples if self.draw is None else max(1, round(self.draw * samples / self.batch))

    @property
    def _full_parts(self) -> int:
        return len(self._parts(self.batch))

    def _parts(self, samples: int) -> list[slice]:
        pairs = self._pairs(samples)
        return [slice(first, min(first + self.minibatch, pairs)) for first in range(0, pairs, self.minibatch)]

    def _taken(self, gathered: Gathered, pairs: Any, rows: slice) -> Any:
        i, j, growth = pairs
        out = gathered.take(0, i[rows]), gathered.take(1, j[rows])
        return (*out, torch.from_numpy(growth[rows])) if self.return_mass else out


def _result(gathered: Gathered, job: Any) -> tuple[Gathered, Any]:
    return gathered, job.result() if isinstance(job, Future) else job and job()


def _rank() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", 0))
