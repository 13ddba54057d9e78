"""The one value for tables, and its renderings: terminal, HTML, Markdown, LaTeX and CSV.

A table of many clients has a few rows: the worst, quantiles of all, and the best.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedfb.errors import escape_controls

if TYPE_CHECKING:
    from rich.console import Console


MOST_CLIENTS = 20
"""Of more clients a table has these rows in place of one for each."""

FEW = 3
"""How many of the worst and of the best clients are named."""

QUANTILES = {"least": 0.0, "lower quarter": 0.25, "median": 0.5, "upper quarter": 0.75,
             "largest": 1.0}  # fmt: skip


class ManyValues(NamedTuple):
    """A column: the number of each client, None where it has none, and how it is written."""

    values: Sequence[float | None]
    write: Callable[[float | None], str]


def summarise_many(
    names: Sequence[str], columns: Sequence[ManyValues], badness: Sequence[float | None]
) -> tuple[tuple[str, ...], ...]:
    """Return rows of the worst clients, of quantiles of each column alone, and of the best clients.

    Where all are equally bad, there are no worst and no best.

    Args:
        names: names of the clients.
        columns: columns of the table after that of names.
        badness: what clients are ranked by, the largest is the worst; None: not ranked.

    >>> def write(number):
    ...     return "-" if number is None else f"{number:g}"
    >>> values = [*map(float, range(30)), None]
    >>> rows = summarise_many([f"c{i}" for i in range(31)], [ManyValues(values, write)], values)
    >>> rows[0], rows[4], rows[5], rows[-1]
    (('worst: c29', '29'), ('lower quarter', '7.25'), ('median', '14.5'), ('best: c0', '0'))
    """
    ranked = sorted(
        (place for place, value in enumerate(badness) if value is not None),
        key=lambda place: -(badness[place] or 0.0),
    )
    differ = len({badness[place] for place in ranked}) > 1
    few = min(FEW, len(ranked) // 2) if differ else 0
    present = [[value for value in column.values if value is not None] for column in columns]

    def row_of(rank: str, place: int) -> tuple[str, ...]:
        cells = (column.write(column.values[place]) for column in columns)
        return (f"{rank}: {names[place]}", *cells)

    quantiles = (
        (
            name,
            *(
                column.write(float(np.quantile(values, share)) if values else None)
                for column, values in zip(columns, present, strict=True)
            ),
        )
        for name, share in QUANTILES.items()
    )
    worst = (row_of("worst", place) for place in ranked[:few])
    best = (row_of("best", place) for place in ranked[len(ranked) - few :])
    return (*worst, *quantiles, *best)


def note_on_many(clients: int, measure: str) -> str:
    """Say what the rows of :func:`summarise_many` are.

    >>> note_on_many(1000, "loss")
    '1,000 clients: worst and best by loss; quantiles of each column alone. JSON has every client.'
    """
    return (
        f"{clients:,} clients: worst and best by {measure}; quantiles of each column alone. JSON "
        "has every client."
    )


def write_count(number: float | None) -> str:
    """Write a number of rows or bytes.

    >>> write_count(1234.4), write_count(None)
    ('1,234', '-')
    """
    return "-" if number is None else f"{round(number):,}"


Row = Mapping[str, Any]
"""The cells of a row, by the names of their columns, with all digits."""

BLANK = ("", "-", "not estimable", "none", "hidden", "diverged")
NUMBER = "-+<.0123456789"
"""What a number begins with."""

LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    "±": r"$\pm$",
}
"""How characters are written that mean something to LaTeX, or that it may lack."""


class Table(NamedTuple):
    """A table of text; the first cell of a row is its name.

    Attributes:
        caption: above the table.
        columns: headings; without any, a terminal shows no heading.
        rows: cells by column; a shorter row ends in empty cells.
        note: below the table.
        wrap: the heading of a column of text that a terminal may wrap.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    wrap: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return which columns hold numbers; these are aligned to the right.

        >>> Table("", ("", "rows", "sees"), (("a", "1,000", "the sum"), ("b", "-", "-"))).numeric
        (False, True, False)
        """
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        flags = [all(cell in BLANK or cell[0] in NUMBER for cell in cells) for cells in columns]
        return (False, *flags[1:])


def make_console() -> "Console":
    """Return the console on which tables are printed."""
    from rich.console import Console

    # A name such as "[0, 25)" is to be printed, not read as a style.
    console = Console(highlight=False, markup=False, emoji=False)
    # All text passes here, cells too. Names come from files: none may control the terminal.
    render = console.render_str
    console.render_str = lambda text, **more: render(escape_controls(text), **more)  # type: ignore[method-assign]
    return console


def print_table(table: Table, console: "Console") -> None:
    """Print a table on a terminal, as wide as the terminal at most, and its note.

    Args:
        table: the rows. Here every column but the first and the wrapped one is of numbers.
        console: where to print.
    """
    from rich import table as rich

    view = rich.Table(
        title=table.caption,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_header=bool(table.columns),
    )
    for place, column in enumerate(table.columns):
        text = place == 0 or column == table.wrap
        view.add_column(
            column,
            justify="left" if text else "right",
            no_wrap=column != table.wrap if table.wrap else place > 0,
            overflow="fold",
        )
    for row in table.rows:
        view.add_row(*row)
    console.print(view)
    if table.note:
        console.print(table.note, style="dim")


def to_html(table: Table, sentences: Sequence[str] = ()) -> str:
    """Return a table as HTML for a notebook; names from users are escaped.

    Args:
        table: the rows.
        sentences: paragraphs above the table.
    """
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in table.rows
    )
    first = "".join(f"<p><strong>{escape(sentence)}</strong></p>" for sentence in sentences)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f"{first}<table>{caption}<tr>{head}</tr>{body}</table>{note}"


def to_markdown(table: Table) -> str:
    r"""Return heading and rows as Markdown; cells may hold Markdown, and a bar is escaped.

    >>> print(to_markdown(Table("Rates", ("", "a"), (("x|y", "**.5**"),))))
    | | a |
    |---|---|
    | x\|y | **.5** |
    """
    rule = "|---" * len(table.columns) + "|"
    head, *rows = (
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
        for row in (table.columns, *table.rows)
    )
    return "\n".join([head.replace("|  |", "| |", 1), rule, *rows])


def to_latex(table: Table) -> str:
    r"""Return a table as LaTeX, with the rules of the package booktabs.

    >>> print(to_latex(Table("Rates", ("", "a_b"), (("x", ".5 ± .1"),))))
    \begin{tabular}{lr}
    \toprule
     & a\_b \\
    \midrule
    x & .5 $\pm$ .1 \\
    \bottomrule
    \end{tabular}
    """
    columns = "".join("r" if numeric else "l" for numeric in table.numeric)
    return "\n".join(
        [
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            _latex_row(table.columns),
            "\\midrule",
            *map(_latex_row, table.rows),
            "\\bottomrule",
            "\\end{tabular}",
        ]
    )


def _latex_row(cells: Sequence[str]) -> str:
    written = ("".join(LATEX.get(character, character) for character in cell) for cell in cells)
    return " & ".join(written) + r" \\"


def to_csv(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    r"""Return rows as CSV with a header; a row without a column has an empty cell.

    Args:
        rows: not those of a :class:`Table`, because other programs want all digits.
        columns: headings that stand first, also where there is no row.

    >>> to_csv([{"a": 1}, {"a": 2, "b": 0.5}])
    'a,b\n1,\n2,0.5\n'
    """
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
