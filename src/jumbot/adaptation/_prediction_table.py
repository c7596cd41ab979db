"""The table of predictions: `predictions.csv` of a run, and what `Model.write_predictions` writes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from torch import Tensor

from jumbot._base.files import replacing
from jumbot.adaptation._evaluation.accuracy import Calibration
from jumbot.adaptation._evaluation.diagnosis import UNEXPLAINED
from jumbot.adaptation._evaluation.sets import PredictionSets
from jumbot.adaptation._evaluation.task import Regression, Task
from jumbot.data._domain import Domain
from jumbot.data._frames import safe

_LINES = 10_000  # of a table of predictions that are made at once


def write_table(
    file: str | Path | TextIO,
    domain: Domain,
    logits: Tensor,
    task: Task,
    calibration: Calibration,
    more: Mapping[str, Any],
) -> None:
    """One line per sample, with `more` columns of numbers; no spreadsheet takes an id or a label for a formula."""
    names = ["label", "confidence"]
    if isinstance(task, Regression):
        names = [f"prediction_{name}" for name in task.output_names] or ["prediction"]
    ids: Sequence[Any] = range(len(domain)) if domain.ids is None else domain.ids
    with ExitStack() as opened:
        if isinstance(file, str | Path):
            path = opened.enter_context(replacing(file))
            file = opened.enter_context(path.open("w", newline="", encoding="utf-8", errors="backslashreplace"))
        # the csv module quotes a carriage return only where lines end in one
        odd = any("\r" in str(cell) for cell in chain(() if domain.ids is None else ids, task.classes))
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
        writer.writerow(["id", *names, *more])
        for start in range(0, len(domain), _LINES):
            part = slice(start, start + _LINES)
            columns = [*_words(task, calibration, logits[part])]
            columns += [[v if isinstance(v, str) else f"{v:.6g}" for v in given[part]] for given in more.values()]
            row_names = ids[part] if domain.ids is None else [safe(str(name)) for name in ids[part]]
            writer.writerows(zip(row_names, *columns, strict=True))


def set_columns(task: Task, found: PredictionSets) -> dict[str, Any]:
    """Columns of predictions with sets; intervals in the digits of the predictions."""
    if isinstance(task, Regression):
        ends = found.sets.reshape(len(found.sets), -1, 2)
        names = task.output_names or ("",)
        return {
            "_".join(filter(None, (end, name))): [repr(float(value)) for value in ends[:, i, side]]
            for i, name in enumerate(names)
            for side, end in enumerate(("low", "high"))
        }
    order = {name: i for i, name in enumerate(task.names().tolist())}
    texts = [safe("|".join(task.classes[i] for i in sorted(order[c] for c in one))) for one in found.sets]
    return {"set": texts, "set_size": found.sizes}


def _words(task: Task, calibration: Calibration, logits: Tensor) -> Iterator[list[str]]:
    """The columns of predictions in a table."""
    if isinstance(task, Regression):
        for values in task.decode(logits).reshape(len(logits), -1).T:
            yield [repr(float(value)) for value in values]
    else:
        best = calibration.scores(logits).softmax(-1).max(-1)
        yield [safe(task.classes[i]) for i in best.indices.tolist()]
        yield [f"{value:.4f}" for value in best.values.tolist()]


def explanations(received: np.ndarray) -> dict[str, np.ndarray]:
    """Columns of `predictions.csv` on how well the source explains a sample."""
    return {"received_mass": received, "unexplained": (received < UNEXPLAINED).astype(int)}
