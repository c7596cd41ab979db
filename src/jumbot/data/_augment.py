"""Crops and flips of image batches: applied between resizing and scaling in `InputFormat.apply`.

Every transform maps `(b, c, h, w)` images in [0, 1] and a generator, which is None in evaluation, to images.  They are
value types, so that a cache can distinguish them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from jumbot._base.options import check_word
from jumbot.data._images import resize
from jumbot.data._inputs import Transform
from jumbot.errors import ArgumentError

Augmentation = Callable[[Tensor, np.random.Generator], Tensor]
RESIZED = 256
"""Side to which the image recipes resize photographs before cropping."""
CROPPED = 224
"""Side of the crops."""
NO_CROPS = ("none", "whole")
"""For training and prediction, if images are used whole in both."""


@dataclass(frozen=True)
class CentreCrop:
    """The middle `size` x `size` pixels.

    >>> CentreCrop(224)(torch.zeros(2, 3, 256, 256)).shape
    torch.Size([2, 3, 224, 224])
    """

    size: int

    def __call__(self, images: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        height, width = _room(images, self.size)
        top, left = round(height / 2), round(width / 2)
        return images[..., top : top + self.size, left : left + self.size]


@dataclass(frozen=True)
class RandomCrop:
    """A square of `size` pixels at a place drawn uniformly for each image."""

    size: int

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        height, width = _room(images, self.size)
        tops, lefts = rng.integers(height + 1, size=len(images)), rng.integers(width + 1, size=len(images))
        return torch.stack(
            [
                image[:, top : top + self.size, left : left + self.size]
                for image, top, left in zip(images, tops.tolist(), lefts.tolist(), strict=True)
            ]
        )


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of each image, resized to `size` x `size`.

    The part has a share of the area drawn uniformly from `scale` and an aspect w/h whose logarithm is uniform on
    `ratio`, at a uniform place. Ten draws that do not fit in the image leave its largest middle part of allowed aspect.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        parts = []
        for image in images:
            top, left, height, width = self.draw(image.shape[-2], image.shape[-1], rng)
            part = image[None, :, top : top + height, left : left + width]
            parts.append(resize(part, (self.size, self.size)))
        return torch.cat(parts)

    def draw(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Top, left, height and width of the part."""
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            aspect = math.exp(rng.uniform(low, high))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(w / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(h * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w


@dataclass(frozen=True)
class RandomFlip:
    """Left and right exchanged, each image with probability 1/2."""

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        chosen = torch.from_numpy(rng.random(len(images)) < 0.5)
        return torch.where(chosen[:, None, None, None], images.flip(-1), images)


@dataclass(frozen=True)
class TenCrop:
    """Views `(b, 10, c, size, size)`: upper left, upper right, lower left, lower right, middle, and
    the same of the mirrored image.

    >>> TenCrop(2)(torch.arange(9.0).view(1, 1, 3, 3))[0, 1, 0]
    tensor([[1., 2.],
            [4., 5.]])
    """

    size: int

    def __call__(self, images: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        return torch.stack(self._five(images) + self._five(images.flip(-1)), 1)

    def _five(self, images: Tensor) -> list[Tensor]:
        bottom, right = _room(images, self.size)
        corners = (0, 0), (0, right), (bottom, 0), (bottom, right)
        views = [images[..., top : top + self.size, left : left + self.size] for top, left in corners]
        return [*views, CentreCrop(self.size)(images)]


@dataclass(frozen=True)
class Chain:
    """Transforms one after the other.

    >>> Chain((RandomResizedCrop(224), RandomFlip()))(torch.zeros(1, 3, 256, 256), np.random.default_rng(0)).shape
    torch.Size([1, 3, 224, 224])
    """

    transforms: tuple[Augmentation, ...]

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        for transform in self.transforms:
            images = transform(images, rng)
        return images


@dataclass(frozen=True)
class Resize:
    """The whole image at `size` x `size`, aspect not kept."""

    size: int

    def __call__(self, images: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        return resize(images, (self.size, self.size))


@dataclass(frozen=True)
class Phases:
    """One transform for training, another one for evaluation."""

    training: Augmentation
    evaluation: Transform

    def __call__(self, images: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        return self.evaluation(images, None) if rng is None else self.training(images, rng)


def make_transform(augment: str, views: str, size: int = CROPPED) -> Phases:
    """The transform of the image recipes, for images of 256x256 that become `size` x `size`.

    `augment`, for training: "resized-crop" or "crop", each with a flip, or "none" (the middle, or the whole with
    "whole"). `views`, for evaluation: "ten-crop", "centre-crop", or "whole" (the whole image, made smaller).

    >>> make_transform("crop", "ten-crop")(torch.zeros(1, 3, 256, 256)).shape
    torch.Size([1, 10, 3, 224, 224])
    """
    evaluations: dict[str, Transform] = {
        "whole": Resize(size),
        "centre-crop": CentreCrop(size),
        "ten-crop": TenCrop(size),
    }
    trainings: dict[str, Augmentation] = {
        "none": Resize(size) if views == "whole" else CentreCrop(size),
        "crop": Chain((RandomCrop(size), RandomFlip())),
        "resized-crop": Chain((RandomResizedCrop(size), RandomFlip())),
    }
    return Phases(
        trainings[check_word("augment", augment, trainings)], evaluations[check_word("views", views, evaluations)]
    )


def _room(images: Tensor, size: int) -> tuple[int, int]:
    """Pixels that a crop can move down and right."""
    height, width = images.shape[-2:]
    if size < 1 or size > min(height, width):
        raise ArgumentError(f"crop: {size} pixels cannot be cut from images of {height}x{width}; resize them first.")
    return height - size, width - size


def crop_transform(crops: tuple[str, str]) -> Phases | None:
    """The transform for (training, prediction), or None where images are taken whole in both."""
    return None if crops == NO_CROPS else make_transform(*crops)
