"""What samples are compared by that no training changes, so that an outlier stays one however long a network learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.adaptation._networks.stems import Statistics, rows_as_trained_on
from jumbot.data._domain import Domain
from jumbot.data._inputs import PIXELS, InputFormat
from jumbot.methods.network import Network

_CHUNK = 256  # samples read together
_CELLS, _DIRECTIONS, _SHADES = 4, 8, 7
_LARGEST = 64  # side above which a picture is looked at smaller
_WEIGHT = 0.5  # of the shades beside the edges
PICTURE = _CELLS**2 * _DIRECTIONS + _SHADES**2
"""Numbers that a picture is compared by."""


def frozen_rows(network: Network, format: InputFormat, domain: Domain) -> Callable[[Domain], np.ndarray] | None:
    """Features that are fixed before training: rows themselves, edges and shades of pictures, statistics of signals.

    None for tensors that only a backbone of the user's knows how to read, and for signals that one reads.
    """
    if len(domain.shape) == 1:
        return partial(rows_as_trained_on, network)
    if format.kind == "image":
        return partial(_of_parts, lambda x: picture_features(_unscaled(x, format), shades=format.pixels != "as-is"))
    first = next(network.backbone.children(), None)
    return partial(_of_parts, lambda x: first(x.to(first.centre)).cpu()) if isinstance(first, Statistics) else None


def picture_features(x: Tensor, shades: bool = True) -> Tensor:
    """`(b, channels, h, w)` in [0, 1] -> `(b, 177)`: how much edge there is in each direction, and how bright it is.

    Edges are counted in 8 directions, in each of 4 x 4 parts of the picture, relative to all of its edges, and the root
    is taken; brightness is the mean of 7 x 7 parts.  Neither knows anything of the classes: a thing of another make is
    found, a class that looks like the others is not.

    >>> picture_features(torch.rand(3, 3, 28, 28)).shape
    torch.Size([3, 177])
    """
    grey = x.float().mean(1, keepdim=True)
    if max(grey.shape[-2:]) > _LARGEST:
        grey = F.adaptive_avg_pool2d(grey, min(_LARGEST, *grey.shape[-2:]))
    wide = F.pad(grey, (1, 1, 1, 1), mode="replicate")
    across, down = wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2], wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]
    size = torch.hypot(across, down).clamp_min(1e-6)
    cosine, sine = (across**2 - down**2) / size, 2 * across * down / size  # of twice the angle: both ways are one
    angles = torch.arange(_DIRECTIONS, dtype=grey.dtype)[:, None, None] * (2 * torch.pi / _DIRECTIONS)
    edges = F.adaptive_avg_pool2d((cosine * angles.cos() + sine * angles.sin()).relu(), _CELLS).flatten(1)
    edges = (edges / (edges.norm(dim=1, keepdim=True) + 1e-3)).sqrt()
    bright = F.adaptive_avg_pool2d(grey, _SHADES).flatten(1) * (_WEIGHT * _CELLS / _SHADES if shades else 0.0)
    return torch.cat([edges, bright], 1)


def _unscaled(x: Tensor, format: InputFormat) -> Tensor:
    mean, std = (x.new_tensor(values)[:, None, None] for values in PIXELS[format.pixels])
    return x * std + mean


@torch.no_grad()
def _of_parts(features: Callable[[Tensor], Tensor], domain: Domain) -> np.ndarray:
    found = []
    for start in range(0, len(domain), _CHUNK):
        x = domain.samples.batch(np.arange(start, min(start + _CHUNK, len(domain))))
        found.append(features(x.mean(1) if x.ndim == 5 else x))  # the mean of several views of a picture
    rows: np.ndarray = torch.cat(found).float().numpy()
    return rows
