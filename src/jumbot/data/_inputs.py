"""From raw samples to network input: one `InputFormat` for source, target and later data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import Bounds, Checked, Count, Number
from jumbot._base.schema import convert
from jumbot.data._arrays import one_picture
from jumbot.data._columns import Columns
from jumbot.data._domain import MOST_CHANNELS, ArraySamples, Domain, JoinedSamples, Samples, sample_shape
from jumbot.data._images import PictureSamples, doubtful_white, read_images
from jumbot.data._remarks import remark
from jumbot.data._scaling import learn_scaling
from jumbot.data._tables import TableSamples
from jumbot.errors import ArgumentError

PIXELS = {
    "symmetric": ((0.5,), (0.5,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "unit": ((0.0,), (1.0,)),
    "as-is": ((0.0,), (1.0,)),
}
SMALL = 64
"""The largest side of images that are treated like digits: used whole, by a small network trained from scratch."""
PHOTOGRAPH = 224
"""The default side of images from files that differ in size and are not small."""
Side = Annotated[int, Bounds(at_least=1, at_most=2**14)]
Transform = Callable[[Tensor, np.random.Generator | None], Tensor]


@dataclass(frozen=True)
class InputFormat(Checked):
    """How raw samples become network input; JSON-able with `dataclasses.asdict`, read back with `from_dict`.

    Attributes
    ----------
    kind : {"image", "features", "signal", "raw"}
        What samples are.
    width : int, optional
        Number of features.
    size : pair of int, optional
        Height and width to which images are resized, bilinear; the aspect is not kept.
    channels : int, optional
        1 to 16: grey is repeated to any number, three become grey by luma, others stay what they are.
    pixels : {"symmetric", "imagenet", "unit", "as-is"}
        Pixels to [-1, 1] ("symmetric"), [0, 1] ("unit"), by ImageNet's mean and deviation ("imagenet"), or "as-is".
    mean : tuple of float, optional
        Subtracted from features, or from each channel of signals, where they are standardised.
    std : tuple of float, optional
        What they are then divided by; 0 leaves one out.
    factor : float
        What all features are then multiplied by: the number that brings the source to one scale.
    columns : Columns, optional
        How the columns of a table become features; None where the source was an array.
    sample : tuple of int, optional
        Shape of a signal, or of raw tensors.
    whole : bool
        Whether raw tensors hold whole numbers, such as tokens.

    Examples
    --------
    >>> InputFormat("image", size=(28, 28), channels=1).shape
    (1, 28, 28)
    """

    kind: Literal["image", "features", "signal", "raw"]
    width: Count | None = None
    size: tuple[Side, Side] | None = None
    channels: Annotated[int, Bounds(at_least=1, at_most=MOST_CHANNELS)] | None = None
    pixels: Literal["symmetric", "imagenet", "unit", "as-is"] = "symmetric"
    mean: tuple[Number, ...] | None = None
    std: tuple[float, ...] | None = None
    factor: Number = 1.0
    columns: Columns | None = None
    sample: tuple[Count, ...] | None = None
    whole: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample as the network sees it, crops left aside."""
        if self.sample is not None:
            return self.sample
        if self.kind == "features":
            return (self.width or 0,)
        height, width = self.size or (0, 0)
        return (self.channels or 0, height, width)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample == ():
            raise ArgumentError("sample must be the shape of a sample, got an empty list.")
        for name in ("mean", "std"):
            values, wide = getattr(self, name), self.shape[0]
            if values is not None and wide and len(values) != wide:
                raise ArgumentError(f"{name}: got {len(values)} numbers; there must be {wide}.")
        if self.columns is not None and self.width and len(self.columns.features) != self.width:
            raise ArgumentError(f"width: got {self.width}; the columns give {len(self.columns.features)} features.")

    def check_complete(self) -> None:
        """Refuse a format that does not define the shape of samples."""
        needed = {"image": ("size", "channels"), "features": ("width",)}.get(self.kind, ("sample",))
        for name in needed:
            if getattr(self, name) is None:
                raise ArgumentError(f"input.{name}: is missing; {PLURAL[self.kind]} need it.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> InputFormat:
        """The inverse of `asdict`, also through JSON; names from later versions are refused."""
        return convert(dict(values), cls, "input")

    def apply(self, domain: Domain, transform: Transform | None = None) -> Domain:
        """`domain` with samples in this format. `transform(images, rng)` is applied between resizing and scaling:
        crops and flips on `(b, c, h, w)` in [0, 1], random where `rng` is given."""
        if isinstance(domain.samples, JoinedSamples):
            parts = [self.apply(part, transform).samples for part in parts_of(domain)]
            return domain.with_samples(JoinedSamples(parts, domain.samples.names, self.kind))
        self._check(domain)
        return domain.with_samples(FormattedSamples(self.numbers(domain), self, transform))

    def numbers(self, domain: Domain) -> Samples:
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
        shape = (-1, 1) if self.kind == "signal" else (-1,)
        centred = raw - raw.new_tensor(self.mean).reshape(shape)
        if self.std is None:
            return centred * self.factor
        std = raw.new_tensor(self.std).reshape(shape)
        # the network has learned nothing about a feature that is constant on the source
        return torch.where(std > 0, centred / std, 0.0) * self.factor

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensors that the network sees."""
        return torch.int64 if self.whole else torch.float32

    def stack(self, data: Any) -> Any:
        """`data`, with an array of one sample as a stack of one; ambiguous arrays are refused."""
        if self.kind == "image":
            shape = tuple(data.shape) if isinstance(data, np.ndarray | Tensor) else ()
            if len(shape) == 2 and shape[1] == math.prod(self.shape) > 1:
                raise ArgumentError(
                    f"data: an array of shape {shape} could be one image or {shape[0]} rows of pixels; pass x[None] "
                    "for one, or rows reshaped to (n, h, w)."
                )
            return one_picture(data, self.channels or 0)
        shape = self.shape if self.columns is None else (len(self.columns.columns),)
        alone = isinstance(data, np.ndarray | Tensor) and tuple(data.shape) == shape
        return data[None] if alone else data

    def _check(self, domain: Domain) -> None:
        kind = kind_of(domain)
        if kind != self.kind:
            raise ArgumentError(f"{domain.name}: contains {PLURAL[kind]} where {PLURAL[self.kind]} are expected.")
        if kind == "image":
            check_channels(domain, self.channels or 0)
            if isinstance(domain.samples, PictureSamples) and (found := doubtful_white(domain.samples)):
                remark(f"{domain.name}: {found}.", stacklevel=3)
            if self.pixels != "as-is":
                _check_range(domain)
        elif kind == "features":
            if self.columns is None and domain.shape != self.shape:
                raise ArgumentError(
                    f"{domain.name}: has {domain.shape[0]} features where {self.width} are expected; both domains need "
                    "the same columns in the same order."
                )
        elif domain.shape != self.shape:
            raise ArgumentError(f"{domain.name}: samples of shape {domain.shape} where {self.shape} is expected.")
        elif kind == "raw" and (holds_whole(domain) != self.whole):
            found, wanted = ("whole numbers", "fractions") if not self.whole else ("fractions", "whole numbers")
            raise ArgumentError(f"{domain.name}: contains {found} where {wanted} are expected.")


def unscaled(pictures: Tensor, format: InputFormat) -> Tensor:
    """Pictures before `InputFormat.scale`: in [0, 1], unless they are used as they are."""
    mean, std = (pictures.new_tensor(values)[:, None, None] for values in PIXELS[format.pixels])
    return pictures * std + mean


class FormattedSamples:
    """Raw samples in an `InputFormat`, converted batch by batch."""

    def __init__(self, raw: Samples, format: InputFormat, transform: Transform | None = None) -> None:
        self.raw, self.format, self.transform = raw, format, transform

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def kind(self) -> str:
        return self.format.kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.format.shape if self.transform is None else tuple(self.batch(np.arange(1)).shape[1:])

    def batch(self, indices: np.ndarray, rng: np.random.Generator | None = None) -> Tensor:
        if self.format.kind != "image":
            return self.format.scale(self.raw.batch(indices, rng))
        channels, *size = self.format.shape
        images = read_images(self.raw, np.asarray(indices), (size[0], size[1]), channels, rng)
        return self.format.scale(images if self.transform is None else self.transform(images, rng)).contiguous()


def scaled(format: InputFormat, source: Domain, standardise: str) -> InputFormat:
    """`format` with the scaling learned from these rows of numbers."""
    found = learn_scaling(source, standardise)
    if found is not None and not np.isfinite(found.mean).all():  # of samples that are made at the batch
        column = int(np.flatnonzero(~np.isfinite(found.mean))[0])
        raise ArgumentError(
            f"{source.name}: column {column + 1} contains NaN or infinity; drop or fill such samples first."
        )
    return format if found is None else replace(format, mean=found.mean, std=found.std, factor=found.scale)


def kind_of(domain: Domain) -> str:
    """ "image", "features", "signal" or "raw"."""
    if (kind := getattr(domain.samples, "kind", None)) is not None:
        return str(kind)
    if isinstance(domain.samples, PictureSamples):
        return "image"
    shape = sample_shape(domain.samples)
    if len(shape) == 1:
        return "features"
    if len(shape) == 3 and shape[0] <= MOST_CHANNELS:
        return "image"
    raise ArgumentError(
        f"{domain.name}: samples of shape {shape}; they must be features (d,) or images (1 to {MOST_CHANNELS}, h, w); "
        "anything else is kind='signal' or kind='raw'."
    )


def parts_of(domain: Domain) -> list[Domain]:
    """The parts whose samples were joined in a domain; otherwise itself alone."""
    if not isinstance(domain.samples, JoinedSamples):
        return [domain]
    return [Domain(name, samples) for name, samples in zip(domain.samples.names, domain.samples.parts, strict=True)]


def largest_size(domain: Domain) -> tuple[int, int]:
    """The greatest height and width of the raw images; files may differ in size."""
    sizes = [getattr(part.samples, "largest", None) or part.shape[1:] for part in parts_of(domain)]
    return max(height for height, _ in sizes), max(width for _, width in sizes)


def largest_side(domain: Domain) -> int:
    """The greater of the two, in pixels."""
    return max(largest_size(domain))


def image_facts(domain: Domain) -> tuple[int, tuple[int, int] | None]:
    """Channels, and (h, w) if all images agree in it."""
    facts = [
        (part.samples.channels, part.samples.size)
        if isinstance(part.samples, PictureSamples)
        else (part.shape[0], (part.shape[1], part.shape[2]))
        for part in parts_of(domain)
    ]
    return max(count for count, _ in facts), facts[0][1] if len({size for _, size in facts}) == 1 else None


def holds_whole(domain: Domain) -> bool:
    """Whether raw tensors hold whole numbers."""
    return domain.samples.batch(np.arange(1)).dtype == torch.int64


def check_channels(domain: Domain, channels: int) -> None:
    """Refuse images whose channels cannot be converted to that many."""
    for part in parts_of(domain):
        own = image_facts(part)[0]
        if own != channels and own != 1 and (own, channels) != (3, 1):
            raise ArgumentError(
                f"{part.name}: images with {own} channels cannot be converted to {channels}; use channels={own} for "
                f"both domains, with a backbone that accepts them (backbone='digits', or your own)."
            )


def _check_range(domain: Domain) -> None:
    if isinstance(domain.samples, PictureSamples):
        return  # of bytes
    array = getattr(domain.samples, "array", None)
    if array is None:
        array = domain.samples.batch(np.arange(min(len(domain), 32))).numpy()
    elif array.dtype == np.uint8:
        return
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        raise ArgumentError(
            f"{domain.name}: pixels from {low:g} to {high:g}; pass bytes (uint8) or numbers in [0, 1], or use "
            f"pixels='as-is' to leave them unscaled."
        )


PLURAL = {"image": "images", "features": "features", "signal": "signals", "raw": "raw tensors"}
