"""Whether predictions respect the neighbourhoods of the target: the modularity of its nearest-neighbour graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional as F

from jumbot.adaptation.judgement.evaluation import as_array
from jumbot.data.domain import Domain
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
NEIGHBOURS = 7
MOST = 2000  # samples that are looked at
_CHUNK = 512  # rows of the matrix of distances at once
_SIDE = 16  # images are compared at this size


def nearest(rows: Any, k: int = NEIGHBOURS) -> Array:
    """`(n, k)` indices of the k nearest other rows of each row of `(n, d)`; of equally near ones the first.

    Fewer than k other rows are all neighbours.

    >>> nearest([[0.0], [1.0], [3.0], [3.5]], 1).ravel().tolist()
    [1, 0, 3, 2]
    """
    x = as_array(rows).astype(np.float64, copy=False)
    if x.ndim != 2 or len(x) < 2:
        raise ArgumentError(f"rows: shape {x.shape}; pass (n, d) with at least two rows.")
    if not np.isfinite(x).all():
        raise ArgumentError("rows: not all are finite numbers.")
    if k < 1:
        raise ArgumentError(f"k: {k!r} came in; at least one neighbour is needed.")
    x = x - x.mean(0)  # |x|^2 + |y|^2 - 2 xy loses what a large common offset would take
    squares = np.einsum("ij,ij->i", x, x)
    found = []
    for start in range(0, len(x), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        distances = squares - 2 * x[chunk] @ x.T
        own = np.arange(len(distances))
        distances[own, start + own] = np.inf
        found.append(np.argsort(distances, axis=1, kind="stable")[:, : min(k, len(x) - 1)])
    return np.concatenate(found)


def modularity(labels: Any, neighbours: Any) -> float:
    r"""How far labels agree along the edges of a graph, beyond what class sizes alone give.

    .. math::
        \frac1n \sum_i \frac1k \sum_{j \in N(i)} \langle Y_i, Y_j\rangle
        - \Bigl\langle \frac1n \sum_i Y_i,\; \frac1{nk} \sum_i \sum_{j \in N(i)} Y_j \Bigr\rangle

    with one-hot rows `Y_i` of `labels` `(n,)` and the rows `N(i)` of `neighbours` `(n, k)`: the modularity of a
    directed graph (Leicht and Newman, 2008).  Classes that are unions of whole neighbourhoods score
    1 - sum of squared class shares, one class for everything 0, and labels drawn at random about 0.

    >>> modularity([0, 0, 1, 1], [[1], [0], [3], [2]]), modularity([0, 0, 0, 0], [[1], [0], [3], [2]])
    (0.5, 0.0)
    """
    return float(modularity_parts(labels, neighbours).mean())


def modularity_parts(labels: Any, neighbours: Any) -> Array:
    r"""`(n,)` what each sample adds to the modularity, which is their mean.

    .. math:: \frac1k \sum_{j \in N(i)} \langle Y_i, Y_j\rangle
        - \Bigl\langle Y_i,\; \frac1{nk} \sum_l \sum_{j \in N(l)} Y_j \Bigr\rangle
    """
    y, graph = as_array(labels), as_array(neighbours)
    if y.ndim != 1 or y.dtype.kind not in "iu" or graph.ndim != 2 or len(graph) != len(y) or not graph.size:
        raise ArgumentError(
            f"labels of shape {y.shape} ({y.dtype}) and neighbours of shape {graph.shape}; pass whole numbers (n,) and "
            "indices (n, k)."
        )
    _, y = np.unique(y, return_inverse=True)
    around = np.bincount(y[graph].ravel(), minlength=int(y.max()) + 1) / graph.size
    found: Array = (y[graph] == y[:, None]).mean(1) - around[y]
    return found


def some_rows(domain: Domain, seed: int = 0) -> tuple[Array, Array]:
    """(indices, rows): at most `MOST` samples as the network gets them, as rows; images shrunk, views averaged."""
    index = some_samples(domain, seed)
    return index, rows_of(domain, index)


def some_samples(domain: Domain, seed: int = 0) -> Array:
    """Indices of at most `MOST` samples."""
    index = np.arange(len(domain))
    if len(index) > MOST:
        index = np.sort(np.random.default_rng((seed, 7)).choice(index, MOST, replace=False))
    return index


def rows_of(domain: Domain, index: Array | None = None) -> Array:
    """Samples as rows of numbers, to be compared."""
    index = np.arange(len(domain)) if index is None else index
    parts = []
    for some in np.array_split(index, len(index) // _CHUNK + 1):
        x = domain.samples.batch(some)
        if x.ndim == 5:
            x = x.mean(1)
        if x.ndim == 4:
            x = F.adaptive_avg_pool2d(x, (min(x.shape[-2], _SIDE), min(x.shape[-1], _SIDE)))
        parts.append(x.flatten(1).double().numpy())
    return np.concatenate(parts)
