"""Estimates of a classifier's accuracy on an unlabelled target, each from what a labelled, held-out source teaches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jumbot.transport.solve import solve

Array = np.ndarray[Any, Any]
MOST = 2000  # target samples in the transport problem
COLDEST, HOTTEST = 0.05, 20.0  # temperatures
_ROUNDS = 200  # of expectation and maximisation at most


def softmax(logits: Array, temperature: float = 1.0, offset: Array | float = 0.0) -> Array:
    """Probabilities softmax(z / T + offset) of logits `(n, C)`, in float64."""
    z = np.asarray(logits, np.float64) / temperature + offset
    z = np.exp(z - z.max(1, keepdims=True))
    found: Array = z / z.sum(1, keepdims=True)
    return found


def fit_temperature(logits: Array, labels: Array, offset: Array | float = 0.0) -> float:
    r"""The temperature at which held-out labels are likeliest.

    .. math:: \min_T -\frac1n \sum_i \log \mathrm{softmax}(z_i / T + b)_{y_i}

    with the `offset` b of each class, such as the logarithm of its share where z is for equal classes.

    The labels are smoothed by 1 / (n + 2), as Platt does, for otherwise a classifier without a mistake among a few
    samples would be made infinitely sure of everything.

    >>> logits = np.array([[2.0, 0.0]] * 100)
    >>> round(fit_temperature(logits, np.array([0] * 73 + [1] * 27)), 1)
    2.1
    """
    z = np.asarray(logits, np.float64)
    n, classes = z.shape
    smooth = 1 / (n + 2)
    goal = np.full(z.shape, smooth / classes)
    goal[np.arange(n), labels] += 1 - smooth
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(60):  # the loss is convex in 1 / T: its slope there is mean <p - goal, z>
        middle = math.sqrt(low * high)
        slope = float(((softmax(z, 1 / middle, offset) - goal) * z).sum(1).mean())
        low, high = (low, middle) if slope > 0 else (middle, high)
    return 1 / math.sqrt(low * high)


def difference_of_confidences(held: Array, right: float, target: Array) -> float:
    """Held-out accuracy, less what the mean confidence loses from the held-out source to the target (Guillory 2021)."""
    return float(np.clip(right - held.max(1).mean() + target.max(1).mean(), 0, 1))


def threshold_vote(held: Array, right: float, target: Array) -> float:
    """ATC (Garg 2022): the share of the target above the confidence that a share `right` of the source is above.

    >>> held = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> threshold_vote(held, 0.5, np.array([[0.85, 0.15], [0.3, 0.7], [0.4, 0.6]]))
    0.333...
    """
    sure = np.sort(_certainty(held))
    place = min(round((1 - right) * len(sure)), len(sure) - 1)
    threshold = sure[place] if place else sure[0] - (sure[-1] - sure[0] if len(sure) > 1 else 0) / len(sure)
    return float((_certainty(target) >= threshold).mean())


def transport_vote(target: Array, shares: Array, seed: int = 0) -> float:
    r"""COT (Lu 2023): one less the cost of moving the target's probabilities to labels in given shares.

    .. math:: 1 - \min_P \sum_{i, y} P_{iy} (1 - q_{iy}), \quad P 1 = 1 / n, \quad P^\top 1 = \pi

    the exact optimal transport cost.  Where the classes' shares are right it sees mistakes that confidence hides: as
    many samples must be of a class as there are, sure of it or not.

    >>> transport_vote(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5]))
    0.5
    """
    q = _some(target, seed)
    kept = shares > 0
    if kept.sum() < 2:
        return float(q[:, kept].mean())
    rows, columns = np.full(len(q), 1 / len(q)), shares[kept] / shares[kept].sum()
    return 1 - float(solve(1 - q[:, kept], rows, columns, epsilon=0.0).value)


def estimated_shares(target: Array, shares: Array) -> Array:
    r"""The target's class shares by expectation and maximisation from calibrated probabilities (Saerens 2002).

    .. math:: \pi \leftarrow \frac1n \sum_i \frac{q_{i} \pi / \pi_s}{\langle q_i, \pi / \pi_s\rangle}

    from the source's own `shares` on; classes that the source has not stay without a share.
    """
    kept = shares > 0
    q, source = target[:, kept], shares[kept] / shares[kept].sum()
    found = source.copy()
    for _ in range(_ROUNDS):
        weighted = q * (found / source)
        new = (weighted / np.maximum(weighted.sum(1, keepdims=True), 1e-300)).mean(0)
        moved, found = float(np.abs(new - found).sum()), new
        if moved < 1e-7:
            break
    whole = np.zeros(len(shares))
    whole[kept] = found
    return whole


def reweighted(q: Array, shares: Array, wanted: Array) -> Array:
    """Probabilities for classes in `shares` as they would be for `wanted` ones: q wanted / shares, normalised."""
    factor = np.divide(wanted, shares, out=np.zeros(len(shares)), where=shares > 0)
    weighted = q * factor
    total = weighted.sum(1, keepdims=True)
    return np.where(total > 0, weighted / np.where(total > 0, total, 1), q)


def _certainty(q: Array) -> Array:
    """The negative entropy, by which ATC does best."""
    found: Array = (q * np.log(np.maximum(q, 1e-300))).sum(1)
    return found


def _some(rows: Array, seed: int) -> Array:
    if len(rows) <= MOST:
        return rows
    found: Array = rows[np.sort(np.random.default_rng((seed, 8)).choice(len(rows), MOST, replace=False))]
    return found
