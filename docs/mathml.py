"""Formulas as MathML, written at build time: pages need no script and no network."""

import re

from docutils.utils.math.latex2mathml import tex2mathml

#: what docutils does not know, in words that it does
INSTEAD = (
    (r"\\(big|Big)(?![a-zA-Z])", r"\\\1l"),
    (r"\\dots(?![a-zA-Z])", r"\\ldots"),
    (r"\\textstyle(?![a-zA-Z])", ""),
    (r"^\s*(?=[\^_])", "{}"),
)


def convert(formula: str, block: bool) -> str:
    """LaTeX to a `<math>` element; what cannot be converted fails the build."""
    for known, other in INSTEAD:
        formula = re.sub(known, other, formula)
    words = r"\\text\{[^}]*\}"
    formula = re.sub(words, lambda text: text[0].replace(r"\_", "_"), formula)
    return tex2mathml(formula.strip(), as_block=block)


def _inline(writer, node):
    writer.body.append(convert(node.astext(), block=False))


def _block(writer, node):
    formula = convert(node.astext(), block=True)
    writer.body.append(f'<div class="math" style="overflow-x: auto">{formula}</div>\n')


def _skip(writer, node):
    from docutils import nodes

    raise nodes.SkipNode


def setup(app):
    def whole(visit):
        def visit_and_skip(writer, node):
            visit(writer, node)
            _skip(writer, node)

        return visit_and_skip

    app.add_html_math_renderer("mathml", (whole(_inline), None), (whole(_block), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
