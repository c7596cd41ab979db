"""From raw samples to network input: one `InputFormat` for source, target and whatever is predicted later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumbot.data.columns import Columns
from jumbot.data.domain import ArraySamples, Domain, Samples, sample_shape
from jumbot.data.fitting import find_columns
from jumbot.data.images import read_images
from jumbot.data.labels import check_source, match_classes
from jumbot.data.scaling import check_standardise, learn_scaling
from jumbot.data.tables import TableSamples
from jumbot.errors import ArgumentError

PIXELS = {
    "symmetric": ((0.5,), (0.5,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "unit": ((0.0,), (1.0,)),
    "as-is": ((0.0,), (1.0,)),
}
SMALL = 64
"""Side up to which images are like digits: looked at whole, by a network of their own."""
PHOTOGRAPH = 224
"""Side of images from files that differ in size and are not small, where none is asked for."""
Transform = Callable[[Tensor, np.random.Generator | None], Tensor]


@dataclass(frozen=True)
class InputFormat:
    """How raw samples become network input; JSON-able with `dataclasses.asdict`, read back with `from_dict`.

    >>> InputFormat("image", size=(28, 28), channels=1).shape
    (1, 28, 28)
    """

    kind: str
    """"image" or "features"."""
    width: int | None = None
    """Number of features."""
    size: tuple[int, int] | None = None
    """Height and width to which images are resized, bilinear, aspect not kept."""
    channels: int | None = None
    """1 or 3: grey is repeated to colour, colour becomes grey by luma."""
    pixels: str = "symmetric"
    """Pixels to [-1, 1] ("symmetric"), [0, 1] ("unit"), by ImageNet's mean and deviation ("imagenet"), or "as-is"."""
    mean: tuple[float, ...] | None = None
    """Subtracted from features."""
    std: tuple[float, ...] | None = None
    """What features are then divided by, where they are standardised; 0 leaves a feature out."""
    factor: float = 1.0
    """What all features are then multiplied by: the number that brings the source to one scale."""
    columns: Columns | None = None
    """How the columns of a table become features; None where the source had no columns with names or categories."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample as the network sees it, crops left aside."""
        if self.kind == "features":
            return (self.width or 0,)
        height, width = self.size or (0, 0)
        return (self.channels or 0, height, width)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> InputFormat:
        """The inverse of `asdict`, also after a way through JSON; names of later versions are refused."""
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ArgumentError(f"input: {', '.join(sorted(unknown))} is not known to this version of jumbot.")
        read: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        if read.get("columns") is not None:
            read["columns"] = Columns.from_dict(read["columns"])
        return cls(**read)

    def apply(self, domain: Domain, transform: Transform | None = None) -> Domain:
        """`domain` with samples in this format. `transform(images, rng)` stands between resizing and scaling: crops and
        flips on `(b, c, h, w)` in [0, 1], random where `rng` is given."""
        self._check(domain)
        return domain.with_samples(FormattedSamples(self._numbers(domain), self, transform))

    def _numbers(self, domain: Domain) -> Samples:
        """The samples with the columns of a table as numbers."""
        if isinstance(domain.samples, TableSamples):
            columns = self.columns or Columns.in_order(self.width or 0)
            return ArraySamples(columns.encode(domain.samples.table, domain.name))
        if self.columns is not None:
            self.columns.check_array(domain.shape[0], domain.name)
        return domain.samples

    def scale(self, raw: Tensor) -> Tensor:
        """Numbers brought to the range that the network was trained on."""
        if self.kind == "image":
            mean, std = (raw.new_tensor(values)[:, None, None] for values in PIXELS[self.pixels])
            return (raw - mean) / std
        if self.mean is None:
            return raw
        centred = raw - raw.new_tensor(self.mean)
        if self.std is None:
            return centred * self.factor
        std = raw.new_tensor(self.std)
        # what a feature that is constant on the source does elsewhere, the network has not learned to read
        return torch.where(std > 0, centred / std, 0.0) * self.factor

    def _check(self, domain: Domain) -> None:
        kind = kind_of(domain)
        if kind != self.kind:
            raise ArgumentError(f"{domain.name}: holds {_PLURAL[kind]} where {_PLURAL[self.kind]} are expected.")
        if kind == "features" and self.columns is None and domain.shape != self.shape:
            raise ArgumentError(
                f"{domain.name}: has {domain.shape[0]} features where {self.width} are expected; both domains need the "
                "same columns in the same order."
            )
        if kind == "image" and self.pixels != "as-is":
            _check_range(domain)


class FormattedSamples:
    """Raw samples in an `InputFormat`, made at the batch."""

    def __init__(self, raw: Samples, format: InputFormat, transform: Transform | None = None) -> None:
        self.raw, self.format, self.transform = raw, format, transform

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.format.shape if self.transform is None else tuple(self.batch(np.arange(1)).shape[1:])

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        if self.format.kind == "features":
            return self.format.scale(self.raw.batch(indices, rng))
        channels, *size = self.format.shape
        images = read_images(self.raw, np.asarray(indices), (size[0], size[1]), channels, rng)
        return self.format.scale(images if self.transform is None else self.transform(images, rng)).contiguous()


