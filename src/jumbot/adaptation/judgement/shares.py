"""How much of the target comes from which of several sources, for the files and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def describe_shares(shares: Array, names: Sequence[str], predictions: Array | None, classes: int) -> dict[str, Any]:
    """What `results.json` holds of `(n, sources)` shares: their means, over all samples and by predicted class.

    >>> shares = np.array([[0.9, 0.1], [0.7, 0.3], [0.5, 0.5]])
    >>> describe_shares(shares, ["a", "b"], np.array([0, 0, 2]), 3)["by_class"]
    [[0.8, 0.2], None, [0.5, 0.5]]
    """
    members = [] if predictions is None else [shares[predictions == c] for c in range(classes)]
    return {
        "names": list(names),
        "shares": _mean(shares),
        "by_class": [_mean(some) if len(some) else None for some in members],
    }


def columns_of(shares: Array, names: Sequence[str]) -> dict[str, Array]:
    """A column of `predictions.csv` per source."""
    return {f"from_{name}": shares[:, s] for s, name in enumerate(names)}


def _mean(shares: Array) -> list[float]:
    return [round(float(share), 6) for share in shares.mean(0)]
