"""What a run says of the target itself: class proportions, absent classes, samples that nothing explains, warnings."""

from __future__ import annotations

from jumbot.report.optional import Prediction
from jumbot.report.records import RunRecord, number


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
    found = run.diagnosis.get("absent_classes")
    if not isinstance(found, list):
        return None
    return [run.classes[each] for each in found if isinstance(each, int) and 0 <= each < len(run.classes)]


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


def warnings_of(run: RunRecord) -> list[str]:
    """Why the predictions may be worse than they could be, or than without adaptation."""
    reasons, remarks = run.diagnosis.get("reasons"), (run.results or {}).get("remarks")
    found = [f"negative transfer is likely: {each}." for each in reasons] if isinstance(reasons, list) else []
    return found + ([f"{each}." for each in remarks] if isinstance(remarks, list) else [])


def _shares(run: RunRecord, key: str) -> list[float | None]:
    values = run.diagnosis.get(key)
    if not isinstance(values, list) or len(values) != len(run.classes):
        return []
    return [number(value) for value in values]
