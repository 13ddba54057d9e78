"""The page of results as one HTML file: its parts as values, its pictures, and their rendering.

A page has a headline, key figures, and sections with tables and pictures. Style and script are
inside the file, so a page loads nothing from elsewhere. Pictures are SVG that follows the page's
colours, and read without the script.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from io import StringIO
from typing import Any, Literal, NamedTuple

from fedfb.extras import refuse_without
from fedfb.report.figures import Palette, Series, draw_series, style
from fedfb.report.table import Table

_DIGITS = 1
"""Digits after the point in coordinates: a tenth of a pixel."""

MOST_ROUNDS = 50
"""Of more rounds a curve shows only so many, evenly spread, and the last."""

PANEL = 200
"""Height in pixels of a panel of curves."""

UNITS = 72
"""Units of an SVG by matplotlib in an inch; here one of them is a pixel."""

# Colours that nobody would draw with, each replaced by a variable of the page's style sheet.
THEME = Palette(
    ink="#010101",
    muted="#020202",
    faint="#030303",
    paper="#040404",
    series=tuple(f"#0500{place:02x}" for place in range(10)),
)
VARIABLES = {
    THEME.ink: "var(--ink)",
    THEME.muted: "var(--muted)",
    THEME.faint: "var(--line)",
    THEME.paper: "var(--paper)",
    **{colour: f"var(--c{place})" for place, colour in enumerate(THEME.series)},
}


class Size(NamedTuple):
    """Width and height in pixels, and how many panels stand beside each other."""

    width: int
    height: int
    columns: int


WIDE, NARROW = Size(800, 480, 2), Size(350, 400, 1)


class Mark(NamedTuple):
    """An entry of a legend: a small drawing of a marker or line, and a name."""

    svg: str
    name: str


class Picture(NamedTuple):
    """A picture in two widths, with its words for those who do not see it."""

    wide: str
    narrow: str
    alt: str
    caption: str
    legend: tuple[Mark, ...] = ()


def scatter_picture(
    name: str,
    series: Sequence[Series],
    constant: float | None,
    notion: str,
    alt: str,
    caption: str,
) -> Picture:
    """Draw accuracy against disparity; every point has its words as a title.

    Args:
        name: start of all ids in the picture; unique on the page.
        series: points of each method or curve.
        constant: accuracy of the constant classifier; None draws none.
        notion: long name of the notion.
        alt: text for readers who do not see the picture.
        caption: text below the picture.
    """

    def drawn(size: Size, prefix: str) -> str:
        figure = blank_figure(size)
        titles = dict(draw_series(figure.subplots(), series, constant, notion, THEME, prefix))
        return svg_of(figure, prefix, titles)

    wide, narrow = drawn(WIDE, f"{name}-wide-"), drawn(NARROW, f"{name}-narrow-")
    return Picture(wide, narrow, alt, caption, tuple(_legend(series)))


def _legend(series: Sequence[Series]) -> Iterator[Mark]:
    for curve in sorted(
        {curve.name: curve for curve in series}.values(), key=lambda curve: curve.limit
    ):
        if curve.limit:
            yield Mark(_key('<path d="M1 8H15" class="limit"/>'), f"{curve.name}: the limit")
        else:
            path = f'<path d="{_marker_path(curve.marker)}" style="fill:{_colour(curve.place)}"/>'
            yield Mark(_key(path), curve.name)
    if any(point.pareto for curve in series for point in curve.points):
        yield Mark(_key('<circle cx="8" cy="8" r="5" class="ring"/>'), "in the Pareto set")


def _key(content: str) -> str:
    return f'<svg viewBox="0 0 16 16" class="key" aria-hidden="true">{content}</svg>'


def _marker_path(marker: str) -> str:
    """Return a marker of matplotlib as the path of an SVG, 12 units wide in a box of 16."""
    from matplotlib.markers import MarkerStyle

    style: Any = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    scale = 6 / abs(path.vertices).max()
    commands = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    parts = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        pairs = points.reshape(-1, 2) * (scale, -scale) + 8
        numbers = " ".join(f"{value:.2f}" for value in pairs.ravel())
        parts.append("Z" if commands[code] == "Z" else commands[code] + numbers)
    return "".join(parts)


class Line(NamedTuple):
    """A quantity over rounds. Its colour shows the seed or setting, its dashes the component."""

    values: Sequence[float]
    owner: int
    component: int = 0


DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


def curves_picture(
    name: str,
    panels: Mapping[str, Sequence[Line]],
    owners: Sequence[str],
    alt: str,
    caption: str,
) -> Picture:
    """Draw lines over rounds, one panel for each quantity.

    Args:
        name: start of all ids in the picture; unique on the page.
        panels: lines by the name of their quantity.
        owners: words of the legend: one seed or setting for each colour.
        alt: text for readers who do not see the picture.
        caption: text below the picture.
    """

    def drawn(size: Size, prefix: str) -> str:
        rows = -(-len(panels) // size.columns)
        columns = min(size.columns, len(panels))
        size = size._replace(height=PANEL * rows)
        figure = blank_figure(size, layout=None)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        figure.subplots_adjust(**_margins(size, rows, columns))
        for place, (title, lines) in enumerate(panels.items()):
            for line in lines:
                rounds = _thinned(len(line.values))
                axes[place].plot(
                    [r + 1 for r in rounds], [line.values[r] for r in rounds],
                    color=THEME.series[line.owner % len(THEME.series)],
                    linestyle=DASHES[line.component % len(DASHES)],
                    marker="o" if len(rounds) == 1 else None, markersize=4, linewidth=1.6,
                    alpha=0.85,
                )  # fmt: skip
            axes[place].set_title(title, loc="left", fontsize=13, color=THEME.ink)
            axes[place].xaxis.get_major_locator().set_params(integer=True)
            style(axes[place], THEME)
        for unused in axes[len(panels) :]:
            unused.set_visible(False)
        return svg_of(figure, prefix, {})

    wide, narrow = drawn(WIDE, f"{name}-wide-"), drawn(NARROW, f"{name}-narrow-")
    legend = [Mark(colour_key(place), owner) for place, owner in enumerate(owners)]
    return Picture(wide, narrow, alt, caption, tuple(legend))


def colour_key(place: int) -> str:
    """Return a line in a colour, for a legend."""
    return _key(f'<path d="M1 8H15" style="stroke:{_colour(place)};stroke-width:2.5"/>')


def _colour(place: int) -> str:
    return f"var(--c{place % len(THEME.series)})"


def _thinned(number: int) -> list[int]:
    """Return which rounds to draw, evenly spread, the last among them.

    >>> _thinned(3), len(_thinned(300)), _thinned(300)[-1]
    ([0, 1, 2], 50, 299)
    """
    if number <= MOST_ROUNDS:
        return list(range(number))
    return [round(place * (number - 1) / (MOST_ROUNDS - 1)) for place in range(MOST_ROUNDS)]


def _margins(size: Size, rows: int, columns: int) -> dict[str, float]:
    """Return room for ticks and titles around panels: quicker than to measure every word."""
    left, right, top, bottom, gap = 44, 8, 26, 26, 52
    width = (size.width - left - right - gap * (columns - 1)) / columns
    height = (size.height - top - bottom - gap * (rows - 1)) / rows
    return {
        "left": left / size.width,
        "right": 1 - right / size.width,
        "top": 1 - top / size.height,
        "bottom": bottom / size.height,
        "wspace": gap / width,
        "hspace": gap / height,
    }


def blank_figure(size: Size, layout: Literal["constrained"] | None = "constrained") -> Any:
    """Return an empty figure of matplotlib.

    Args:
        size: width and height in pixels.
        layout: None where the caller places the axes.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(size.width / UNITS, size.height / UNITS), layout=layout)


