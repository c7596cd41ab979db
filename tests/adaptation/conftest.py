"""Small pairs of domains for the tests of adaptation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jumbot.data._domain import ArraySamples, Domain

Pair = tuple[Domain, Domain]


@pytest.fixture
def blobs() -> Callable[..., Pair]:
    """Gaussian blobs at the corners of a simplex; the target is moved and carries its labels for evaluation."""

    def make(n: int = 120, classes: int = 3, shift: float = 0.7, seed: int = 0) -> Pair:
        rng = np.random.default_rng(seed)
        centres = 3 * np.eye(classes)
        labels = np.arange(n) % classes
        names = tuple(f"class {c}" for c in range(classes))
        source = centres[labels] + 0.5 * rng.normal(size=(n, classes))
        target = centres[labels] + 0.5 * rng.normal(size=(n, classes)) + shift
        return (
            Domain("here", ArraySamples(source.astype(np.float32)), labels, names),
            Domain("there", ArraySamples(target.astype(np.float32)), labels, names),
        )

    return make
