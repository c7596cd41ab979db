"""First layers of the built-in networks, learned from the rows of the source, without labels, before training."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.stats import wasserstein_distance
from torch import Tensor, nn
from torch.nn import functional as F

from jumbot.data._domain import ArraySamples, Domain, even_rows
from jumbot.data._scaling import total_deviation
from jumbot.errors import ArgumentError
from jumbot.methods.network import Network, Sigmoid

CLIP = 3.0
"""The bound to which robustly scaled numbers are smoothly clipped."""
_ROWS, _NUMBERS = 10_000, 2**25  # used: quantiles and directions need no more
_MOST_CUT = 64  # numbers in a row
_MOVED = 0.3  # deviations
_BLANKS, _MOST_BLANKS = 80, 0.3
_PASSES = 2  # of the randomised SVD over the rows


def some_inputs(source: Domain, labelled: Domain | None = None) -> Tensor:
    """Samples of a domain taken evenly, as the network sees them, and of the target those with labels.

    A first layer fitted to the source alone would clip what distinguishes samples beyond its range, and their labels
    would be useless.
    """
    found = source.samples.batch(even_rows(len(source), min(_ROWS, max(_NUMBERS // math.prod(source.shape), 1))))
    return found if labelled is None else torch.cat([found, some_inputs(labelled)])


def soft_clip(x: Tensor) -> Tensor:
    """x / sqrt(1 + (x / 3)^2): x itself near 0, and never beyond -3 and 3, however extreme a measurement is.

    >>> soft_clip(torch.tensor([0.1, 3.0, 1e6])).round(decimals=3)
    tensor([0.1000, 2.1210, 3.0000])
    """
    return x * torch.rsqrt(1 + (x / CLIP) ** 2)


class Pieces(nn.Module):
    r"""Rows of numbers -> each robustly scaled and clipped, then the columns `numbers` once more in `bins` pieces.

    A column x becomes soft_clip((x - median) / IQR), with half of its range in the place of an interquartile range of
    0; a column that is constant on the source becomes 0.  The `numbers` are also encoded piecewise linearly (Gorishniy,
    Rubachev, Babenko: On embeddings for numerical features, 2022): with quantiles q_0 < ... < q_bins of the source,
    entry i is 0 below q_i, 1 above q_{i+1} and linear between them, less its mean, so that the next layer can learn any
    piecewise linear function.

    With `blanks` a share of the outputs, 80 / n for n rows of the source and at most .3, is dropped in training: noise
    in the inputs of a linear model acts as a quadratic penalty on its weights, and the weight of a prior decreases as 1
    / n.

    >>> stem = Pieces(2, (0,), 2)
    >>> stem.learn(torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]))
    >>> stem(torch.tensor([[3.0, 0.0]]))[0, 2:]
    tensor([0.3000, 0.2000])
    """

    centre: Tensor
    rate: Tensor
    low: Tensor
    steepness: Tensor
    middle: Tensor
    columns: Tensor

    def __init__(self, width: int, numbers: tuple[int, ...], bins: int, blanks: bool = False) -> None:
        super().__init__()
        self.width, self.blanks, self.share = width + bins * len(numbers), blanks, 0.0
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("rate", torch.ones(width))
        self.register_buffer("low", torch.zeros(len(numbers), bins))
        self.register_buffer("steepness", torch.zeros(len(numbers), bins))
        self.register_buffer("middle", torch.zeros(len(numbers), bins))
        self.register_buffer("columns", torch.tensor(numbers, dtype=torch.int64), persistent=False)

    @torch.no_grad()
    def learn(self, x: Tensor) -> None:
        """Medians, spreads and quantiles of rows `(n, width)`."""
        self.share = min(_BLANKS / len(x), _MOST_BLANKS) if self.blanks else 0.0
        quartiles = _quantiles(x, torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        spread, half = quartiles[2] - quartiles[0], (x.amax(0) - x.amin(0)).double() / 2
        spread = torch.where(spread > 0, spread, half)
        self.centre.copy_(quartiles[1])
        self.rate.copy_(torch.where(spread > 0, 1 / spread, 0.0))
        bins = self.low.shape[1]
        grid = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
        for place, column in enumerate(self.columns.tolist()):
            edges = _quantiles(x[:, column], grid).unique()
            pieces = len(edges) - 1  # fewer than bins if quantiles coincide; the rest stays 0
            self.low[place, :pieces] = edges[:-1].to(self.low)
            self.steepness[place, :pieces] = (1 / edges.diff()).to(self.low)
        if self.low.numel():
            self.middle.copy_(self._pieces(x).mean(0))

    def forward(self, x: Tensor) -> Tensor:
        scaled = soft_clip((x - self.centre) * self.rate)
        if self.low.numel():
            scaled = torch.cat([scaled, (self._pieces(x) - self.middle).flatten(1)], 1)
        return F.dropout(scaled, self.share) if self.training and self.share else scaled

    def _pieces(self, x: Tensor) -> Tensor:
        return ((x[:, self.columns, None] - self.low) * self.steepness).clamp(0, 1)


def number_columns(x: Tensor, target: Tensor | None = None) -> tuple[int, ...]:
    """The columns of `(n, d)` to divide into bins: those with more than two values, if there are at most 64.

    With rows of the `target`, without those that have moved there by more than .3 standard deviations of the source
    (Wasserstein distance): the bins of the source would contain the wrong values, and a network that fits each bin
    separately does not follow the column.

    Many columns, as from an array of sensors, measure the same few quantities: nonlinear functions of their sums
    suffice, and with bins for each column a network follows a drift of the sensors less well.

    >>> number_columns(torch.tensor([[0.0, 1.0], [1.0, 2.0], [1.0, 3.0]]))
    (1,)
    """
    low, high = x.amin(0), x.amax(0)
    found = tuple(torch.nonzero(((x > low) & (x < high)).any(0)).flatten().tolist())
    if len(found) > _MOST_CUT:
        return ()
    return found if target is None else tuple(c for c in found if not _moved(x[:, c], target[:, c]))


def _moved(x: Tensor, other: Tensor) -> bool:
    deviation = float(x.double().std(correction=0))
    return bool(wasserstein_distance(x.double().numpy(), other.double().numpy()) > _MOVED * deviation)


def _quantiles(x: Tensor, grid: Tensor) -> Tensor:
    return torch.from_numpy(np.quantile(x.double().numpy(), grid.numpy(), axis=0))


class Directions(nn.Module):
    r"""Wide rows that are mostly zero -> their coordinates along the `rank` directions in which the source varies.

    A row of counts becomes sign(x) log(1 + |x|), so that a word that occurs ten times does not count ten times, is
    scaled to length 1, so that long and short texts have the same weight, and is projected on the first right singular
    vectors of such rows minus their mean.  They are not trained: a linear layer of 5,000 columns has more weights than
    a source has labels.
    """

    centre: Tensor
    basis: Tensor

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.width = rank
        self.register_buffer("centre", torch.zeros(rank))
        self.register_buffer("basis", torch.zeros(rank, width))

    @torch.no_grad()
    def learn(self, x: Tensor) -> None:
        """The directions of rows `(n, width)`; those beyond the rank of the rows stay 0."""
        rows = self._lengths_one(x)
        mean, found = rows.mean(0), min(self.width, *x.shape)
        _, deviations, directions = torch.svd_lowrank(rows - mean, q=found, niter=_PASSES)
        total = deviations.square().sum().div(len(x)).sqrt().clamp_min(1e-12)
        self.basis[:found] = (total_deviation(self.width) / total) * directions.T
        self.centre.copy_(self.basis @ mean)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == self.width:  # projected before, see `project`
            return x
        return F.linear(self._lengths_one(x), self.basis) - self.centre

    @staticmethod
    def _lengths_one(x: Tensor) -> Tensor:
        return F.normalize(x.sign() * x.abs().log1p())


class ProjectedSamples(ArraySamples):
    """Rows projected by `Directions`; a network that starts with them leaves these unchanged."""

    def __init__(self, array: np.ndarray, stem: Directions) -> None:
        super().__init__(array)
        self.stem = stem

    def subset(self, indices: np.ndarray) -> ProjectedSamples:
        return ProjectedSamples(self.array[indices], self.stem)


def learn_directions(source: Domain, rank: int, labelled: Domain | None = None) -> Directions:
    """At most `rank` directions of the rows of a source and of labelled target rows, and fewer than it has columns."""
    rows = some_inputs(source, labelled)
    stem = Directions(rows.shape[1], max(min(rank, rows.shape[1] - 1, len(rows)), 1))
    stem.learn(rows)
    return stem


@torch.no_grad()
def project(stem: Directions, domain: Domain) -> Domain:
    """Project the rows of a domain once for all steps, because the directions are not trained."""
    chunk = max(_NUMBERS // domain.shape[0], 1)
    parts = np.array_split(np.arange(len(domain)), len(domain) // chunk + 1)
    rows = np.concatenate([stem(domain.samples.batch(part)).numpy() for part in parts])
    return domain.with_samples(ProjectedSamples(rows, stem))


@torch.no_grad()
def rows_as_trained_on(network: Network, domain: Domain) -> np.ndarray:
    """Rows as input of the trained layers: wide ones along their directions, whether already projected or not."""
    rows = domain.samples.batch(np.arange(len(domain)))
    first = next(network.backbone.children(), None)
    if isinstance(first, Directions):
        rows = first(rows.to(first.basis)).float().cpu()
    found: np.ndarray = rows.numpy()
    return found


class Statistics(nn.Module):
    r"""Signals `(b, channels, length)` -> statistics that distinguish signals independently of time.

    Of each channel: mean, deviation, extremes, and the logarithm of the amplitude in up to `bands` bands of frequency,
    log(|FFT(x - mean)| / sqrt(length) + .01); each standardised by its mean and deviation on the source, and clipped
    smoothly.
    """

    centre: Tensor
    rate: Tensor
    means: Tensor
    BANDS, FLOOR = 64, 0.01

    def __init__(self, channels: int, length: int) -> None:
        super().__init__()
        self.bands = min(length // 2, self.BANDS)
        self.width = channels * (4 + self.bands)
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("rate", torch.ones(self.width))
        # means over neighbouring frequencies as a product, which every exporter knows
        means = F.adaptive_avg_pool1d(torch.eye(length // 2), self.bands)
        self.register_buffer("means", means, persistent=False)

    def measure(self, x: Tensor) -> Tensor:
        """The statistics `(b, width)`, not scaled."""
        mean = x.mean(-1, keepdim=True)
        amplitude = torch.fft.rfft(x - mean, norm="ortho").abs()[..., 1:]
        amplitude = amplitude @ self.means
        shape = torch.cat([mean, x.std(-1, correction=0, keepdim=True), x.amin(-1, True), x.amax(-1, True)], -1)
        return torch.cat([shape, torch.log(amplitude + self.FLOOR)], -1).flatten(1)

    @torch.no_grad()
    def learn(self, x: Tensor) -> None:
        """Means and deviations of the statistics of signals."""
        found = self.measure(x).double()
        deviation = found.std(0, correction=0)
        self.centre.copy_(found.mean(0))
        self.rate.copy_(torch.where(deviation > 1e-6, 1 / deviation, 0.0))

    def forward(self, x: Tensor) -> Tensor:
        return soft_clip((self.measure(x) - self.centre) * self.rate)


_HIDDEN, _DROPOUT = 256, 0.3


def signal_network(shape: tuple[int, ...], classes: int, features: int = 128, statistics: bool = True) -> Network:
    """For signals `(channels, length)`: their `Statistics`, a hidden layer, a sigmoid embedding.

    Convolutions learn the source better, but also what does not hold elsewhere, such as how a sensor is worn: with
    them, alone or in addition, exercises that are distinguished on one wrist are confused on the other.  Models of
    earlier versions have three convolutions along time instead of `statistics`, each pooled, and their mean.

    The embedding is that of the paper's digits, so that the same eta1 is suitable.

    >>> sum(p.numel() for p in signal_network((3, 128), 5, statistics=False).parameters())
    53317
    >>> signal_network((3, 128), 5).backbone[0].width
    204
    """
    channels, length = shape
    if length < 8:
        raise ArgumentError(f"network: signals of length {length} are too short; pass 8 or more.")
    layers: list[nn.Module] = []
    if statistics:
        stem = Statistics(channels, length)
        layers += [stem, nn.Linear(stem.width, _HIDDEN), nn.ReLU(), nn.Dropout(_DROPOUT)]
        layers += [nn.Linear(_HIDDEN, features), Sigmoid()]
        return Network(nn.Sequential(*layers), features=features, classes=classes)
    for wide, kernel in ((32, 7), (64, 5), (128, 3)):
        layers += [nn.Conv1d(channels, wide, kernel, padding=kernel // 2), nn.BatchNorm1d(wide), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool1d(2))
        channels = wide
    layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, features), Sigmoid()]
    return Network(nn.Sequential(*layers), features=features, classes=classes)
