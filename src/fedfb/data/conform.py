"""Match files with a schema: choose the schema, report what does not fit, make the tables.

The schema is declared in a file, or else inferred from the files.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.data.cell_checks import blank_cells, check_against, check_cells
from fedfb.data.declare import Wanted
from fedfb.data.infer import Inferred, infer
from fedfb.data.label_checks import check_labels, check_sizes, missing_cells
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.schema_file import read_schema
from fedfb.errors import ConfigError
from fedfb.shapes import Array, Bool
from fedfb.tables.cells import Cells, SourceColumn
from fedfb.tables.problems import Problem, refuse
from fedfb.tables.table import Table, list_some


def agreed_schema(
    files: Sequence[Cells],
    wanted: Wanted,
    declared: str | Schema | None = None,
    *,
    test: Cells | None = None,
    problems: Sequence[Problem] = (),
    clients: Mapping[str, Cells] | None = None,
) -> Schema:
    """Return the declared schema, or else infer it. Problems of all files are reported together.

    Args:
        files: training files.
        wanted: roles of columns, as flags declare them. They must not contradict the schema.
        declared: the schema, or the path of its file; None: infer it.
        test: test rows, if they are in a file of their own.
        problems: problems of files that cannot be read.
        clients: the files by the names of their clients, if each is one.

    Raises:
        DataError: files cannot be used as they are.

    """
    if declared is None and not (wanted.label and wanted.positive and wanted.sensitive):
        raise ConfigError(
            "the label, its positive value and the sensitive columns are needed, or a schema that "
            "declares them."
        )
    if not files:
        refuse(problems, files)
    schema, of_columns = examine(files, wanted, declared)
    test_files = [] if test is None else [add_client_column(test, schema.client)]
    allowed = {"undeclared value", "missing client"}
    of_test = [p for file in test_files for p in check_file(file, schema, allowed)]
    small = [] if schema.client else check_sizes(clients or {})
    refuse([*problems, *small, *of_columns, *of_test], [*files, *test_files])
    return schema


def add_client_column(test: Cells, client_column: str | None) -> Cells:
    """Add an empty client column where test rows have none: they belong to no client."""
    if client_column is None or client_column in test.columns:
        return test
    nobody = {client_column: SourceColumn.of([""] * test.rows)}
    return test._replace(columns={**test.columns, **nobody})


def examine(
    files: Sequence[Cells], wanted: Wanted, declared: str | Schema | None = None
) -> Inferred:
    """Return the schema of training files, and their problems. See :func:`agreed_schema`."""
    if declared is None:
        return infer(files, wanted)
    schema = declared if isinstance(declared, Schema) else read_schema(declared)
    _refuse_contradictions(schema, wanted)
    problems = [problem for file in files for problem in check_file(file, schema)]
    if files and all(schema.label.name in file.columns for file in files):
        problems += check_labels([blank_cells(file, schema) for file in files], schema.label)
    return Inferred(schema, tuple(problems))


def check_file(file: Cells, schema: Schema, allowed: Collection[str] = ()) -> list[Problem]:
    """Return what does not fit the schema: columns, then cells, then missing labels and groups.

    Args:
        file: training or test rows.
        schema: declarations about the columns.
        allowed: kinds of problems that are not reported.

    """
    problems, file = check_against(file, schema), blank_cells(file, schema)
    for column in schema.used:
        if column.name not in file.columns:
            continue
        if column.role == "feature":
            problems += check_cells([file], column, allowed)
        else:
            problems += check_cells([file], column, {*allowed, "missing cell"})
            gaps = missing_cells([file], column.name, column.role)
            problems += [] if column.missing == "drop" else gaps
    return [problem for problem in problems if problem.kind not in allowed]


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
    for flag in ("ignore", "bins", "merge", "dates"):
        if getattr(wanted, flag):
            raise ConfigError(
                f"--{flag} and --schema both declare what is done with columns. Write it into the "
                f"schema {schema.source}, and leave the flag out."
            )


def _write_names(value: str | tuple[str, ...] | None) -> str:
    return ",".join(value) if isinstance(value, tuple) else repr(value)


def type_notes(schema: Schema) -> tuple[str, ...]:
    """Return a sentence on how the columns were read."""
    numbers = [_name_with_scale(c) for c in schema.of("feature") if c.is_number]
    categories = [
        f"{c.name} ({len(c.categories)})" if c.categories else c.name
        for c in schema.of("feature")
        if not c.is_number
    ]
    ignored = [column.name for column in schema.of("ignored")]
    parts = (("numbers", numbers), ("categories", categories), ("left out", ignored))
    return (
        "columns: "
        + "; ".join(f"{title} {list_some(names, 8)}" for title, names in parts if names),
    )


def _name_with_scale(column: ColumnSchema) -> str:
    scale = "its range" if column.range else column.scale.replace("standard", "")
    treatment = ", ".join(filter(None, (column.quantity, scale)))
    return f"{column.name} ({treatment})" if treatment else column.name


def tables_of(files: Sequence[Cells], schema: Schema) -> tuple[Table, ...]:
    """Return one table per file, without ignored columns and rows that are to be dropped."""
    return tuple(_make_table(file, schema) for file in files)


def release(files: Sequence[Cells]) -> None:
    """Free the columns of files, once tables are made of them: no column is in memory twice."""
    import pyarrow

    for file in files:
        file.columns.clear()
    pyarrow.default_memory_pool().release_unused()


def _make_table(file: Cells, schema: Schema) -> Table:
    file = blank_cells(file, schema)
    columns = {column.name: _read_values(file, column) for column in schema.used}
    table, missing = file.make_table(columns), rows_to_drop(file, schema)
    return table.take(np.flatnonzero(~missing)) if missing.any() else table


def rows_to_drop(file: Cells, schema: Schema) -> Bool[Array, " n"]:
    """Return the rows without a label, group or client, where the schema drops them."""
    file = blank_cells(file, schema)
    missing = np.zeros(file.rows, bool)
    for column in schema.columns:
        if column.missing == "drop":
            missing |= file.columns[column.name].words == ""
    return missing


def drop_notes(files: Sequence[Cells], schema: Schema) -> tuple[str, ...]:
    """Return a sentence that counts the rows that were left out, by column and file."""
    parts = []
    files = [blank_cells(file, schema) for file in files]
    for column in schema.columns:
        if column.missing == "drop":
            for file in files:
                count = int((file.columns[column.name].words == "").sum())
                parts += [f"{count} of {file.rows} in {file.source} ({column.name})"] * (count > 0)
    if not parts:
        return ()
    more = f", ... ({len(parts)} counts in all)" if len(parts) > MOST_COUNTS else ""
    return (
        "rows without a label, group or client were left out, as declared: "
        f"{', '.join(parts[:MOST_COUNTS])}{more}",
    )


MOST_COUNTS = 20
"""The most counts of rows that a note names."""


def _read_values(file: Cells, column: ColumnSchema) -> Any:
    cells = file.columns[column.name]
    return cells.numbers if column.kind == "number" else cells.words