def prepare(
    source: Domain,
    target: Domain,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    *,
    pixels: str = "symmetric",
    standardise: str = "auto",
    columns: str = "same",
    transform: Transform | None = None,
) -> tuple[Domain, Domain, InputFormat]:
    """Both domains as input of one network, and the format that does the same to later data.

    Labels of the target are matched to the source's classes by name; a target class that the source does not have
    becomes -1. Images come to one `size` (default: the larger height and width of the two; 224 for photographs that
    differ) and one number of `channels` (default: the larger of the two). Features are brought to
    one scale that is learned on the source; `standardise` is what `learn_scaling` takes. Columns of tables are matched
    by name and must be the same, in any order; `columns="shared"` takes those that both domains have.

    >>> from jumbot.data.domain import ArraySamples
    >>> grey = Domain("usps", ArraySamples(np.zeros((2, 16, 16), np.uint8)), np.array([0, 1]), ("0", "1"))
    >>> colour = Domain("svhn", ArraySamples(np.full((2, 32, 32, 3), 255, np.uint8)))
    >>> a, b, format = prepare(grey, colour)
    >>> a.shape, float(a.samples.batch(np.array([0])).max()), float(b.samples.batch(np.array([0])).min())
    ((3, 32, 32), -1.0, 1.0)
    """
    for domain in (source, target):
        if not len(domain):
            raise ArgumentError(f"{domain.name}: holds no samples.")
    if pixels not in PIXELS:
        raise ArgumentError(f"pixels: {pixels!r} came in; use {', '.join(map(repr, PIXELS))}.")
    check_standardise(standardise)
    if columns not in ("same", "shared"):
        raise ArgumentError(f"columns: {columns!r} came in; use 'same' or 'shared'.")
    source = check_source(source)
    target = match_classes(target, source.classes)
    kinds = kind_of(source), kind_of(target)
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"the source {source.name} holds {_PLURAL[kinds[0]]} and the target {target.name} {_PLURAL[kinds[1]]}; "
            "extract features of the images first, with the network that made the others."
        )
    if kinds[0] == "features":
        format = _feature_format(source, target, standardise, columns)
    else:
        format = _image_format(source, target, size, channels, pixels)
    return format.apply(source, transform), format.apply(target, transform), format


def _feature_format(source: Domain, target: Domain, standardise: str, columns: str) -> InputFormat:
    tables = [d.samples.table if isinstance(d.samples, TableSamples) else None for d in (source, target)]
    if columns == "shared" and not all(table is not None and table.named for table in tables):
        raise ArgumentError("columns: 'shared' came in, but not both domains have names of columns.")
    format = InputFormat("features", width=source.shape[0])
    if isinstance(source.samples, TableSamples):
        found = find_columns(source.samples.table, tables[1], (source.name, target.name), columns)
        if source.roles is not None:
            found = replace(found, label=source.roles.label, id=source.roles.id)
        format = replace(format, width=len(found.features), columns=found)
    return scaled(format, source.with_samples(format._numbers(source)), standardise)


def scaled(format: InputFormat, source: Domain, standardise: str) -> InputFormat:
    """`format` with the scaling that these rows of numbers teach."""
    found = learn_scaling(source, standardise)
    return format if found is None else replace(format, mean=found.mean, std=found.std, factor=found.scale)


def _image_format(
    source: Domain, target: Domain, size: int | tuple[int, int] | None, channels: int | None, pixels: str
) -> InputFormat:
    facts = [_image_facts(domain) for domain in (source, target)]
    if channels is None:
        channels = 3 if pixels == "imagenet" else max(count for count, _ in facts)
    if channels not in (1, 3) or (pixels == "imagenet" and channels != 3):
        raise ArgumentError(f"channels: {channels} came in; images have 1 or 3, and 3 with pixels='imagenet'.")
    if size is None:
        sizes = [known for _, known in facts if known is not None]
        if len(sizes) < 2 and max(map(largest_side, (source, target))) > SMALL:
            size = (PHOTOGRAPH, PHOTOGRAPH)
        else:
            both = [largest_size(domain) for domain in (source, target)]
            size = (max(s[0] for s in both), max(s[1] for s in both))
    elif isinstance(size, int):
        size = (size, size)
    if len(size) != 2 or min(size) < 1:
        raise ArgumentError(f"size: {size} came in; give one side or (height, width), in pixels.")
    return InputFormat("image", size=(int(size[0]), int(size[1])), channels=channels, pixels=pixels)


def kind_of(domain: Domain) -> str:
    """ "image" or "features"."""
    if hasattr(domain.samples, "read"):
        return "image"
    shape = sample_shape(domain.samples)
    if len(shape) == 1:
        return "features"
    if len(shape) == 3 and shape[0] in (1, 3):
        return "image"
    raise ArgumentError(
        f"{domain.name}: samples of shape {shape}; they must be features (d,) or images (1 or 3, h, w)."
    )


def largest_size(domain: Domain) -> tuple[int, int]:
    """The greatest height and width of the raw images; files may differ in size."""
    height, width = getattr(domain.samples, "largest", None) or domain.shape[1:]
    return height, width


def largest_side(domain: Domain) -> int:
    """The greater of the two, in pixels."""
    return max(largest_size(domain))


def _image_facts(domain: Domain) -> tuple[int, tuple[int, int] | None]:
    if hasattr(domain.samples, "read"):
        return domain.samples.channels, domain.samples.size  # type: ignore[attr-defined]
    channels, height, width = domain.shape
    return channels, (height, width)


def _check_range(domain: Domain) -> None:
    if hasattr(domain.samples, "read"):
        return  # files hold bytes
    array = getattr(domain.samples, "array", None)
    if array is None:
        array = domain.samples.batch(np.arange(min(len(domain), 32))).numpy()
    elif array.dtype == np.uint8:
        return
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        raise ArgumentError(
            f"{domain.name}: pixels from {low:g} to {high:g}; give bytes (uint8) or numbers in [0, 1], or take them as "
            "they are with pixels='as-is'."
        )


_PLURAL = {"image": "images", "features": "features"}
