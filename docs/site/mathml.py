"""Equations as MathML, which browsers show by themselves: pages need no script and no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

# What the converter does not know, or reads otherwise than TeX, by what comes to the same.
SYNONYMS = (
    (r"\\[bB]ig[lr]?(?![a-zA-Z])", ""),  # brackets stretch by themselves
    (r"\\textstyle(?![a-zA-Z])", ""),
    (r"\\dots(?![a-zA-Z])", r"\\ldots "),
    (r"\\setminus(?![a-zA-Z])", r"\\backslash "),  # the same sign, in more fonts
    (r"\\operatorname\*", r"\\operatorname"),
    (r"\\texttt(?![a-zA-Z])", r"\\text"),
    # An index belongs to the letter with its accent, and not below it.
    (r"(\\(?:bar|hat|tilde))\s*(\\[a-zA-Z]+|[a-zA-Z])", r"{\1{\2}{}}"),
    # One digit is an argument, not the whole number: 1/2 is \frac12.
    (r"(\\[dt]?frac)\s*(\d)", r"\1{\2}"),
    (r"(\\[dt]?frac\{[^{}]*\}|\\[dt]?frac\s*\\[a-zA-Z]+)\s*(\d)", r"\1{\2}"),
    (r"([\^_]|\\sqrt)(\d)(?=\d)", r"\1{\2}"),
)


def mathml(tex: str, as_block: bool) -> str:
    for pattern, replacement in SYNONYMS:
        tex = re.sub(pattern, replacement, tex)
    written = tex2mathml(tex.strip(), as_block=as_block)
    # A norm is not as high as a fraction beside it; an underscore in words is one.
    return re.sub(r"<mo[^>]*>‖", '<mo stretchy="false">‖', written).replace("\\_", "_")


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
