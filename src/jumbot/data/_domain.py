"""A domain: samples that become tensors batch by batch, with labels where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from jumbot.data._roles import Roles
from jumbot.errors import ArgumentError

Label = str | int | float | bool
"""Of a class, as it was given."""

MOST_CHANNELS = 16


@runtime_checkable
class Samples(Protocol):
    """The protocol of samples: a length, and `batch`, which decodes rows and returns them as one tensor."""

    def __len__(self) -> int: ...

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        """float32 `(b, *shape)`; with `rng`, augmented for training by draws from it."""
        ...


class ArraySamples:
    """Samples of one array, in memory or memory-mapped, converted to float32 batch by batch.

    Parameters
    ----------
    array : ndarray
        `(n, d)` numbers are features. `(n, h, w)`, `(n, h, w, c)` and `(n, c, h, w)` with c from 1 to 16 are images: a
        batch of them is `(b, c, h, w)`, bytes divided by 255, floats as they are.

    Raises
    ------
    jumbot.ArgumentError
        If the array is empty, has another shape, or does not hold numbers.

    Examples
    --------
    >>> ArraySamples(np.full((4, 8, 8), 255, np.uint8)).batch(np.array([0, 2])).shape
    torch.Size([2, 1, 8, 8])
    """

    def __init__(self, array: np.ndarray) -> None:
        if array.dtype.kind not in "fiub":
            raise ArgumentError(f"data: an array of {array.dtype}; samples must be numbers.")
        if array.ndim == 2:
            self.shape: tuple[int, ...] = (array.shape[1],)
        elif array.ndim == 4:
            self._channels_last = _channel_axis(array.shape) == 3
            self.shape = (array.shape[3], *array.shape[1:3]) if self._channels_last else array.shape[1:]
        elif array.ndim == 3:
            if array.shape[2] in (1, 3) or array.shape[2] <= MOST_CHANNELS < array.shape[1]:
                raise ArgumentError(
                    f"data: an array of shape {array.shape} is one image; pass (n, h, w,  {array.shape[2]}), which is "
                    "x[None] for one, or x[..., None] for grey ones."
                )
            self.shape = (1, *array.shape[1:])
        else:
            raise ArgumentError(
                f"data: an array of shape {array.shape}; pass (n, d) features, or (n, h, w) or (n, h, w, 3) images."
            )
        if 0 in array.shape:
            raise ArgumentError(f"data: an array of shape {array.shape} contains no samples.")
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        rows = np.asarray(self.array[np.asarray(indices)])
        if rows.ndim == 3:
            rows = rows[:, None]
        elif rows.ndim == 4 and self._channels_last:
            rows = rows.transpose(0, 3, 1, 2)
        tensor = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32))
        return tensor / 255 if rows.ndim == 4 and rows.dtype == np.uint8 else tensor


def _channel_axis(shape: tuple[int, ...]) -> int:
    """1 or 3, the axis of the channels of `(n, ., ., .)` images."""
    for few in ((1, 3), range(1, MOST_CHANNELS + 1)):
        found = [axis for axis in (3, 1) if shape[axis] in few]
        if len(found) == 1 or (found and len(few) == 2):
            return found[0]
    square = [axis for axis, sides in ((3, shape[1:3]), (1, shape[2:4])) if sides[0] == sides[1]]
    if not found or len(square) != 1:
        where = f"1 to {MOST_CHANNELS} channels, last or first" if not found else "channels last or first, not both"
        raise ArgumentError(f"data: an array of shape {shape}; images have {where}; see kind='raw' for others.")
    return square[0]


class SubsetSamples:
    """Some rows of other samples, in the given order; nothing is copied."""

    def __init__(self, samples: Samples, indices: np.ndarray) -> None:
        self.samples, self.indices = samples, indices

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, ...]:
        return sample_shape(self.samples)

    @property
    def kind(self) -> str | None:
        found: str | None = getattr(self.samples, "kind", None)
        return found

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        return self.samples.batch(self.indices[np.asarray(indices)], rng)


class JoinedSamples:
    """Several samples, one after the other, and the name of each; nothing is copied.

    Those that are joined themselves are taken part by part.
    """

    def __init__(self, parts: Sequence[Samples], names: Sequence[str], kind: str) -> None:
        self.parts: list[Samples] = []
        self.names: list[str] = []
        for part, name in zip(parts, names, strict=True):
            self.parts += part.parts if isinstance(part, JoinedSamples) else [part]
            self.names += part.names if isinstance(part, JoinedSamples) else [name]
        self.kind = kind
        self.ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        return sample_shape(self.parts[0])

    def locate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each row: in which part it lies, and its number there."""
        part = np.searchsorted(self.ends, rows, side="right")
        starts = self.ends - [len(one) for one in self.parts]
        return part, rows - starts[part]

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        part, rows = self.locate(np.asarray(indices))
        found = [(p, np.flatnonzero(part == p)) for p in np.unique(part)]
        pieces = [self.parts[p].batch(rows[places], rng) for p, places in found]
        if not pieces:
            return self.parts[0].batch(rows, rng)
        order = np.argsort(np.concatenate([places for _, places in found]), kind="stable")
        return torch.cat(pieces)[torch.from_numpy(order)]


