"""The style of figures: colours that colour-blind people can distinguish, one per method, and text that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jumbot.errors import need, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# On a page these three become the page's own colours, light or dark; in a file they stay as they are.
INK, FAINT, PAPER = "#1f2329", "#d0d7de", "#fefefd"
GREY = "#8a8f98"
# Okabe and Ito's palette, and six more that stay apart from it
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
VIOLET, BROWN, OLIVE, CRIMSON, TEAL = "#7570b3", "#a6761d", "#66a61e", "#c2185b", "#17a2a2"
RUST = "#8c2d04"

METHOD_COLOURS = {
    "source-only": GREY,
    "jumbot": VERMILION,
    "deepjdot": BLUE,
    "dann": GREEN,
    "cdan-e": PURPLE,
    "alda": SKY,
    "rot": BROWN,
    "pada": OLIVE,
    "etn": VIOLET,
    "ba3us": ORANGE,
    "mcc": CRIMSON,
    "m-pot": TEAL,
    "elot": RUST,
}
CLASS_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, VIOLET, BROWN, OLIVE, GREY, CRIMSON, TEAL)
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "normal",
    "figure.facecolor": PAPER,
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "grid.linestyle": "-",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "jumbot",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
}


@contextmanager
def styled() -> Iterator[None]:
    """Pictures made inside have the report's style; the caller's matplotlib settings are restored afterwards."""
    with need("matplotlib", "drawing", "adapt").rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sized in inches, that pyplot does not know."""
    figure: Figure = need("matplotlib.figure", "drawing", "adapt").Figure(figsize=(width, height), layout="constrained")
    return figure


def legend_below(figure: Figure, marks: Mapping[str, tuple[str, str]]) -> None:
    """Entries under all panels, `{label: (marker, colour)}`; without a marker it is a line."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], linestyle="none" if marker else "-", marker=marker, color=colour, markersize=7, linewidth=2)
        for marker, colour in marks.values()
    ]
    columns = min(len(marks), int(figure.get_figwidth() / 0.75))
    figure.legend(lines, list(marks), loc="outside lower center", ncols=columns, frameon=False, fontsize=10)


def method_colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label: a method's own, whatever else is shown; its further variants take colours that are free.

    >>> method_colours(["jumbot (tau=1)", "jumbot (tau=2)"])
    {'jumbot (tau=1)': '#d55e00', 'jumbot (tau=2)': '#0072b2'}
    """
    own: dict[str, str] = {}
    for label in labels:
        colour = METHOD_COLOURS.get(label.partition(" (")[0])
        if colour and colour not in own.values():
            own[label] = colour
    free = [colour for colour in CLASS_COLOURS if colour not in own.values()] or list(CLASS_COLOURS)
    others = [label for label in dict.fromkeys(labels) if label not in own]
    given = {label: free[place % len(free)] for place, label in enumerate(others)}
    return {label: own.get(label) or given[label] for label in dict.fromkeys(labels)}


def class_colours(count: int) -> list[str]:
    """One colour per class; beyond twelve they repeat.

    >>> len(set(class_colours(10))), len(class_colours(65))
    (10, 65)
    """
    return [CLASS_COLOURS[place % len(CLASS_COLOURS)] for place in range(count)]


def label_text(text: str, length: int = 16) -> str:
    """Text for a picture: no longer than `length`, in one line, and a dollar sign begins no formula.

    >>> print(label_text("US$"), label_text("an extremely long class name", 12))
    US\\$ an extr…name
    """
    text, end = one_line(text), length // 3
    short = text if len(text) <= length else f"{text[: length - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return short.replace("$", r"\$")


def percent_axis(axes: Axes, which: str = "y") -> None:
    """Tick labels of shares in per cent."""
    from matplotlib.ticker import FuncFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))
