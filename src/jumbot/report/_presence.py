"""What a run shows about the target: class proportions, absent classes, unexplained samples, warnings."""

from __future__ import annotations

from jumbot.methods import SOURCE_ONLY
from jumbot.report._records import Prediction, RunRecord, number

HARM = "negative transfer is likely"
_UNCHANGED = 0.0005  # a share that is written as 0.0 %


def class_shares(run: RunRecord) -> dict[str, list[float | None]]:
    """`{"true" | "estimated" | "predicted": share of each class}`, as far as the run knows them."""
    found: dict[str, list[float | None]] = {}
    if (confusion := run.confusion) is not None:
        found["true"] = list((confusion.sum(1) / confusion.sum()).tolist())
    if estimated := _shares(run, "class_proportions"):
        found["estimated"] = estimated
    if predicted := _shares(run, "predicted_proportions"):
        found["predicted"] = predicted
    elif confusion is not None:
        found["predicted"] = list((confusion.sum(0) / confusion.sum()).tolist())
    return found if "estimated" in found or "predicted" in found else {}


def absent_classes(run: RunRecord) -> list[str] | None:
    """Source classes that seem absent from the target; None where no diagnosis was made."""
    return [run.classes[each] for each in run.diagnosis["absent_classes"]] if run.diagnosis else None


def truly_absent(run: RunRecord) -> list[str] | None:
    """Source classes without a labelled target sample; None where labels were not given."""
    confusion = run.confusion
    if confusion is None:
        return None
    return [name for name, total in zip(run.classes, confusion.sum(1), strict=True) if total == 0]


def least_explained(run: RunRecord, most: int) -> list[Prediction]:
    """The target samples that received the least mass, least first."""
    known = [each for each in run.predictions if each.received_mass is not None]
    return sorted(known, key=lambda each: each.received_mass or 0.0)[:most]


def data_remarks(run: RunRecord) -> list[str]:
    """Problems in the data: to be read before anything else."""
    return list((run.results or {}).get("data_remarks", ()))


def unchanged(run: RunRecord) -> bool:
    """Whether adaptation changed no prediction of the classifier that saw the source alone: then it did no harm."""
    changed = run.baseline.get("changed")
    return changed is not None and changed < _UNCHANGED


def baseline_accuracy(run: RunRecord) -> float | None:
    """On the same target labels, of the classifier that saw the source alone."""
    found = run.baseline.get("accuracy")
    return run.accuracy_before if found is None else found


def helped(run: RunRecord) -> bool:
    """Whether target labels show that adaptation helped: then warnings given without labels are left out."""
    before = baseline_accuracy(run)
    return run.accuracy is not None and before is not None and run.accuracy > before


def warnings_of(run: RunRecord) -> list[str]:
    """Why the predictions may be worse than they could be, or than without adaptation."""
    harmless = run.method == SOURCE_ONLY or unchanged(run) or helped(run)
    harmful = () if harmless else run.diagnosis.get("reasons", ())
    remarks = [*run.diagnosis.get("signs", ()), *(run.results or {}).get("remarks", ())]
    return [*(f"{HARM}: {each}." for each in harmful), *(f"{each}." for each in remarks)]


def _shares(run: RunRecord, key: str) -> list[float | None]:
    return [number(value) for value in run.diagnosis.get(key, ())]
