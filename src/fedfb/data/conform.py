"""Match files with a schema: choose the schema, list cells that do not fit, make the tables.

The schema is declared in a file, or else inferred from the files.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedfb.data.cells import Cells
from fedfb.data.declare import Wanted
from fedfb.data.infer import Doubt, infer
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.schema_file import read_schema
from fedfb.data.table import Table, check_same_columns, list_some, parse_number
from fedfb.errors import ConfigError, DataError


def agreed_schema(
    files: Sequence[Cells], wanted: Wanted, declared: str | Schema | None = None
) -> Schema:
    """Return the declared schema, or else infer it.

    Args:
        files: training files.
        wanted: roles of columns, as flags declare them. They must not contradict the schema.
        declared: the schema, or the path of its file; None: infer it.

    Raises:
        DataError: a column is doubtful, and only a declaration can settle it.

    """
    if declared is not None:
        schema = declared if isinstance(declared, Schema) else read_schema(declared)
        _refuse_contradictions(schema, wanted)
        return schema
    schema, doubts = infer(files, wanted)
    if doubts:
        raise DataError(_describe_doubts(doubts, schema))
    return schema


def _describe_doubts(doubts: Sequence[Doubt], schema: Schema) -> str:
    """Describe all columns that are no features; if there is none, the first other doubt."""
    features = [doubt for doubt in doubts if schema.named[doubt.column].role == "ignored"]
    if not features:
        return str(doubts[0])
    sentences = "; ".join(
        f"{doubt.place}: column {doubt.column!r} {doubt.what}" for doubt in features
    )
    names = ",".join(doubt.column for doubt in features)
    return (
        f"{sentences}. Leave out what is no feature (--ignore '{names}'), or declare it in a "
        "schema (fedfb schema infer)."
    )


def _refuse_contradictions(schema: Schema, wanted: Wanted) -> None:
    for flag, value, declared in (
        ("label", wanted.label, schema.label.name),
        ("positive", wanted.positive, schema.label.positive),
        ("sensitive", wanted.sensitive, schema.crossed),
        ("client-column", wanted.client_column, schema.client),
    ):
        if value and value != declared:
            raise ConfigError(
                f"--{flag} says {_write_names(value)} and the schema {schema.source} says "
                f"{_write_names(declared)}. Leave the flag out, or change the schema."
            )
    for flag in ("ignore", "bins", "merge"):
        if getattr(wanted, flag):
            raise ConfigError(
                f"--{flag} and --schema both declare what is done with columns. Write it into the "
                f"schema {schema.source}, and leave the flag out."
            )


def _write_names(value: str | tuple[str, ...] | None) -> str:
    return ",".join(value) if isinstance(value, tuple) else repr(value)


def type_notes(schema: Schema) -> tuple[str, ...]:
    """Return a sentence on how the columns were read."""
    numbers = [_name_with_scale(c) for c in schema.of("feature") if c.kind == "number"]
    categories = [
        f"{c.name} ({len(c.categories)})" if c.categories else c.name
        for c in schema.of("feature")
        if c.kind != "number"
    ]
    ignored = [column.name for column in schema.of("ignored")]
    parts = (("numbers", numbers), ("categories", categories), ("left out", ignored))
    return (
        "columns: "
        + "; ".join(f"{title} {list_some(names, 8)}" for title, names in parts if names),
    )


def _name_with_scale(column: ColumnSchema) -> str:
    scale = "its range" if column.range else column.scale
    return column.name if scale == "standard" else f"{column.name} ({scale})"


MisfitKind = Literal["column", "missing", "number", "category"]


class Misfit(NamedTuple):
    """A cell that does not fit the schema; line 0 stands for the whole column."""

    source: str
    line: int
    column: str
    kind: MisfitKind
    what: str
    unit: str = "line"

    def __str__(self) -> str:
        place = f", {self.unit} {self.line}" if self.line else ""
        return f"{self.source}{place}, column {self.column!r}: {self.what}"


def misfits(file: Cells, schema: Schema) -> Iterator[Misfit]:
    """Yield what does not fit: undeclared columns, then absent columns and cells."""
    declared = schema.named
    for name in file.columns:
        if name not in declared:
            yield Misfit(file.source, 0, name, "column", "the schema has no such column")
    for column in schema.used:
        if column.name not in file.columns:
            yield Misfit(file.source, 0, column.name, "column", "the file has no such column")
        else:
            yield from cell_misfits(file, column)


def cell_misfits(
    file: Cells, column: ColumnSchema, allowed: Collection[MisfitKind] = ()
) -> Iterator[Misfit]:
    """Yield the cells of one column that do not fit.

    Args:
        file: the file.
        column: declarations about the column.
        allowed: kinds that are not reported.

    """
    cells, categories = file.columns[column.name], frozenset(column.categories)
    if column.kind == "number" and cells.doubt:
        what = cells.doubt.partition(f"column {column.name!r}")[2].lstrip(": ")
        yield Misfit(file.source, 0, column.name, "number", what)
        return
    if column.kind == "number" and cells.numbers is not None:
        gaps_fit = column.missing != "refuse" or "missing" in allowed
        wrong = np.isinf(cells.numbers) if gaps_fit else ~np.isfinite(cells.numbers)
        if not wrong.any():
            return
    reasons = [_find_misfit(cell, column, categories) for cell in cells.words.values]
    reported = [reason is not None and reason[0] not in allowed for reason in reasons]
    rows = np.flatnonzero(cells.words.look_up(reported, bool))
    lines = file.lines_of(rows) if len(rows) else []
    for line, code in zip(lines, cells.words.codes[rows].tolist(), strict=True):
        if (reason := reasons[code]) is not None:
            yield Misfit(file.source, line, column.name, reason[0], reason[1], file.unit)


def _find_misfit(
    cell: str, column: ColumnSchema, categories: frozenset[str]
) -> tuple[MisfitKind, str] | None:
    if not cell:
        return ("missing", "the cell is empty") if column.missing == "refuse" else None
    if column.kind != "number":
        is_unknown = bool(categories) and cell not in categories
        return (
            ("category", f"{cell!r} is not among the declared categories") if is_unknown else None
        )
    number = parse_number(cell)
    if number is None:
        return "number", f"{cell!r} is not a number"
    return ("number", f"{cell!r} is not finite") if abs(number) == float("inf") else None


def tables_of(files: Sequence[Cells], test: Cells | None, schema: Schema) -> tuple[Table, ...]:
    """Return one table per file and, last, the table of the test rows.

    Cells of training files have to fit. In test rows an undeclared category is allowed: it is one
    that training did not have, as in any later file.

    Args:
        files: training files.
        test: test rows, if they are in a file of their own.
        schema: declarations about the columns. Ignored columns are not in the tables.

    """
    ignored = {column.name for column in schema.of("ignored")}
    used = [column.name for column in schema.used]
    parts = [*files, *([] if test is None else [test])]
    heads = [(file.source, [c for c in file.columns if c not in ignored]) for file in parts]
    check_same_columns([(schema.source, used), *heads])
    return tuple(_make_table(file, schema, is_test=file is test) for file in parts)


def _make_table(file: Cells, schema: Schema, is_test: bool) -> Table:
    for column in schema.used:
        # A missing label, group or client is reported where it is used, with a count.
        allowed: set[MisfitKind] = {"category"} if is_test else set()
        allowed |= {"missing"} if column.role != "feature" else set()
        for misfit in cell_misfits(file, column, allowed):
            raise DataError(
                f"{misfit}. Correct the cell (leave it empty if it is missing), or change the "
                "schema: fedfb schema check lists all such cells."
            )
    return file.make_table({column.name: _read_values(file, column) for column in schema.used})


def _read_values(file: Cells, column: ColumnSchema) -> Any:
    cells = file.columns[column.name]
    return cells.numbers if column.kind == "number" else cells.words
