"""The page of results as one HTML file: its parts as values, and their rendering.

A page has a headline, key figures, and sections with tables and pictures. Style and script are
inside the file, so a page loads nothing from elsewhere.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from fedfb.extras import refuse_without
from fedfb.report.svg import Picture
from fedfb.report.table import Table


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
