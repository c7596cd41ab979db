"""HTML by Jinja2, with autoescape: what is not `Html` is text, and is escaped.  Figures become inline SVG."""

from __future__ import annotations

import io
import re
import warnings
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from jumbot.errors import escaped, need
from jumbot.report.style import FAINT, INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE_COLOURS = {INK: "var(--ink)", FAINT: "var(--line)", PAPER: "none"}


Html = Markup
"""Text that is markup already."""


@cache
def _environment() -> Any:
    jinja2 = need("jinja2", "a report", "adapt")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("jumbot.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


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