def svg_of(figure: Any, prefix: str, titles: Mapping[str, str]) -> str:
    """Return a figure as SVG for a page: no id twice, and nothing to load from elsewhere.

    Args:
        figure: a figure of matplotlib.
        prefix: makes generated ids unique on the page.
        titles: words by id, for the points that have a title.
    """
    from matplotlib import rc_context

    file = StringIO()
    # Text stays text, to be searched and read aloud. The salt makes ids repeatable.
    options: Any = {"svg.fonttype": "none", "svg.hashsalt": prefix}
    with rc_context(options):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    clean = _without_identifiers(lambda name: name in titles)
    for step in (_without_what_a_page_has, clean, _shortened, _themed):
        text = step(text)
    for identifier, words in titles.items():
        text = text.replace(
            f'<g id="{identifier}">',
            f'<g id="{identifier}" class="point" role="img" aria-label="{escape(words)}">'
            f"<title>{escape(words)}</title>",
        )
    return text


def _without_what_a_page_has(text: str) -> str:
    """Drop metadata, styles and fonts, and the size: the page decides how wide a picture is."""
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' ?font-family: [^;"]*;| transform="rotate\(-0 [^)]*\)"', "", text)
    text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1)
    return re.sub(r"\s*\n\s*", "\n", text)


def _without_identifiers(keep: Callable[[str], bool]) -> Callable[[str], str]:
    """Drop the names that nothing refers to: matplotlib gives the same ones in every figure."""

    def without(text: str) -> str:
        used = set(re.findall(r"""(?:href="#|url\(#)([^")]+)""", text))

        def keep_used(match: re.Match[str]) -> str:
            return match[0] if match[1] in used or keep(match[1]) else ""

        return re.sub(r' id="([^"]*)"', keep_used, text)

    return without


def _shortened(text: str) -> str:
    """Cut the digits of coordinates that nobody sees; what is to be read stays as it is."""
    cut = re.compile(rf"(\d\.\d{{{_DIGITS}}})\d+")
    return re.sub(r"<[^>]*>", lambda tag: cut.sub(r"\1", tag[0]), text)


def _themed(text: str) -> str:
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    return text


class Figure(NamedTuple):
    """A key figure: what it is, its value, and how sure it is."""

    name: str
    value: str
    beside: str = ""


class Fold(NamedTuple):
    """Parts that are shown on demand."""

    title: str
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    text: str = ""


class Section(NamedTuple):
    """A part of the page with a title; its name is the anchor."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    folds: tuple[Fold, ...] = ()


class Page(NamedTuple):
    """All that the template needs; ``alerts`` are promises not kept, said before the headline."""

    title: str
    kind: str
    headline: str
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    footer: str
    alerts: tuple[str, ...] = ()


def check_tools() -> None:
    """Refuse to make a page where the tools for pages are not installed."""
    refuse_without("report", "a page")


def render(page: Page) -> str:
    """Return the page as HTML; names from users are escaped."""
    from jinja2 import BaseLoader, Environment, StrictUndefined

    environment = Environment(
        loader=BaseLoader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("page.js")
    # Only this script may run, whatever else should ever find its way into the page.
    digest = b64encode(sha256(script.encode()).digest()).decode()
    template = environment.from_string(_asset("page.html"))
    return template.render(page=page, css=_asset("page.css"), script=script, digest=digest)


def _asset(name: str) -> str:
    return files("fedfb.report").joinpath("templates", name).read_text(encoding="utf-8")
