"""Samples to look at: the least explained and the most changed, and the predictions that are least sure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumbot.report.comparison import NONE
from jumbot.report.groups import Group
from jumbot.report.html import Html, render
from jumbot.report.records import RunRecord, number
from jumbot.report.words import HOW, percent

LISTED = 500  # predictions on the page; all are in the file
_HEADINGS = {
    "most changed": "Most changed: the class that adaptation gave them, with the most probability",
    "least explained": "Least explained: those that source samples resemble least",
}


def samples_section(groups: Sequence[Group], id: str) -> Html:
    """Pictures, or rows, of the samples of each group's first run that has any."""
    shown = []
    for group in groups:
        run = group.first
        kinds = [
            (heading, [_sample(each) for each in run.samples if each["why"] == why])
            for why, heading in _HEADINGS.items()
        ]
        kinds = [(heading, found) for heading, found in kinds if found]
        if kinds:
            labels = {each["label"] for _, found in kinds for each in found}
            title = "Samples to look at" + (f": {group.label}" if len(groups) > 1 else "")
            shown.append((kinds, title, [name for name in run.classes if name in labels]))
    return Html("").join(
        render(
            "samples.html", id=f"{id}-{number}", place="" if number else "samples", title=title, kinds=kinds,
            choices=choices, last=HOW["unexplained"] if number == len(shown) - 1 else "",
        )
        for number, (kinds, title, choices) in enumerate(shown)
    )  # fmt: skip


def predictions(run: RunRecord, where: Path) -> Html:
    """The least sure predictions, with a link to the file of all of them from a page in the folder `where`."""
    if not run.predictions:
        return Html("")
    rows = sorted(run.predictions, key=lambda each: 1.0 if each.confidence is None else each.confidence)[:LISTED]
    count = f"The {len(rows)} least sure of {len(run.predictions):,} predictions"
    heading = count if len(rows) < len(run.predictions) else f"All {len(rows):,} predictions, the least sure first"
    shown = [
        {"id": each.id, "label": each.label, "confidence": percent(each.confidence), "mass": _mass(each.received_mass)}
        for each in rows
    ]
    labels = {each.label for each in rows}
    links = [_link(run.folder / name, where) for name in ("predictions.csv", "README.md", "config.json")]
    return render(
        "predictions.html", heading=heading, rows=shown, choices=[name for name in run.classes if name in labels],
        with_mass=any(each.received_mass is not None for each in rows), files=[link for link in links if link],
    )  # fmt: skip


def _link(file: Path, where: Path) -> tuple[str, str] | None:
    """Its address from the page, and its name."""
    if not file.is_file():
        return None
    try:
        address = Path(os.path.relpath(file, where)).as_posix()
    except ValueError:  # on another drive
        return None
    return address, file.name


def _sample(each: Mapping[str, Any]) -> dict[str, Any]:
    before = each["before"]
    confidence = percent(each["confidence"])
    return {
        "id": each["id"], "label": each["label"], "confidence": confidence,
        "mass": _mass(number(each["received_mass"])), "before": before,
        "changed": before is not None and before != each["label"], "picture": each["picture"],
        "hover": f"{each['id']}: {each['label']}, {confidence}" + ("" if before is None else f"; before {before}"),
    }  # fmt: skip


def _mass(value: float | None) -> str:
    return NONE if value is None else f"{value:.2g}"
