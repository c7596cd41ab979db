"""The parts of the report on one task: curves, classes, embedding, predicted numbers, what the plan shows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumbot.methods import SOURCE_ONLY
from jumbot.report._classes import draw_confusion, draw_per_class, draw_proportions
from jumbot.report._comparison import NONE
from jumbot.report._curves import draw_curve, draw_losses, draw_map, draw_scores, has_curve, make_map
from jumbot.report._page import Group, Html, Name, Picture, Pictures, Section, Table, legend, named, render, titled
from jumbot.report._presence import absent_classes, class_shares, least_explained, truly_absent
from jumbot.report._records import Prediction, RunRecord, number
from jumbot.report._style import GREY, INK, class_colours, label_text, new_figure
from jumbot.report._words import EVALUATION, HOW, SCORE_WORDS, listed, percent, score_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND_CLASSES = 12  # beyond this many, colours repeat and a legend of classes would say little
UNEXPLAINED = 10


def curve_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """Accuracy, mass and wrong mass over the training, all methods in one picture each."""
    shown: list[Picture] = []
    for path, event, title, aside, axis, how in (
        (("accuracy",), "evaluation", "Target accuracy", EVALUATION, "target accuracy", "accuracy"),
        (("wrong_mass",), "step", "Mass between different classes", EVALUATION, "share of the plan", "wrong"),
        (("mass",), "step", "Transported mass", "", "share of a batch", "mass"),
    ):
        if has_curve(groups, *path, event=event):
            figure = draw_curve(groups, *path, event=event, label=axis, share=True)
            drawn = pictures.draw(figure, f"{axis} over training steps")
            shown.append(Picture(Name(title), drawn, aside=aside, how=HOW[how]))
    with_losses = [group for group in groups if group.first.curve("loss")[0].size]
    for group in with_losses:
        drawn = pictures.draw(draw_losses(group.first), "loss terms over training steps")
        once = HOW["losses"] if group is with_losses[0] else ""
        shown.append(Picture(titled("Loss terms", group, groups), drawn, how=once))
    names = list(
        dict.fromkeys(name for group in groups for run in group.runs for name in run.names_in("scores", "evaluation"))
    )
    names = [name for name in names if has_curve(groups, "scores", name, event="evaluation")]
    if names:
        figure = draw_scores(groups, names, [score_title(name) for name in names])
        drawn = pictures.draw(figure, "label-free scores over training steps")
        terms = [(name, SCORE_WORDS[name]) for name in names if name in SCORE_WORDS]
        shown.append(Picture(Name("Label-free scores"), drawn, how=HOW["scores"], terms=terms))
    return Section("During training", pictures=shown, legend=legend(groups), level=3)


def class_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """Accuracy of each class and the confusion matrices."""
    shown: list[Picture] = []
    with_classes = [group for group in groups if any(run.per_class for run in group.runs)]
    if with_classes:
        figure = draw_per_class(with_classes, with_classes[0].first.classes)
        missing = _classes_without_samples(with_classes[0].first)
        without = f" Without a sample in the target: {listed(missing)}." if missing else ""
        drawn = pictures.draw(figure, "accuracy of each class")
        shown.append(Picture(Name("Accuracy of each class"), drawn, how=HOW["per_class"] + without))
    with_confusion = [group for group in groups if group.first.confusion is not None]
    for group in with_confusion:
        drawn = pictures.draw(draw_confusion(group.first, group.colour), f"confusion matrix, {group.label}")
        title = Name("Which classes are confused") if len(groups) == 1 else named(group, "Mixed up: ")
        shown.append(Picture(title, drawn, how=HOW["confusion"] if group is with_confusion[0] else ""))
    return Section("Classes", aside=EVALUATION, pictures=shown, legend=legend(with_classes or groups), level=3)


def embedding_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """The embedding before the adaptation, once, and after it, a map per method."""
    shown: list[Picture] = []
    known = True
    names = groups[0].first.classes
    maps = [(group, make_map(group.first, "after")) for group in groups]
    # Where methods share the source-only phase, `before` is that of the first that adapts.
    adapting = [group for group in groups if group.first.method != SOURCE_ONLY] or list(groups)
    before = make_map(adapting[0].first, "before")
    if before is not None:
        known = before.labels_known
        title = Name("Before adaptation" + (f" ({adapting[0].label})" if len(adapting) > 1 else ""))
        drawn = pictures.draw(draw_map(before, len(names)), "embedding before adaptation")
        shown.append(Picture(title, drawn))
    for group, found in maps:
        if found is not None:
            known = found.labels_known
            drawn = pictures.draw(draw_map(found, len(names)), f"embedding after {group.label}")
            shown.append(Picture(named(group, "After: "), drawn))
    meaning = "" if known else ": the true class of source samples, the predicted class of target samples"
    colouring = f"; a colour is a class{meaning}. After a good adaptation, crosses lie on circles of the same colour"
    if not names:
        colouring = ". After a good adaptation, crosses lie among circles"
    colours: list[Name] = []
    if len(names) > LEGEND_CLASSES:
        colouring += f" (with {len(names)} classes the colours repeat)"
    else:
        colours = [Name(name, colour) for name, colour in zip(names, class_colours(len(names)), strict=True)]
    how = HOW["embedding"].format(colouring=colouring)
    return Section("Embedding before and after", pictures=shown, legend=colours, narrow=True, how=how, level=3)


def presence_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """What the plan shows about the target: class proportions, absent classes, the samples that it explains least."""
    shown: list[Picture] = []
    samples: list[Picture] = []
    for group in groups:
        run = group.first
        shares, rows = class_shares(run), [] if run.samples else least_explained(run, UNEXPLAINED)
        if shares:
            drawn = pictures.draw(draw_proportions(run.classes, shares), "class proportions of the target")
            shown.append(Picture(titled("Class proportions", group, groups), drawn, note=_absent(run)))
        if rows:
            samples.append(Picture(titled("Least explained samples", group, groups), table=_samples(rows)))
    everything = [class_shares(group.first) for group in groups]
    how = _how_shares(everything) if any(everything) else ""
    terms = [("Least explained samples", HOW["unexplained"])] if samples else []
    return Section("Composition of the target", pictures=[*shown, *samples], how=how, terms=terms, level=3)


def diagnosis_section(groups: Sequence[Group]) -> Section:
    """The plan's figures of the target as a whole."""
    names = {"unexplained_share": "unexplained", "transported_mass": "explained mass", "disagreement": "disagreement"}
    rows: list[list[Name | str]] = []
    for group in groups:
        found = group.first.diagnosis
        none = found.get("unexplained_share") == 1  # of the explained samples, which there are none of
        values = [None if none and key == "disagreement" else number(found.get(key)) for key in names]
        if any(value is not None for value in values):
            rows.append([named(group), *map(percent, values)])
    table = Table(["method", *names.values()], rows) if rows else None
    return Section("How well the source explains the target", table=table, how=HOW["diagnosis"], level=3)


