"""A model in ten lines: what it predicts, its inputs, and its accuracy."""

from __future__ import annotations

from pathlib import Path

from jumbot.adaptation._evaluation.task import Regression, Task
from jumbot.adaptation._runs.results_json import Results
from jumbot.data._column_kinds import few
from jumbot.data._inputs import InputFormat
from jumbot.errors import one_line

_NAMES = 8  # of classes, numbers or columns, that are shown


def model_text(method: str, task: Task, input: InputFormat, found: Results | None, run: Path | None) -> str:
    """What `print(model)` shows."""
    lines = [f"Model: {method}", f"  predicts  {_predicts(task)}", f"  takes     {_takes(input)}"]
    if found is not None:
        lines += _figures(found)
    if run is not None:
        lines.append(f"  run       {one_line(run)}")
    lines.append("  use       predict, predict_proba, predict_set, evaluate, report, save, export")
    return "\n".join(lines)


def _predicts(task: Task) -> str:
    if not isinstance(task, Regression):
        return f"{len(task.classes)} classes: {few(task.classes, _NAMES)}"
    names = few(task.output_names, _NAMES)
    return f"{task.outputs} numbers: {names}" if names else "a number"


def _takes(input: InputFormat) -> str:
    if input.columns is None:
        return f"{input.kind} of shape {input.shape}"
    return f"tables with the columns {few([column.name for column in input.columns.columns], _NAMES)}"


def _figures(found: Results) -> list[str]:
    lines = []
    if found.accuracy is not None and found.mean_class_accuracy is not None:
        both = f"{100 * found.accuracy:.1f} %, mean over classes {100 * found.mean_class_accuracy:.1f} %,"
        lines.append(f"  accuracy  {both} by target labels, which training never saw")
    elif found.rmse is not None:
        lines.append(f"  error     RMSE {found.rmse:.4g} by target labels, which training never saw")
    if found.estimated_accuracy is not None:
        lines.append(f"  estimate  {one_line(found.estimated_accuracy)}")
    lines.append(f"  target    {len(found.diagnosis.unexplained)} unexplained samples")
    if found.diagnosis.reasons:
        blind = ", judged without labels" if found.accuracy is not None else ""
        lines.append(f"  warning   negative transfer is likely{blind}: {one_line(found.diagnosis.reasons[0])}")
    return lines
