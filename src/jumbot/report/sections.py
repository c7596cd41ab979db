"""The parts of the report on one task: curves, classes, embedding, and what the plan says of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from jumbot.report import classes, curves, embedding
from jumbot.report.comparison import NONE
from jumbot.report.groups import Group
from jumbot.report.html import Html, inline_svg, join, tag
from jumbot.report.optional import Prediction
from jumbot.report.presence import absent_classes, class_shares, least_explained, truly_absent
from jumbot.report.records import RunRecord, number
from jumbot.report.style import class_colours
from jumbot.report.words import EVALUATION, HOW, SCORE_WORDS, badge, listed, percent, score_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEGEND_CLASSES = 12  # beyond this many, colours repeat and a legend of classes would say little
UNEXPLAINED = 10


class Pictures:
    """Turns figures into elements of one page; ids of each are its own."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def name(self) -> str:
        """An id that nothing else on the page has."""
        return f"f{next(self._numbers)}"

    def add(self, figure: Figure, title: Html | str, label: str) -> Html:
        return tag("figure", tag("figcaption", title), inline_svg(figure, label, self.name()))


def legend(groups: Sequence[Group]) -> Html:
    """Method and colour, with the mark of the oracle; a single method needs none."""
    if len(groups) == 1 and not groups[0].oracle:
        return Html("")
    return tag("ul", *(tag("li", named(group)) for group in groups), class_="legend")


def named(group: Group) -> Html:
    """A group's name behind its colour."""
    name = group.label.replace(", ORACLE)", ")").removesuffix(" (ORACLE)") if group.oracle else group.label
    return join(swatch(group.colour), name, *([" ", badge()] if group.oracle else []))


def legend_of(colours: Mapping[str, str]) -> Html:
    """Names behind their colours."""
    return tag("ul", *(tag("li", swatch(colour), name) for name, colour in colours.items()), class_="legend")


def swatch(colour: str) -> Html:
    return tag("span", class_="swatch", style=f"background:{colour}")


def how(text: str) -> Html:
    """The sentence under a picture."""
    return tag("p", tag("b", "How to read. "), text.replace(" %", "\N{NO-BREAK SPACE}%"), class_="how")


def curve_section(groups: Sequence[Group], pictures: Pictures) -> Html:
    """Accuracy, mass and wrong mass over the training, all methods in one picture each."""
    shown: list[Html] = []
    for path, event, title, axis, text in (
        (("accuracy",), "evaluation", join("Target accuracy ", _quiet(EVALUATION)), "target accuracy", HOW["accuracy"]),
        (("wrong_mass",), "step", join("Mass between different labels ", _quiet(EVALUATION)), "share of the plan",
         HOW["wrong"]),
        (("mass",), "step", "Transported mass", "share of a batch", HOW["mass"]),
    ):  # fmt: skip
        if curves.has_curve(groups, *path, event=event):
            figure = curves.draw_curve(groups, *path, event=event, label=axis, share=True)
            shown.append(tag("div", pictures.add(figure, title, f"{axis} over training steps"), how(text)))
    with_losses = [group for group in groups if group.first.curve("loss")[0].size]
    for group in with_losses:
        figure = curves.draw_losses(group.first)
        title = "Loss terms" if len(groups) == 1 else join("Loss terms: ", named(group))
        once = [how(HOW["losses"])] if group is with_losses[0] else []
        shown.append(tag("div", pictures.add(figure, title, "loss terms over training steps"), *once))
    names = list(
        dict.fromkeys(name for group in groups for run in group.runs for name in run.names_in("scores", "evaluation"))
    )
    names = [name for name in names if curves.has_curve(groups, "scores", name, event="evaluation")]
    if names:
        figure = curves.draw_scores(groups, names, [score_title(name) for name in names])
        meanings = [tag("li", tag("b", name), ": ", SCORE_WORDS[name]) for name in names if name in SCORE_WORDS]
        explained = join(how(HOW["scores"]), tag("ul", *meanings, class_="how"))
        shown.append(
            tag("div", pictures.add(figure, "Label-free scores", "label-free scores over training steps"), explained)
        )
    if not shown:
        return Html("")
    return join(tag("h3", "On the way"), legend(groups), tag("div", *shown, class_="grid"))


def class_section(groups: Sequence[Group], pictures: Pictures) -> Html:
    """Accuracy of each class and the confusion matrices."""
    shown = []
    with_classes = [group for group in groups if any(run.per_class for run in group.runs)]
    if with_classes:
        figure = classes.draw_per_class(with_classes, with_classes[0].first.classes)
        missing = _classes_without_samples(with_classes[0].first)
        without = f" Without a sample in the target: {listed(missing)}." if missing else ""
        picture = pictures.add(figure, "Accuracy of each class", "accuracy of each class")
        shown.append(tag("div", picture, how(HOW["per_class"] + without)))
    first = True
    for group in groups:
        if group.first.confusion is not None:
            figure = classes.draw_confusion(group.first, group.colour)
            title = "Which classes are mixed up" if len(groups) == 1 else join("Mixed up: ", named(group))
            text = [how(HOW["confusion"])] if first else []
            shown.append(tag("div", pictures.add(figure, title, f"confusion matrix, {group.label}"), *text))
            first = False
    if not shown:
        return Html("")
    heading = tag("h3", "Classes ", _quiet(EVALUATION))
    return join(heading, legend(with_classes), tag("div", *shown, class_="grid"))


