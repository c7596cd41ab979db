"""Figures for predicted numbers: RMSE, MAE, R2, and a score that needs no labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from jumbot.adaptation.judgement.evaluation import as_array
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
            "rmse": self.rmse, "mae": self.mae, "r2": self.r2, "n": self.n, "left_out": self.left_out,
            "per_output": named,
        }  # fmt: skip

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
    """RMSE, MAE and R2 of predictions `(n, outputs)` beside true values, NaN where one is not known.

    >>> print(evaluate_numbers([[1.0], [2.0], [4.0]], [[1.0], [2.0], [3.0]]))
    RMSE 0.5774, MAE 0.3333, R2 0.500, 3 samples
    """
    found, truth = as_array(predictions).astype(np.float64), as_array(values).astype(np.float64)
    if found.shape != truth.shape or found.ndim != 2:
        raise ArgumentError(f"values: shape {truth.shape}, but predictions of {found.shape}; give (n, outputs) both.")
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

    A constant prediction has 0.  What it cannot see is a smooth prediction that is wrong.

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