def _samples(rows: Sequence[Prediction]) -> Table:
    body = [
        [row.id, row.label, percent(row.confidence), NONE if row.received_mass is None else f"{row.received_mass:.2g}"]
        for row in rows
    ]
    return Table(["sample", "predicted", "confidence", "mass"], body, words=(1,))


def _how_shares(everything: Sequence[Mapping[str, object]]) -> str:
    true = "; 'true' counts the labels (evaluation only)" if any("true" in shares for shares in everything) else ""
    if any("estimated" in shares for shares in everything):
        return HOW["proportions"].format(true=true)
    return f"The share of each class in the target: 'predicted' counts the model's predictions{true}."


def _absent(run: RunRecord) -> str:
    seem = absent_classes(run)
    truth = truly_absent(run)
    if seem is None or not (seem or truth):
        return ""
    words = f"Seem absent from the target: {listed(seem)}." if seem else "No class seems absent from the target."
    if truth is not None:
        words += f" Truly absent: {listed(truth)}." if truth else " Truly absent: none."
    return words


def _classes_without_samples(run: RunRecord) -> list[str]:
    return [name for name, value in zip(run.classes, run.per_class, strict=False) if value is None]


LISTED = 500  # predictions on the page; all are in the file
_HEADINGS = {
    "most changed": "Most changed: the samples whose class adaptation changed with the highest probability",
    "least explained": "Least explained: samples that resemble the source least",
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
            "samples.html",
            id=f"{id}-{number}",
            place="" if number else "samples",
            title=title,
            kinds=kinds,
            choices=choices,
            last=HOW["unexplained"] if number == len(shown) - 1 else "",
        )
        for number, (kinds, title, choices) in enumerate(shown)
    )


