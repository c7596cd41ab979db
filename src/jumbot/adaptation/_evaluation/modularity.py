"""Whether predictions respect the neighbourhoods of the target: the modularity of its nearest-neighbour graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from torch.nn import functional as F

from jumbot.adaptation._evaluation.measures import as_array, smoothness
from jumbot.adaptation._evaluation.selection import entropy, infomax, snd
from jumbot.data._domain import Domain, drawn_rows
from jumbot.errors import ArgumentError

Array = np.ndarray[Any, Any]
NEIGHBOURS = 7
MOST = 2000  # samples that are used
NEIGHBOURLY = 0.5
"""Share of the largest possible modularity above which the classes of a source form neighbourhoods."""
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
        raise ArgumentError("rows: contains NaN or infinity; drop or fill them first.")
    if k < 1:
        raise ArgumentError(f"k: got {k!r}; at least one neighbour is needed.")
    x = x - x.mean(0)  # |x|^2 + |y|^2 - 2 xy would lose digits to a large common offset
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
    r"""How far labels agree along the edges of a graph, beyond what class proportions alone give.

    .. math::
        \frac1n \sum_i \frac1k \sum_{j \in N(i)} \langle Y_i, Y_j\rangle
        - \Bigl\langle \frac1n \sum_i Y_i,\; \frac1{nk} \sum_i \sum_{j \in N(i)} Y_j \Bigr\rangle

    with one-hot rows `Y_i` of `labels` `(n,)` and the rows `N(i)` of `neighbours` `(n, k)`: the modularity of a
    directed graph (Leicht and Newman, 2008).  Classes that are unions of whole neighbourhoods score
    1 - sum of squared class proportions, one class for everything 0, and labels drawn at random about 0.

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


def neighbourly(labels: Array, neighbours: Array) -> float:
    """The modularity of labels divided by its largest possible value, 1 - sum of squared class proportions.

    >>> neighbourly(np.array([0, 0, 1, 1]), np.array([[1], [0], [3], [2]]))
    1.0
    """
    most = 1 - float(((np.bincount(labels) / len(labels)) ** 2).sum())
    return modularity(labels, neighbours) / most if most > 0 else 0.0


def some_rows(domain: Domain, seed: int = 0) -> tuple[Array, Array]:
    """(indices, rows): at most `MOST` samples of the network input, as rows; images are shrunk, views averaged."""
    index = some_samples(domain, seed)
    return index, rows_of(domain, index)


def some_samples(domain: Domain, seed: int = 0) -> Array:
    """Indices of at most `MOST` samples."""
    return drawn_rows(len(domain), MOST, (seed, 7))


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


_SURE = 2.0  # standard errors


@dataclass(frozen=True)
class Evidence:
    """The score of a candidate: how far its predictions respect neighbourhoods of the target and agree with the others.

    The other scores are established selection rules, for comparison.
    """

    modularity: float
    agreement: float
    entropy: float
    infomax: float
    snd: float
    parts: Array = field(repr=False, compare=False)
    """`(n,)` what each sample adds to the modularity."""

    @property
    def value(self) -> float:
        """modularity + agreement."""
        return self.modularity + self.agreement

    def to_row(self) -> dict[str, float]:
        """Columns of the table of candidates."""
        return {"evidence": self.value} | {name: value for name, value in asdict(self).items() if name != "parts"}

    def surely_beyond(self, other: Evidence) -> bool:
        """Whether its modularity is larger by more than two standard errors of the difference, sample by sample."""
        gain = self.parts - other.parts
        return bool(gain.mean() > _SURE * gain.std() / math.sqrt(len(gain)))

    def words(self) -> str:
        """The score with its parts, for messages."""
        return f"{self.value:.3f} (modularity {self.modularity:.3f} + agreement {self.agreement:.3f})"


def weigh(probabilities: Mapping[str, Any], neighbours: Any) -> dict[str, Evidence]:
    r"""The score of each of several candidates.

    .. math::
        \mathrm{evidence}_k = \mathrm{modularity}(y_k)
        + \frac1n \sum_i \Bigl\langle p_{ki},\; \frac1K \sum_l p_{li} \Bigr\rangle

    with probabilities `p_k` `(n, C)` of the same n target samples by candidate, their largest entries `y_k`, and
    `neighbours` `(n, k)` of each sample among them.  Collapse to one class has modularity 0; predictions of a single
    candidate have little agreement.

    >>> sure, unsure = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> found = weigh({"a": sure, "b": sure, "c": unsure}, [[1], [0]])
    >>> round(found["a"].agreement, 3), round(found["c"].agreement, 3)
    (0.833, 0.5)
    """
    arrays = {name: as_array(p).astype(np.float64) for name, p in probabilities.items()}
    if not arrays or len({p.shape for p in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {p.shape}" for name, p in arrays.items()) or "none"
        raise ArgumentError(f"probabilities: {shapes}; pass (n, C) of the same samples for at least one candidate.")
    mean = np.mean(list(arrays.values()), axis=0)
    parts = {name: modularity_parts(p.argmax(1), neighbours) for name, p in arrays.items()}
    return {
        name: Evidence(
            float(parts[name].mean()), float((p * mean).sum(1).mean()), entropy(p), infomax(p), snd(p), parts[name]
        )
        for name, p in arrays.items()
    }


_TELLING = 0.1  # of the best source: below it, neighbours carry no information about labels
_DOUBTFUL = 0.5  # of the best source's: above it, the difference is normal between data sets


def trust_in_sources(source: Domain, seed: int = 0) -> list[float]:
    """A number from 0 to 1 for each source: 1 unless its labels agree much less with their neighbours than those of the
    others.

    Agreement is the modularity of the labels among the nearest neighbours within the source, divided by its largest
    possible value 1 - sum of squared class proportions: 0 for labels at random. For numbers it is Moran's I.
    Neighbours are computed in the inputs, because a network memorises wrong labels, which then cannot be seen in its
    embedding.

    >>> from jumbot.data import as_domain
    >>> from jumbot.data._paths import join_domains
    >>> X, y = np.arange(60.0)[:, None], np.repeat([0, 1, 2], 20)
    >>> shuffled = np.random.default_rng(0).permutation(y)
    >>> trust_in_sources(join_domains([as_domain((X, y)), as_domain((X, shuffled))]))[1] < 0.1
    True
    """
    assert source.origins is not None
    found = np.array([_agreement(source.subset(source.origins == s), seed) for s in range(len(source.sources))])
    if found.max() < _TELLING:
        return [1.0] * len(found)
    return [1.0 if share >= _DOUBTFUL else share for share in (found.clip(min=0) / found.max()).tolist()]


def _agreement(part: Domain, seed: int) -> float:
    """1 if neighbours share their labels, about 0 if these are random, or too few."""
    if len(part) < 2:
        return 0.0
    index, rows = some_rows(part, seed)
    graph = nearest(rows)
    if part.values is not None:
        return smoothness(part.values[index], graph)
    assert part.labels is not None
    return neighbourly(part.labels[index], graph)
