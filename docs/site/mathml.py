"""Equations as MathML, which browsers show by themselves: pages need no script and no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

# Commands that the converter lacks, by what comes to the same: brackets stretch by themselves.
SYNONYMS = (
    (r"\\[bB]ig[lr]?(?![a-zA-Z])", ""),
    (r"\\textstyle(?![a-zA-Z])", ""),
    (r"\\dots(?![a-zA-Z])", r"\\ldots "),
    (r"\\texttt(?![a-zA-Z])", r"\\text"),
)


def mathml(tex: str, as_block: bool) -> str:
    for pattern, replacement in SYNONYMS:
        tex = re.sub(pattern, replacement, tex)
    return tex2mathml(tex.strip(), as_block=as_block)


def visit(translator: Any, node: nodes.Element) -> None:
    as_block = isinstance(node, nodes.math_block)
    try:
        equation = mathml(node.astext(), as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("equation: %s", error, location=node)
        equation = f"<code>{translator.encode(node.astext())}</code>"
    # A long equation scrolls inside its line; the page does not.
    written = f'<div class="equation">{equation}</div>' if as_block else equation
    translator.body.append(written)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
