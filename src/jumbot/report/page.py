"""What a page is made of: names, pictures, tables and sections, which the templates know how to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from jumbot.report.groups import Group
from jumbot.report.html import Html, inline_svg, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Name:
    """A title or a method: what it is called, behind its colour, with the mark of the oracle."""

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
    """A drawing, or a table in the place of one, with a title above it and how to read it below."""

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
    """Turns figures into elements of one page; ids of each are its own."""

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
