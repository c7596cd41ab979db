"""Figures for predicted numbers: RMSE, MAE, R2, and a score that needs no labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import wasserstein_distance

from jumbot.adaptation._evaluation.measures import as_array
from jumbot.errors import ArgumentError


@dataclass(frozen=True)
class RegressionEvaluation:
    """`rmse` and `mae` in the units of the labels, means over the outputs where there are several; R2 as well."""

    rmse: float
    mae: float
    r2: float | None
    """1 - mean squared error / variance of the labels; None where these are all equal."""
    n: int
    left_out: int = 0
    """Samples without a label."""
    per_output: tuple[tuple[float, float, float | None], ...] = ()
    """(rmse, mae, r2) of each output."""
    names: tuple[str, ...] = ()
    """Of the outputs, where there are several."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        named: list[dict[str, Any]] = [dict(zip(("rmse", "mae", "r2"), one, strict=True)) for one in self.per_output]
        for one, name in zip(named, self.names, strict=False):
            one["name"] = name
        return {
            "rmse": self.rmse,
            "mae": self.mae,
            "r2": self.r2,
            "n": self.n,
            "left_out": self.left_out,
            "per_output": named,
        }

    def __str__(self) -> str:
        without = f" ({self.left_out} without a label left out)" if self.left_out else ""
        if not self.n:
            return f"no labelled sample{without}"
        lines = [f"{_figures(self.rmse, self.mae, self.r2)}, {self.n} samples{without}"]
        if len(self.per_output) > 1:
            names = self.names or tuple(f"output {i}" for i in range(1, len(self.per_output) + 1))
            lines += [f"  {name}: {_figures(*one)}" for name, one in zip(names, self.per_output, strict=True)]
        return "\n".join(lines)


def evaluate_numbers(predictions: Any, values: Any, names: tuple[str, ...] = ()) -> RegressionEvaluation:
    """RMSE, MAE and R2 of predictions `(n, outputs)` and true values, NaN where one is not known.

    >>> print(evaluate_numbers([[1.0], [2.0], [4.0]], [[1.0], [2.0], [3.0]]))
    RMSE 0.5774, MAE 0.3333, R2 0.500, 3 samples
    """
    found, truth = as_array(predictions).astype(np.float64), as_array(values).astype(np.float64)
    if found.shape != truth.shape or found.ndim != 2:
        raise ArgumentError(f"values: shape {truth.shape}, but predictions of {found.shape}; pass (n, outputs) both.")
    if not np.isfinite(found).all():
        raise ArgumentError("predictions: not all are finite; the network has diverged.")
    known = ~np.isnan(truth).any(1)
    left_out = int((~known).sum())
    if not known.any():
        return RegressionEvaluation(math.nan, math.nan, None, 0, left_out)
    found, truth = found[known], truth[known]
    squares, sizes, spread = ((found - truth) ** 2).mean(0), np.abs(found - truth).mean(0), truth.var(0)
    each = tuple(
        (math.sqrt(square), float(size), 1 - float(square / var) if var > 0 else None)
        for square, size, var in zip(squares, sizes, spread, strict=True)
    )
    r2 = [one[2] for one in each]
    mean = None if any(one is None for one in r2) else float(np.mean(np.array(r2, float)))
    rmse, mae = (float(np.mean([one[i] for one in each])) for i in (0, 1))
    return RegressionEvaluation(rmse, mae, mean, int(known.sum()), left_out, each, names)