def sample_shape(samples: Samples) -> tuple[int, ...]:
    """Shape of one sample: the attribute `shape` if there is one, otherwise that of the first sample."""
    shape = getattr(samples, "shape", None)
    return tuple(shape if shape is not None else samples.batch(np.arange(1)).shape[1:])


def drawn_rows(count: int, most: int, seed: int | Sequence[int] = 0) -> np.ndarray:
    """At most `most` of the numbers below `count`, in their order; the same ones for the same seed."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def even_rows(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers below `count`, as far apart as they can be.

    >>> even_rows(101, 3), even_rows(2, 9)
    (array([  0,  50, 100]), array([0, 1]))
    """
    found: np.ndarray = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))
    return found


@dataclass(frozen=True)
class Domain:
    """Samples of one domain, with labels if they are known.

    Attributes
    ----------
    name : str
        Its name in messages and reports.
    samples : Samples
        The samples.
    labels : array of int64, optional
        Indices into `classes`; -1 is no label, or a class that the source does not have.
    classes : tuple of str
        Names of the classes, sorted; labels that are numbers in the order of the numbers.
    ids : sequence of str, optional
        Names of the samples (files); None for row numbers.
    roles : Roles, optional
        The roles of the columns of the table that it was read from.
    origins : array of int64, optional
        Indices into `sources`, where samples of several sources were joined.
    sources : tuple of str
        Names of the joined sources.
    values : array of shape (n, outputs), optional
        The numbers to predict, where these are not classes; NaN where they are unknown.
    label_dtype : str, optional
        The numpy type of class labels that were given as an array.
    given_labels : mapping
        Class labels as they were given, by the name of their class, where that is not enough to restore them.

    Raises
    ------
    jumbot.ArgumentError
        If labels, values and samples do not fit together.

    Examples
    --------
    >>> usps = Domain("usps", ArraySamples(np.zeros((3, 2))), np.array([0, 1, 1]), ("cat", "dog"))
    >>> len(usps), usps.shape, usps.counts().tolist()
    (3, (2,), [1, 2])
    >>> usps.subset([2, 0]).labels.tolist(), usps.unlabelled().labels
    ([1, 0], None)
    """

    name: str
    samples: Samples
    labels: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    ids: Sequence[str] | None = None
    roles: Roles | None = None
    origins: np.ndarray | None = None
    sources: tuple[str, ...] = ()
    values: np.ndarray | None = None
    label_dtype: str | None = None
    given_labels: Mapping[str, Label] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, values in (("labels", self.labels), ("ids", self.ids), ("values", self.values)):
            if values is not None and len(values) != len(self.samples):
                raise ArgumentError(f"{self.name}: {len(values)} {what} for {len(self.samples)} samples.")
        if self.labels is not None:
            labels = np.asarray(self.labels)
            if labels.ndim != 1 or labels.dtype.kind not in "iu":
                raise ArgumentError(
                    f"{self.name}: labels must be whole numbers, one per sample; use as_domain for names."
                )
            if labels.size and (labels.min() < -1 or labels.max() >= len(self.classes)):
                raise ArgumentError(
                    f"{self.name}: labels run from {labels.min()} to {labels.max()}, but there are "
                    f"{len(self.classes)} classes."
                )
            object.__setattr__(self, "labels", labels.astype(np.int64, copy=False))
        if self.values is not None and (self.labels is not None or np.ndim(self.values) != 2):
            raise ArgumentError(f"{self.name}: values must be numbers (n, outputs), without class labels.")

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, without the batch axis."""
        return sample_shape(self.samples)

    def counts(self) -> np.ndarray:
        """Samples of each class; rows without a label are left out."""
        if self.labels is None:
            raise ArgumentError(f"{self.name}: has no labels to count.")
        return np.bincount(self.labels[self.labels >= 0], minlength=len(self.classes))

    def subset(self, indices: np.ndarray | Sequence[int]) -> Domain:
        """The rows `indices` (numbers or a mask), in that order."""
        chosen = np.asarray(indices)
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        subset = getattr(self.samples, "subset", None)  # files keep their own kind: they are decoded at the asked size
        return replace(
            self,
            samples=subset(rows) if subset is not None else SubsetSamples(self.samples, rows),
            labels=None if self.labels is None else self.labels[rows],
            values=None if self.values is None else self.values[rows],
            origins=None if self.origins is None else self.origins[rows],
            ids=None if self.ids is None else [self.ids[i] for i in rows],
        )

    def unlabelled(self) -> Domain:
        """The same samples without labels, as training sees a target."""
        return replace(self, labels=None, values=None)

    @property
    def strata(self) -> np.ndarray | None:
        """The strata of minibatches: class, and source if there are several; None without either."""
        if self.labels is None or self.origins is None:
            return self.origins if self.labels is None else self.labels
        return np.where(self.labels < 0, -1, self.labels * len(self.sources) + self.origins)

    @property
    def known(self) -> np.ndarray:
        """`(n,)`: whether the label of a sample, or every number of it, is known."""
        if self.values is not None:
            return ~np.isnan(self.values).any(1)
        return np.zeros(len(self), bool) if self.labels is None else self.labels >= 0

    def with_samples(self, samples: Samples) -> Domain:
        """The same labels and names on other samples of the same length."""
        return replace(self, samples=samples)
