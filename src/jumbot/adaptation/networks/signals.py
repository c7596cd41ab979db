"""A small network for signals, on statistics that are known to tell signals apart."""

from __future__ import annotations

from torch import nn

from jumbot.adaptation.networks._stems import Statistics
from jumbot.errors import ArgumentError
from jumbot.methods.network import Network, Sigmoid

_HIDDEN, _DROPOUT = 256, 0.3


def signal_network(shape: tuple[int, ...], classes: int, features: int = 128, statistics: bool = True) -> Network:
    """For signals `(channels, length)`: their `Statistics`, a hidden layer, a sigmoid embedding.

    Convolutions learn the source better and what does not hold elsewhere, such as which way up a sensor is worn: with
    them, and with both, exercises that are told apart on one wrist are mistaken on the other.  Models of earlier
    versions have them instead of `statistics`: three along time, each pooled, and their mean.

    The embedding is that of the paper's digits, so that the same eta1 fits.

    >>> sum(p.numel() for p in signal_network((3, 128), 5, statistics=False).parameters())
    53317
    >>> signal_network((3, 128), 5).backbone[0].width
    204
    """
    channels, length = shape
    if length < 8:
        raise ArgumentError(f"network: signals of length {length} are too short; give 8 or more.")
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