def embedding_section(groups: Sequence[Group], pictures: Pictures) -> Html:
    """The embedding before the adaptation, once, and after it, a map a method."""
    shown: list[Html] = []
    known = True
    names = groups[0].first.classes
    maps = [(group, embedding.make_map(group.first, "after")) for group in groups]
    # Where methods share the source-only phase, `before` is that of the first that adapts.
    adapting = [group for group in groups if group.first.method != "source-only"] or list(groups)
    before = embedding.make_map(adapting[0].first, "before")
    if before is not None:
        known = before.labels_known
        title = join("Before adaptation", f" ({adapting[0].label})" if len(adapting) > 1 else "")
        shown.append(pictures.add(embedding.draw_map(before, len(names)), title, "embedding before adaptation"))
    for group, found in maps:
        if found is not None:
            known = found.labels_known
            title = join("After: ", named(group))
            shown.append(pictures.add(embedding.draw_map(found, len(names)), title, f"embedding after {group.label}"))
    if not shown:
        return Html("")
    meaning = "" if known else ": the true class of source samples, the predicted class of target samples"
    colouring = f"; a colour is a class{meaning}. After a good adaptation crosses lie on circles of their own colour"
    if not names:
        colouring = ". After a good adaptation crosses lie among circles"
    if len(names) > LEGEND_CLASSES:
        colouring += f" (with {len(names)} classes colours repeat)"
        colours = Html("")
    else:
        colours = legend_of(dict(zip(names, class_colours(len(names)), strict=True)))
    return join(
        tag("h3", "Embedding before and after"),
        colours,
        tag("div", *shown, class_="grid narrow"),
        how(HOW["embedding"].format(colouring=colouring)),
    )


def presence_section(groups: Sequence[Group], pictures: Pictures) -> Html:
    """What the plan says of the target: class proportions, absent classes, the samples that it explains least."""
    shown, samples = [], []
    for group in groups:
        run = group.first
        shares, rows = class_shares(run), [] if run.samples else least_explained(run, UNEXPLAINED)
        if shares:
            figure = classes.draw_proportions(run.classes, shares)
            title = "Class proportions" if len(groups) == 1 else join("Class proportions: ", named(group))
            shown.append(tag("div", pictures.add(figure, title, "class proportions of the target"), _absent(run)))
        if rows:
            title = "Least explained samples" if len(groups) == 1 else join("Least explained samples: ", named(group))
            samples.append(tag("figure", tag("figcaption", title), _samples(rows)))
    if not shown and not samples:
        return Html("")
    everything = [class_shares(group.first) for group in groups]
    text = [how(_how_shares(everything))] if any(everything) else []
    if samples:
        text.append(tag("p", tag("b", "Least explained samples. "), HOW["unexplained"], class_="how"))
    return join(tag("h3", "What the target is made of"), tag("div", *shown, *samples, class_="grid"), *text)


def diagnosis_section(groups: Sequence[Group]) -> Html:
    """The plan's figures of the target as a whole."""
    names = {"unexplained_share": "unexplained", "transported_mass": "explained mass", "disagreement": "disagreement"}
    rows = []
    for group in groups:
        values = [number(group.first.diagnosis.get(key)) for key in names]
        if any(value is not None for value in values):
            rows.append(tag("tr", tag("td", named(group)), *(tag("td", percent(value)) for value in values)))
    if not rows:
        return Html("")
    head = tag("tr", *(tag("th", name) for name in ("method", *names.values())))
    return join(
        tag("h3", "How well the source explains the target"), scroll(tag("table", head, *rows)), how(HOW["diagnosis"])
    )


def _samples(rows: Sequence[Prediction]) -> Html:
    head = tag(
        "tr", tag("th", "sample"), tag("th", "predicted", class_="text"), tag("th", "confidence"), tag("th", "mass")
    )
    body = [
        tag("tr", tag("td", row.id), tag("td", row.label, class_="text"), tag("td", percent(row.confidence)),
            tag("td", NONE if row.received_mass is None else f"{row.received_mass:.2g}"))
        for row in rows
    ]  # fmt: skip
    return scroll(tag("table", head, *body))


def _how_shares(everything: Sequence[Mapping[str, object]]) -> str:
    true = "; “true” counts the labels (evaluation only)" if any("true" in shares for shares in everything) else ""
    if any("estimated" in shares for shares in everything):
        return HOW["proportions"].format(true=true)
    return f"Which share of the target each class has: “predicted” counts the model's answers{true}."


def scroll(table: Html) -> Html:
    """A table that scrolls in its own box, reachable by keyboard."""
    return tag("div", table, class_="scroll", tabindex="0")


def _absent(run: RunRecord) -> Html:
    seem = absent_classes(run)
    truth = truly_absent(run)
    if seem is None or not (seem or truth):
        return Html("")
    words = f"Seem absent from the target: {listed(seem)}." if seem else "No class seems absent from the target."
    if truth is not None:
        words += f" Truly absent: {listed(truth)}." if truth else " Truly absent: none."
    return tag("p", words)


def _classes_without_samples(run: RunRecord) -> list[str]:
    return [name for name, value in zip(run.classes, run.per_class, strict=False) if value is None]


def _quiet(text: str) -> Html:
    return tag("span", f"({text})", class_="soft")
