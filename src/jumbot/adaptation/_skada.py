"""Compatibility of the estimators with skada: `sample_domain`, and the methods that its scorers call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.utils import _safe_indexing

from jumbot.errors import ArgumentError
from jumbot.transport._checks import check_unmasked


def sources_of(sample_domain: Any, kept: np.ndarray) -> dict[str, Any]:
    """What `sample_domain`, a name for each row of X, makes of the `kept` rows: one source, or several."""
    if sample_domain is None:
        return {}
    names = np.asarray(sample_domain)
    if names.shape != kept.shape:
        raise ArgumentError(
            f"sample_domain: shape {names.shape}; it must contain a source for each of {len(kept)} rows."
        )
    if names.dtype.kind not in "iubUSO":
        raise ArgumentError(f"sample_domain: got {names.dtype}; pass whole numbers or names.")
    known, origins = np.unique(names[kept].astype(str), return_inverse=True)
    return {} if len(known) < 2 else {"origins": origins, "sources": tuple(known.tolist())}


def split_by_sign(X: Any, y: Any, X_target: Any, sample_domain: Any) -> tuple[Any, Any, Any, Any]:
    """X, y, X_target and sample_domain as `fit` takes them, where a negative number marks a row of the target.

    Names, and numbers from 0 on, identify sources and are kept.  The y of target rows is not used.
    """
    check_unmasked(sample_domain, "sample_domain")
    numbers = np.asarray(sample_domain) if sample_domain is not None else np.zeros(0, int)
    if numbers.ndim != 1 or numbers.dtype.kind != "i" or not (numbers < 0).any():
        return X, y, X_target, sample_domain
    if X_target is not None:
        raise ArgumentError("sample_domain marks target rows by negative numbers, so X_target must not be given too.")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(numbers) != rows:
        raise ArgumentError(f"sample_domain must have an entry for each of {rows} rows, got {len(numbers)}.")
    if (numbers < 0).all():
        raise ArgumentError("sample_domain must have a source, a number >= 0; all of its rows are negative.")
    source, target = np.flatnonzero(numbers >= 0), np.flatnonzero(numbers < 0)
    return _safe_indexing(X, source), _safe_indexing(y, source), _safe_indexing(X, target), numbers[source]


class SkadaCalls:
    """The methods that skada's scorers call; predictions do not depend on the given domain."""

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sample_domain: Any = None, allow_source: bool = False
    ) -> float:
        """Accuracy, or R^2 of numbers; `sample_domain` and `allow_source` are accepted as skada passes them."""
        found: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return found

    def predict_features(self, X: Any) -> np.ndarray:
        """As `transform`: skada's name for the embedding."""
        found: np.ndarray = self.transform(X)  # type: ignore[attr-defined]
        return found

    def infer(self, X: Any, **params: Any) -> torch.Tensor:
        """The logits (or numbers) of each row, a tensor: skada's name for them."""
        return torch.from_numpy(self._logits(X))  # type: ignore[attr-defined]

    @property
    def module_(self) -> Any:
        """Indicates that there is a layer of features, as in skada's deep models."""
        return SimpleNamespace(layer_name="embedding")
