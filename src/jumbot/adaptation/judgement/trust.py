"""Whether the labels of each of several sources can be trusted: do its own neighbours share them?"""

from __future__ import annotations

import numpy as np

from jumbot.adaptation.judgement.modularity import modularity, nearest, some_rows
from jumbot.adaptation.judgement.regression import smoothness
from jumbot.data.domain import Domain

_TELLING = 0.1  # of the best source: below it, neighbours say nothing about labels here
_DOUBTFUL = 0.5  # of the best source's: above it, sources differ as data sets do


def trust_in_sources(source: Domain, seed: int = 0) -> list[float]:
    """A number from 0 to 1 for each source: 1 unless its labels agree with their neighbours far less than others'.

    Agreement is the modularity of the labels among the nearest neighbours within the source, divided by its largest
    possible value 1 - sum of squared class shares: 0 for labels at random.  Of numbers it is Moran's I.  A network
    learns wrong labels by heart, so that no plan in its embedding would tell; these neighbours are of the inputs.

    >>> from jumbot.data import as_domain
    >>> from jumbot.data.joined import join_domains
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
    """1 where neighbours share their labels, about 0 where these are random, or too few to tell."""
    if len(part) < 2:
        return 0.0
    index, rows = some_rows(part, seed)
    graph = nearest(rows)
    if part.values is not None:
        return smoothness(part.values[index], graph)
    assert part.labels is not None
    labels = part.labels[index]
    most = 1 - float(((np.bincount(labels) / len(labels)) ** 2).sum())
    return modularity(labels, graph) / most if most > 0 else 0.0
