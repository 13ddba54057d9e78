"""Results as tables for other programs: rows, CSV, LaTeX, and HTML for a notebook."""

import csv
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedfb.experiments.result import Comparison, Interval, Result, Statistic
from fedfb.report.html import Table
from fedfb.report.page_tables import comparison_table, result_table, settings_table

Row = Mapping[str, Any]
"""The cells of a row, by the names of their columns."""

LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    "±": r"$\pm$",
}
"""How characters are written that mean something to LaTeX, or that it may lack."""


def run_rows(result: Result) -> list[Row]:
    """Return one row for each seed and setting; the interval is that of the disparity aimed at."""
    return [
        {
            "algorithm": result.algorithm,
            "seed": run.seed,
            **run.settings,
            "accuracy": run.accuracy,
            "balanced_accuracy": run.balanced_accuracy,
            "auc": run.auc,
            "loss": run.loss,
            **run.disparity,
            **_ends("disparity", run.interval[result.notion]),
        }
        for run in result.runs
    ]


def group_rows(result: Result) -> list[Row]:
    """Return one row for each seed, setting and group."""
    return [
        {
            "algorithm": result.algorithm,
            "seed": run.seed,
            **run.settings,
            "group": group.name,
            "rows": group.n,
            "positives": group.positives,
            "positive_rate": group.positive_rate,
            "tpr": group.tpr,
            "fpr": group.fpr,
            "accuracy": group.accuracy,
        }
        for run in result.runs
        for group in run.groups
    ]


def comparison_rows(comparison: Comparison) -> list[Row]:
    """Return one row for each method and setting: means over seeds with spreads and intervals."""
    return [
        {
            "algorithm": result.algorithm,
            **summary.settings,
            **_statistic("accuracy", summary.accuracy),
            **_statistic("disparity", summary.disparity[result.notion]),
        }
        for result in comparison.results
        for summary in result.summaries
    ]


def _statistic(name: str, statistic: Statistic) -> Row:
    ends = _ends(name, statistic.interval)
    return {name: statistic.mean, f"{name}_std": statistic.std, **ends}


def _ends(name: str, interval: Interval | None) -> Row:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def to_csv(rows: Sequence[Row]) -> str:
    r"""Return rows as CSV with a header; a row without a column has an empty cell.

    >>> to_csv([{"a": 1}, {"a": 2, "b": 0.5}])
    'a,b\n1,\n2,0.5\n'
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def table_of_run(result: Result) -> Table:
    """Return the figures of one setting, or the settings of a grid side by side."""
    return settings_table(result) if result.summary is None else result_table(result)


def table_of_comparison(comparison: Comparison) -> Table:
    """Return methods side by side."""
    return comparison_table(comparison.results)


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
