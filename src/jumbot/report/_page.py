"""Pages: layout, HTML, and groups of figures."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from jumbot.errors import escaped, need
from jumbot.report._records import RunRecord
from jumbot.report._style import FAINT, INK, PAPER, method_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PAGE_COLOURS = {INK: "var(--ink)", FAINT: "var(--line)", PAPER: "none"}


Html = Markup
"""Text that is markup already."""


@cache
def _environment() -> Any:
    jinja2 = need("jinja2", "a report", "adapt")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("jumbot.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> Html:
    """A template of this folder with these values; what is not markup is escaped.

    >>> "&lt;b&gt;" in render("page.html", title="<b>", style="", script="", parts=[])
    True
    """
    return Html(_environment().get_template(template).render(values))


def document(title: str, *parts: str) -> str:
    """A whole page that needs no other file."""
    texts = {
        name: files("jumbot.report").joinpath(f"page.{name}").read_text(encoding="utf-8") for name in ("css", "js")
    }
    page = render("page.html", title=title, style=Html(texts["css"]), script=Html(texts["js"]), parts=parts)
    return escaped(page) + "\n"


def inline_svg(figure: Figure, label: str, prefix: str) -> Html:
    """The figure as an `<svg>` element that takes its ink from the page; `prefix` keeps its ids apart from others'."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The browser writes the text, in a font that has the glyph.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(
            buffer,
            format="svg",
            dpi=170,
            metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
            transparent=False,
        )
    root = ElementTree.fromstring(escaped(buffer.getvalue().decode("utf-8", "surrogatepass")))
    for parent in root.iter():
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            element.set(_local(key), _attribute(_local(key), value, prefix))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", label)
    text = ElementTree.tostring(root, encoding="unicode")
    return Html(re.sub(r">\s+<", "><", text))


def _attribute(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href" and value.startswith("#"):
        return f"#{prefix}-{value[1:]}"
    if key in ("clip-path", "style"):
        value = re.sub(r"url\(#", f"url(#{prefix}-", value)
    if key in ("style", "fill", "stroke"):
        # A font that every device has, at the size that was asked for.
        value = re.sub(r"font-family: [^;]*;?\s*", "", value)
        for colour, variable in _PAGE_COLOURS.items():
            value = value.replace(colour, variable)
    return value


def _local(name: str) -> str:
    return name.rpartition("}")[2]


@dataclass(frozen=True)
class Group:
    """The runs of one method on one task that differ in their seed alone."""

    label: str
    colour: str
    runs: Sequence[RunRecord]

    @property
    def first(self) -> RunRecord:
        return self.runs[0]

    @property
    def oracle(self) -> bool:
        return any(run.oracle for run in self.runs)


def label_runs(runs: Sequence[RunRecord]) -> list[str]:
    """A name for each run: its method, the options in which runs of that method differ, its rule where rules differ.

    A model that was chosen with target labels always has ORACLE in its name.
    """
    rules = {run.rule for run in runs}
    labels = []
    for run in runs:
        alike = [other.options for other in runs if other.method == run.method]
        varying = [
            key
            for key in dict.fromkeys(key for options in alike for key in options)
            if len({json.dumps(options.get(key), sort_keys=True, default=str) for options in alike}) > 1
        ]
        parts = [f"{key}={_short(run.options.get(key))}" for key in varying]
        if run.oracle:
            parts.append("ORACLE")
        elif len(rules) > 1:
            parts.append(run.rule)
        labels.append(f"{run.method} ({', '.join(parts)})" if parts else run.method)
    return labels


def group_runs(runs: Sequence[RunRecord]) -> dict[str, list[Group]]:
    """`{task: groups}`, tasks and groups in the order in which the runs came; a label has one colour in all tasks."""
    labels = label_runs(runs)
    colours = method_colours(labels)
    tasks: dict[str, dict[str, list[RunRecord]]] = {}
    for run, label in zip(runs, labels, strict=True):
        tasks.setdefault(run.task, {}).setdefault(label, []).append(run)
    return {
        task: [Group(label, colours[label], tuple(found)) for label, found in groups.items()]
        for task, groups in tasks.items()
    }


def accuracies(tasks: Mapping[str, list[Group]], key: str = "accuracy") -> dict[str, dict[str, list[float]]]:
    """`{label: {task: one value per seed}}` of the runs that have the figure, for `jumbot.report._comparison`."""
    found: dict[str, dict[str, list[float]]] = {}
    for task, groups in tasks.items():
        for group in groups:
            values = [value for run in group.runs if (value := getattr(run, key)) is not None]
            if values:
                found.setdefault(group.label, {})[task] = values
    return found


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Name:
    """A title or a method: its colour, its name, and whether it used target labels."""

    text: str
    colour: str = ""
    oracle: bool = False
    lead: str = ""


@dataclass(frozen=True)
class Table:
    """Rows below a head; the columns in `words` are text, and `best` are the (row, column) in bold."""

    head: Sequence[str]
    rows: Sequence[Sequence[Name | str]]
    words: Sequence[int] = ()
    best: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Picture:
    """A drawing or a table, with a title above it and an explanation below."""

    title: Name
    svg: Html | None = None
    table: Table | None = None
    aside: str = ""
    note: str = ""
    how: str = ""
    terms: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page; `id` is where links lead."""

    title: str
    id: str = ""
    aside: str = ""
    intro: str = ""
    legend: Sequence[Name] = ()
    pictures: Sequence[Picture] = ()
    narrow: bool = False
    table: Table | None = None
    how: str = ""
    terms: Sequence[tuple[str, str]] = ()
    level: int = 2

    def write(self) -> Html:
        """Nothing where there is nothing to show."""
        return render("section.html", section=self) if self.pictures or self.table else Html("")


class Pictures:
    """Turns figures into elements of one page, each with unique ids."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def name(self) -> str:
        """An id that nothing else on the page has."""
        return f"f{next(self._numbers)}"

    def draw(self, figure: Figure, label: str) -> Html:
        return inline_svg(figure, label, self.name())


def named(group: Group, lead: str = "") -> Name:
    """A group's name behind its colour."""
    text = group.label.replace(", ORACLE)", ")").removesuffix(" (ORACLE)") if group.oracle else group.label
    return Name(text, group.colour, group.oracle, lead)


def titled(title: str, group: Group, groups: Sequence[Group]) -> Name:
    """A title, with the method where there are several."""
    return Name(title) if len(groups) == 1 else named(group, f"{title}: ")


def legend(groups: Sequence[Group]) -> list[Name]:
    """Method and colour; a single method needs none."""
    return [] if len(groups) == 1 and not groups[0].oracle else [named(group) for group in groups]
