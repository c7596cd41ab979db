"""Which rows count as current in each exchange: the null distribution of the test.

Under the null hypothesis units are exchangeable: the labels "reference" and "current" could have fallen on them in any
other way that keeps how many units each set has.  A group that is in both sets, such as a patient before and after, has
its two parts swapped or not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
FEWEST = 20
"""Different exchanges below which no p-value can be .05."""


def exchange(current: Array, units: Array, count: int, rng: np.random.Generator) -> Array:
    """(N, count + 1) whether each row is current: unchanged in the first column, exchanged in the others.

    >>> exchange(np.array([False, False, True, True] * 3), np.arange(12) // 2, 1, np.random.default_rng(0)).sum(0)
    array([6, 6])
    """
    numbers, places = np.unique(units, return_inverse=True)
    there = np.zeros(len(numbers), bool)
    here = np.zeros(len(numbers), bool)
    np.logical_or.at(there, places, current)
    np.logical_or.at(here, places, ~current)
    paired, alone = np.flatnonzero(there & here), np.flatnonzero(there != here)
    _check_enough(len(paired), len(alone), int(there[alone].sum()))
    found = np.empty((len(current), count + 1), bool)
    found[:, 0] = current
    for column in range(1, count + 1):
        side, swapped = np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)
        side[alone] = rng.permutation(there[alone])
        swapped[paired] = rng.random(len(paired)) < 0.5
        both = np.isin(places, paired)
        found[:, column] = np.where(both, current ^ swapped[places], side[places])
    return found


def _check_enough(pairs: int, alone: int, there: int) -> None:
    """Refuse data whose units can be exchanged in too few ways for any p-value of .05."""
    ways = math.comb(alone, there) * 2**pairs if alone + pairs < 200 else math.inf
    if ways < FEWEST:
        raise ArgumentError(
            f"groups: {alone + pairs} groups can be exchanged in {ways:.0f} ways, too few for a p-value below "
            f"{1 / max(ways, 1):.2g}; use more groups, or smaller blocks."
        )
