"""What a page consists of: headline, key figures, and sections with tables and pictures."""

from typing import NamedTuple

from fedfb.report.page.pictures import Picture

EMPTY = ("", "-", "not estimable", "none", "hidden", "diverged")
NUMBER = "-+<.0123456789"
"""What a number begins with."""


class Table(NamedTuple):
    """A table of text; the first cell of a row is its name."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Tell which columns hold numbers, to be set flush right.

        >>> Table("", ("", "rows", "sees"), (("a", "1,000", "the sum"), ("b", "-", "-"))).numeric
        (False, True, False)
        """
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        found = [all(cell in EMPTY or cell[0] in NUMBER for cell in cells) for cells in columns]
        return (False, *found[1:])


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
