"""A model in a few lines, for whoever prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumbot.data.column_kinds import few
from jumbot.errors import one_line

if TYPE_CHECKING:
    from jumbot.adaptation.model import Model

_CLASSES = 8  # whose names are shown


def model_text(model: Model) -> str:
    """What it predicts, from what, how it was made and how good it seems; at most ten lines."""
    results, columns = model.results, model.input.columns
    predicts = f"{len(model.classes)} classes: {few(model.classes, _CLASSES)}"
    if not model.classes:
        names = few(getattr(model.task, "output_names", ()), _CLASSES)
        predicts = f"{model.task.outputs} numbers: {names}" if names else "a number"
    takes = f"{model.input.kind} of shape {model.input.shape}"
    if columns is not None:
        takes = f"tables with the columns {few([column.name for column in columns.columns], _CLASSES)}"
    lines = [
        f"Model: {model.method['name']}",
        f"  predicts  {predicts}",
        f"  takes     {takes}",
    ]
    if results.get("accuracy") is not None:
        lines.append(f"  accuracy  {100 * results['accuracy']:.1f} % by target labels, which training never saw")
    elif results.get("rmse") is not None:
        lines.append(f"  error     RMSE {results['rmse']:.4g} by target labels, which training never saw")
    if model.estimated_accuracy is not None:
        lines.append(f"  estimate  {one_line(model.estimated_accuracy)}")
    if "unexplained" in model.diagnosis:
        lines.append(f"  target    {len(model.diagnosis['unexplained'])} samples that no source sample explains")
    if model.diagnosis.get("reasons"):
        lines.append(f"  warning   negative transfer is likely: {one_line(model.diagnosis['reasons'][0])}")
    if model.run is not None:
        lines.append(f"  run       {one_line(model.run)}")
    lines.append("  use       predict, predict_proba, evaluate, report, save, export")
    return "\n".join(lines)
