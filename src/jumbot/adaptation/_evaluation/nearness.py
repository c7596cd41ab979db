"""Samples that do not resemble the source, by features that training does not change.

So an outlier remains one, however long a network is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from jumbot.adaptation._evaluation.diagnosis import UNEXPLAINED
from jumbot.adaptation._networks.stems import Statistics, rows_as_trained_on
from jumbot.data._domain import Domain
from jumbot.data._inputs import InputFormat, unscaled
from jumbot.errors import ArgumentError
from jumbot.methods.network import Network

FEWEST = 20  # samples of either domain needed to define what is typical
_DEVIATIONS = 1.75  # beyond what is typical of the target at which a sample becomes unexplained
_MOST, _EACH = 256, 5  # centres, and samples behind one of them on average
_NEAREST = 3
_ROUNDS = 10
_SEEN = 4000  # samples used to learn centres and typical distances
_CHUNK = 4096
_APART = 100.0  # deviations of the source: no shift moves a whole target further
_OWN = 0.95  # quantile of the source's own distances, up to which nothing is far


@dataclass(frozen=True, eq=False)
class Nearness:
    """A description of a source by a few centres, and the typical distance of target samples from them."""

    centres: np.ndarray
    """(k, d) centres of the source, around its mean: means of several samples, never single ones."""
    middle: np.ndarray
    """(d,) mean of the target, because a move of the whole target makes no sample an outlier; of the source if the
    target is too far away.
    """
    typical: float
    """Median distance of target samples; of the source's own where `middle` is the source's."""
    deviation: float
    """Of these distances, robust."""
    own: float
    """The 95 % quantile of the source's own distances."""

    def received(self, rows: np.ndarray) -> np.ndarray:
        """(n,) how well the source explains each sample: 1 for a typical one, below 0.25 for one that it does not.

        4^(-z / 1.75) for a sample z deviations further away than is typical.
        """
        parts = np.array_split(rows, len(rows) // _CHUNK + 1)
        distances = np.concatenate([_distances(part - self.middle, self.centres) for part in parts])
        beyond = np.where(distances > self.own, (distances - self.typical) / self.deviation, 0.0)
        received: np.ndarray = UNEXPLAINED ** (np.maximum(beyond, 0.0) / _DEVIATIONS)
        return received

    def to_tensors(self) -> dict[str, Tensor]:
        """For the file of a model."""
        facts = torch.tensor([self.typical, self.deviation, self.own], dtype=torch.float64)
        return {"centres": torch.from_numpy(self.centres), "middle": torch.from_numpy(self.middle), "facts": facts}

    @classmethod
    def from_tensors(cls, found: Mapping[str, Tensor], where: Any) -> Nearness | None:
        """The inverse of `to_tensors`; None for a file of an earlier version without it."""
        if not found:
            return None
        centres, middle, facts = (found.get(name, torch.empty(0)) for name in ("centres", "middle", "facts"))
        fits = centres.ndim == 2 and len(centres) and middle.shape == centres.shape[1:] and facts.shape == (3,)
        if not fits or float(facts[1]) <= 0 or set(found) != {"centres", "middle", "facts"}:
            raise ArgumentError(f"{where}: nearness: is damaged; save the model again.")
        return cls(centres.float().numpy(), middle.float().numpy(), *facts.tolist())


Rows = Callable[[Domain], np.ndarray]
"""The features by which samples are compared: untrained ones, or the embeddings of a network."""


def of_domains(source: Domain, target: Domain, rows: Rows, seed: int = 0) -> Nearness | None:
    """From two domains whose samples are compared by `rows`."""
    rng = np.random.default_rng((seed, 13))
    here, there = (rows(one.subset(np.sort(rng.permutation(len(one))[:_SEEN]))) for one in (source, target))
    return learn_nearness(here, there, seed)


def received_by(nearness: Nearness | None, domain: Domain, rows: Rows) -> np.ndarray | None:
    """(n,) `Nearness.received` of a domain, part by part."""
    if nearness is None:
        return None
    parts = (domain.subset(np.arange(i, min(i + _CHUNK, len(domain)))) for i in range(0, len(domain), _CHUNK))
    return np.concatenate([nearness.received(rows(part)) for part in parts])


def learn_nearness(source: np.ndarray, target: np.ndarray, seed: int = 0) -> Nearness | None:
    """From `(n, d)` features of both domains; None if there are too few samples, or if they do not vary.

    The features are the input of the network, for example those of a frozen backbone: however long it is trained, a
    sample that is far from all of the source stays so.  Distances are to the three nearest centres of the source, each
    domain around its own mean, and are compared with those of the target itself, because a move of the whole target
    says nothing about one sample.  If it has moved by more than a hundred deviations of the source, the source explains
    none of it.

    >>> rng = np.random.default_rng(0)
    >>> found = learn_nearness(rng.normal(size=(200, 4)), rng.normal(size=(100, 4)) + 3)
    >>> found.received(np.array([[3.0, 3.0, 3.0, 3.0], [9.0, 9.0, 9.0, 9.0]])).round(2)
    array([1., 0.])
    """
    if min(len(source), len(target)) < FEWEST:
        return None
    rng = np.random.default_rng((seed, 11))
    source, target = (rows[np.sort(rng.permutation(len(rows))[:_SEEN])] for rows in (source, target))
    home, middle = source.mean(0), target.mean(0)
    source = source - home
    apart = bool(((middle - home) ** 2).sum() > _APART**2 * (source**2).sum(1).mean())
    middle = home if apart else middle
    centres = _centres(source, rng)
    own = _distances(source, centres)
    distances = own if apart else _distances(target - middle, centres)
    typical = float(np.median(distances))
    deviation = 1.4826 * float(np.median(abs(distances - typical)))
    if not (np.isfinite(typical) and deviation > 1e-6 * max(typical, 1e-30)):
        return None
    near = float(np.quantile(own, _OWN))
    return Nearness(centres.astype(np.float32), middle.astype(np.float32), typical, deviation, near)


def _centres(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Lloyd's algorithm from samples drawn at random; centres that lose all of theirs are dropped."""
    count = max(min(_MOST, len(rows) // _EACH), 1)
    centres = rows[np.sort(rng.permutation(len(rows))[:count])]
    for _ in range(_ROUNDS):
        nearest = _squared(rows, centres).argmin(1)
        sizes = np.bincount(nearest, minlength=len(centres))
        own = (nearest == np.flatnonzero(sizes > 1)[:, None]).astype(rows.dtype)  # single samples would be private
        centres = own @ rows / own.sum(1, keepdims=True)
        if not len(centres):
            return rows.mean(0, keepdims=True)
    return centres


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Mean distance to the nearest centres."""
    squared = _squared(rows, centres)
    nearest = np.sort(squared, axis=1)[:, : min(_NEAREST, len(centres))]
    found: np.ndarray = np.sqrt(np.maximum(nearest, 0.0)).mean(1)
    return found


def _squared(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    rows, centres = rows.astype(np.float64), centres.astype(np.float64)
    found: np.ndarray = (rows**2).sum(1)[:, None] + (centres**2).sum(1)[None] - 2 * rows @ centres.T
    return found


_TOGETHER = 256  # samples read together
_CELLS, _DIRECTIONS, _SHADES = 4, 8, 7
_LARGEST = 64  # side above which a picture is looked at smaller
_WEIGHT = 0.5  # of the shades, relative to the edges
PICTURE = _CELLS**2 * _DIRECTIONS + _SHADES**2
"""Numbers that a picture is compared by."""


def frozen_rows(network: Network, format: InputFormat, domain: Domain) -> Callable[[Domain], np.ndarray] | None:
    """Features that are fixed before training: rows themselves, edges and shades of pictures, statistics of signals.

    None for tensors and signals that only the user's own backbone can read.
    """
    if len(domain.shape) == 1:
        return partial(rows_as_trained_on, network)
    if format.kind == "image":
        return partial(_of_parts, lambda x: picture_features(unscaled(x, format), shades=format.pixels != "as-is"))
    first = next(network.backbone.children(), None)
    return partial(_of_parts, lambda x: first(x.to(first.centre)).cpu()) if isinstance(first, Statistics) else None


def picture_features(x: Tensor, shades: bool = True) -> Tensor:
    """`(b, channels, h, w)` in [0, 1] -> `(b, 177)`: how much edge there is in each direction, and how bright it is.

    Edges are counted in 8 directions, in each of 4 x 4 parts of the picture, relative to all of its edges, and the root
    is taken; brightness is the mean of 7 x 7 parts.  Both are independent of the classes: they find objects of a
    different kind, but not a class that looks like the others.

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


@torch.no_grad()
def _of_parts(features: Callable[[Tensor], Tensor], domain: Domain) -> np.ndarray:
    found = []
    for start in range(0, len(domain), _TOGETHER):
        x = domain.samples.batch(np.arange(start, min(start + _TOGETHER, len(domain))))
        found.append(features(x.mean(1) if x.ndim == 5 else x))  # the mean of several views of a picture
    rows: np.ndarray = torch.cat(found).float().numpy()
    return rows
