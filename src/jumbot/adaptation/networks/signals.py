"""A small network for signals."""

from __future__ import annotations

from torch import nn

from jumbot.errors import ArgumentError
from jumbot.methods.network import Network


def signal_network(shape: tuple[int, ...], classes: int, features: int = 128) -> Network:
    """For signals `(channels, length)`: three convolutions along time, each pooled, their mean, a sigmoid embedding.

    The mean over time makes it indifferent to where in the signal a pattern stands; the embedding is that of the
    paper's digits, so that the same eta1 fits.

    >>> sum(p.numel() for p in signal_network((3, 128), 5).parameters())
    53317
    """
    channels, length = shape
    if length < 8:
        raise ArgumentError(f"network: signals of length {length} are too short for three poolings; give 8 or more.")
    layers: list[nn.Module] = []
    for wide, kernel in ((32, 7), (64, 5), (128, 3)):
        layers += [nn.Conv1d(channels, wide, kernel, padding=kernel // 2), nn.BatchNorm1d(wide), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool1d(2))
        channels = wide
    layers += [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, features), nn.Sigmoid()]
    return Network(nn.Sequential(*layers), features=features, classes=classes)
