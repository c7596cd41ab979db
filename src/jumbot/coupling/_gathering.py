"""Samples of two loaders, gathered into transport batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.errors import ArgumentError

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


def batches_of(
    loader0: Iterable[Any], loader1: Iterable[Any], size: int, seed: Sequence[int]
) -> Iterator[Gathered]:  # fmt: skip
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
    """A loader, read with a stream of random numbers of its own."""

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
        """How many samples are there, up to `size`, after reading what is needed."""
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
