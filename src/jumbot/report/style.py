"""What the report's pictures share: colours that colour-blind people tell apart, one per method, and text that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# On a page these three become the page's own colours, light or dark; in a file they are what they are.
INK, FAINT, PAPER = "#1f2329", "#d0d7de", "#fefefd"
GREY, WRONG = "#8a8f98", "#d55e00"

METHOD_COLOURS = {
    "source-only": GREY,
    "jumbot": "#d55e00",
    "deepjdot": "#0072b2",
    "dann": "#009e73",
    "cdan-e": "#cc79a7",
    "alda": "#56b4e9",
    "rot": "#a6761d",
    "pada": "#66a61e",
    "etn": "#7570b3",
    "ba3us": "#e69f00",
    "mcc": "#c2185b",
}
CLASS_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
    "#7570b3", "#a6761d", "#66a61e", "#8a8f98", "#c2185b", "#17a2a2",
)  # fmt: skip
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
    """Pictures made inside have the report's style; the caller's matplotlib settings come back afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the report needs matplotlib; install it with: pip install 'jumbot[adapt]'") from error
    with matplotlib.rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


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


def plain(text: str, length: int = 16) -> str:
    """Text for a picture: no longer than `length`, and a dollar sign begins no formula.

    >>> print(plain("US$"), plain("an extremely long class name", 12))
    US\\$ an extr…name
    """
    end = length // 3
    short = text if len(text) <= length else f"{text[: length - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return short.replace("$", r"\$")


def percent_axis(axes: Axes, which: str = "y") -> None:
    """Tick labels of shares in per cent."""
    from matplotlib.ticker import FuncFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 6):g} %"))