def smoothness(predictions: Any, neighbours: Any) -> float:
    r"""Moran's I of predicted numbers along a graph of neighbours: 1 where neighbours agree, about 0 at random.

    .. math:: \frac{\frac1{nk} \sum_i \sum_{j \in N(i)} \langle f_i - \bar f, f_j - \bar f\rangle}
        {\frac1n \sum_i \|f_i - \bar f\|^2}

    A constant prediction scores 0.  A smooth but wrong prediction is not detected.

    >>> round(smoothness([[0.0], [0.1], [5.0], [5.1]], [[1], [0], [3], [2]]), 2)
    1.0
    """
    f, graph = as_array(predictions).astype(np.float64), as_array(neighbours)
    centred = f - f.mean(0)
    total = float((centred**2).sum(1).mean())
    if not total > 1e-20:
        return 0.0
    return float((centred[:, None] * centred[graph]).sum(-1).mean()) / total


def _figures(rmse: float, mae: float, r2: float | None) -> str:
    return f"RMSE {rmse:.4g}, MAE {mae:.4g}" + ("" if r2 is None else f", R2 {r2:.3f}")


Array = np.ndarray[Any, Any]

UNKNOWN = 0.75
"""The gap of source-only, in standard deviations, above which it cannot be determined without labels whether adaptation
helps: it does harm if the target's numbers differ, and helps if its inputs have moved.
"""


@dataclass(frozen=True)
class NumberEvidence:
    """The score of a candidate: how far it agrees with the others, and how far its numbers are distributed like the
    source's.
    """

    agreement: float
    """1 - mean squared distance to the mean of the candidates, in variances of the source's numbers."""
    gap: float
    """Wasserstein distance between predicted numbers and the source's, in deviations of these."""
    smoothness: float
    """Moran's I among the neighbours of the target, to compare with."""

    @property
    def value(self) -> float:
        """agreement - gap: the candidate with the largest is picked."""
        return self.agreement - self.gap

    def to_row(self) -> dict[str, float]:
        """Columns of the table of candidates."""
        return {"evidence": self.value, **asdict(self)}

    def words(self) -> str:
        """The score with its parts, for messages."""
        return f"{self.value:.3f} (agreement {self.agreement:.3f} - gap {self.gap:.3f})"


def weigh_numbers(predictions: Mapping[str, Any], source: Any, neighbours: Any) -> dict[str, NumberEvidence]:
    r"""The score of each of several candidates.

    .. math::
        \mathrm{evidence}_k = 1 - \frac1n \sum_i \frac{(f_{ki} - \bar f_i)^2}{\sigma^2}
        - \frac{W_1(f_k, y)}{\sigma}, \qquad \bar f_i = \frac1K \sum_l f_{li}

    with predictions `f_k` `(n, outputs)` of the same target samples by candidate, the source's numbers `y` `(m,
    outputs)` and their deviation sigma; a mean over the outputs.  Like transport, it assumes that numbers have the same
    distribution in both domains.  A candidate that predicts only the mean has a gap of about .8.

    >>> y = np.linspace(0, 1, 50)[:, None]
    >>> found = weigh_numbers({"a": y, "b": y, "constant": 0 * y + 0.5}, y, np.arange(50)[:, None])
    >>> {name: round(each.value, 2) for name, each in found.items()}
    {'a': 0.89, 'b': 0.89, 'constant': -0.31}
    """
    values = as_array(source).astype(np.float64)
    found = {name: as_array(f).astype(np.float64) for name, f in predictions.items()}
    if not found or len({f.shape for f in found.values()} | {(len(f), values.shape[1]) for f in found.values()}) > 1:
        shapes = ", ".join(f"{name} {f.shape}" for name, f in found.items()) or "none"
        raise ArgumentError(
            f"predictions: {shapes}; pass (n, {values.shape[1]}) of the same samples for each candidate."
        )
    deviation = values.std(0)
    deviation[deviation == 0] = 1.0
    mean = np.mean(list(found.values()), axis=0)
    return {
        name: NumberEvidence(
            1 - float((((f - mean) / deviation) ** 2).mean()),
            float(
                np.mean([wasserstein_distance(f[:, k], values[:, k]) / deviation[k] for k in range(values.shape[1])])
            ),
            smoothness(f / deviation, neighbours),
        )
        for name, f in found.items()
    }