def predictions(run: RunRecord, where: Path) -> Html:
    """The least sure predictions, with a link to the file of all of them from a page in the folder `where`."""
    if not run.predictions:
        return Html("")
    rows = sorted(run.predictions, key=lambda each: 1.0 if each.confidence is None else each.confidence)[:LISTED]
    total = run.config["target"]["n"]
    count = f"The {len(rows)} least certain of {total:,} predictions"
    heading = count if len(rows) < total else f"All {len(rows):,} predictions, the least certain first"
    shown = [
        {"id": each.id, "label": each.label, "confidence": percent(each.confidence), "mass": _mass(each.received_mass)}
        for each in rows
    ]
    labels = {each.label for each in rows}
    links = [_link(run.folder / name, where) for name in ("predictions.csv", "README.md", "config.json")]
    return render(
        "predictions.html",
        heading=heading,
        rows=shown,
        choices=[name for name in run.classes if name in labels],
        with_mass=any(each.received_mass is not None for each in rows),
        files=[link for link in links if link],
    )


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
        "id": each["id"],
        "label": each["label"],
        "confidence": confidence,
        "mass": _mass(number(each["received_mass"])),
        "before": before,
        "changed": before is not None and before != each["label"],
        "picture": each["picture"],
        "hover": f"{each['id']}: {each['label']}, {confidence}" + ("" if before is None else f"; before {before}"),
    }


def _mass(value: float | None) -> str:
    return NONE if value is None else f"{value:.2g}"


MOST = 4  # numbers per sample that get a panel
BINS = 24


def number_section(groups: Sequence[Group], pictures: Pictures) -> Section:
    """Predicted against true numbers, and their distributions; nothing where classes are predicted."""
    shown: list[Picture] = []
    known = False
    for group in groups:
        predicted, true, source = (_columns(group.first, name) for name in ("predicted", "true", "source"))
        if predicted is None:
            continue
        names = _names(group.first, predicted.shape[1])
        if true is not None and true.shape == predicted.shape and (~np.isnan(true)).any():
            known = True
            figure = draw_scatter(predicted, true, names, group.colour)
            drawn = pictures.draw(figure, "predicted against true numbers")
            shown.append(Picture(titled("Predicted and true", group, groups), drawn))
        if source is not None and source.shape[1] == predicted.shape[1]:
            figure = draw_spread(predicted, source, names, group.colour)
            drawn = pictures.draw(figure, "distribution of source and predicted numbers")
            shown.append(Picture(titled("Distributions of the numbers", group, groups), drawn))
    text = (HOW["scatter"] + " " if known else "") + HOW["spread"]
    return Section("Numbers", pictures=shown, how=text, level=3)


def draw_scatter(predicted: np.ndarray, true: np.ndarray, names: Sequence[str], colour: str) -> Figure:
    """A point per target sample, and the line on which predictions are right; a panel per number."""
    figure, panels = _panels(len(names), 3.6)
    for k, axes in enumerate(panels):
        rows = ~np.isnan(true[:, k])
        x, y = true[rows, k], predicted[rows, k]
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle="--")
        axes.plot(x, y, linestyle="none", marker="o", markersize=4, color=colour, alpha=0.6, markeredgewidth=0)
        axes.set(xlabel=f"true {names[k]}".strip(), ylabel=f"predicted {names[k]}".strip())
    return figure


def draw_spread(predicted: np.ndarray, source: np.ndarray, names: Sequence[str], colour: str) -> Figure:
    """Histograms of the source's numbers and of those predicted for the target, each of area 1."""
    figure, panels = _panels(len(names), 3.0)
    for k, axes in enumerate(panels):
        pair = source[:, k], predicted[:, k]
        edges = np.histogram_bin_edges(np.concatenate(pair), BINS)
        for values, shade, label in zip(pair, (GREY, colour), ("source", "predicted target"), strict=True):
            axes.hist(values, edges.tolist(), density=True, color=shade, alpha=0.55, label=label if k == 0 else None)
        axes.set(xlabel=names[k] or "number", yticks=[])
        axes.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    count = min(count, MOST)
    figure = new_figure(4.4 if count == 1 else 3.2 * count, height)
    return figure, list(np.atleast_1d(figure.subplots(1, count)))


def _columns(run: RunRecord, name: str) -> np.ndarray | None:
    found = run.embeddings.get(f"{name}_values")
    return found if found is not None and found.ndim == 2 and len(found) else None


def _names(run: RunRecord, count: int) -> list[str]:
    names = run.config["task"]["names"]
    names = names if len(names) == count else [str(i + 1) for i in range(count)] if count > 1 else [""]
    return [label_text(name) for name in names[:MOST]]
