"""The schema that a run goes by: the one declared in a file, or what the files themselves say.

Which cells of a file do not fit a schema, and the tables of files that do.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedfb.data.declare import Wanted
from fedfb.data.infer import Doubt, infer
from fedfb.data.read import Cells
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.data.schema_file import read_schema
from fedfb.data.table import Table, check_same_columns, parse_number
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array


def agreed_schema(
    files: Sequence[Cells], wanted: Wanted, declared: str | Schema | None = None
) -> Schema:
    """Return the schema declared (in a file), which flags must not contradict, or else infer it.

    What is doubtful in the files is an error: only a declaration settles it.
    """
    if declared is not None:
        schema = declared if isinstance(declared, Schema) else read_schema(declared)
        _refuse_contradictions(schema, wanted)
        return schema
    schema, doubts = infer(files, wanted)
    if doubts:
        raise DataError(f"{files[0].source}: {_in_words(doubts, schema)}")
    return schema


def _in_words(doubts: Sequence[Doubt], schema: Schema) -> str:
    """Tell all columns that are no features at once, or else the first of the others."""
    features = [doubt for doubt in doubts if schema.named[doubt.column].role == "ignored"]
    if not features:
        return str(doubts[0])
    told = "; ".join(f"column {doubt.column!r} {doubt.what}" for doubt in features)
    names = ",".join(doubt.column for doubt in features)
    return (
        f"{told}. Leave out what is no feature (--ignore '{names}'), or declare what it is in a "
        "schema (fedfb schema infer)."
    )


def _refuse_contradictions(schema: Schema, wanted: Wanted) -> None:
    for flag, given, declared in (
        ("label", wanted.label, schema.label.name),
        ("positive", wanted.positive, schema.label.positive),
        ("sensitive", wanted.sensitive, schema.crossed),
        ("client-column", wanted.client_column, schema.client),
    ):
        if given and given != declared:
            raise ConfigError(
                f"--{flag} says {_shown(given)} and the schema {schema.source} says "
                f"{_shown(declared)}. Leave the flag out, or change the schema."
            )
    for flag in ("ignore", "bins", "merge"):
        if getattr(wanted, flag):
            raise ConfigError(
                f"--{flag} and --schema both say what is done with columns. Write it into the "
                f"schema {schema.source}, and leave the flag out."
            )


def _shown(value: str | tuple[str, ...] | None) -> str:
    return ",".join(value) if isinstance(value, tuple) else repr(value)


def type_notes(schema: Schema) -> tuple[str, ...]:
    """Say in short how the columns were read."""
    numbers = [_with_scale(c) for c in schema.of("feature") if c.kind == "number"]
    others = [
        f"{c.name} ({len(c.categories)})" if c.categories else c.name
        for c in schema.of("feature")
        if c.kind != "number"
    ]
    ignored = [column.name for column in schema.of("ignored")]
    parts = (("numbers", numbers), ("categories", others), ("left out", ignored))
    return ("columns: " + "; ".join(f"{said} {_some(names)}" for said, names in parts if names),)


def _with_scale(column: ColumnSchema) -> str:
    said = "its range" if column.range else column.scale
    return column.name if said == "standard" else f"{column.name} ({said})"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


MisfitKind = Literal["column", "missing", "number", "category"]


class Misfit(NamedTuple):
    """A cell, or with line 0 a whole column, that is not as the schema has it."""

    source: str
    line: int
    column: str
    kind: MisfitKind
    what: str

    def __str__(self) -> str:
        place = f", line {self.line}" if self.line else ""
        return f"{self.source}{place}, column {self.column!r}: {self.what}"


def misfits(file: Cells, schema: Schema) -> Iterator[Misfit]:
    """Yield what does not fit, column by column: undeclared and absent ones, then cells."""
    declared = schema.named
    for name in file.columns:
        if name not in declared:
            yield Misfit(file.source, 0, name, "column", "the schema has no such column")
    for column in schema.used:
        if column.name not in file.columns:
            yield Misfit(file.source, 0, column.name, "column", "the file has no such column")
        else:
            yield from cell_misfits(file, column)


def cell_misfits(file: Cells, column: ColumnSchema) -> Iterator[Misfit]:
    """Yield the cells of one column that do not fit."""
    cells, known = file.columns[column.name], frozenset(column.categories)
    # Most files fit, and values repeat: look at each once before going through all lines.
    found = {cell: what for cell in set(cells) if (what := _misfit(cell, column, known))}
    for line, cell in zip(file.lines, cells, strict=True) if found else ():
        if cell in found:
            yield Misfit(file.source, line, column.name, *found[cell])


def _misfit(
    cell: str, column: ColumnSchema, known: frozenset[str]
) -> tuple[MisfitKind, str] | None:
    if not cell:
        return ("missing", "the cell is empty") if column.missing == "refuse" else None
    if column.kind != "number":
        strange = bool(known) and cell not in known
        return ("category", f"{cell!r} is not among the declared categories") if strange else None
    number = parse_number(cell)
    if number is None:
        return "number", f"{cell!r} is not a number"
    return ("number", f"{cell!r} is not finite") if abs(number) == float("inf") else None


def tables_of(files: Sequence[Cells], held: Cells | None, schema: Schema) -> tuple[Table, ...]:
    """Return one table per file and, last, that of the test rows, with the columns in use.

    Cells of training files have to fit. In test rows a category that nobody declared is one that
    training did not see, as in any later file.
    """
    ignored = {column.name for column in schema.of("ignored")}
    used = [column.name for column in schema.used]
    every = [*files, *([] if held is None else [held])]
    heads = [(file.source, [c for c in file.columns if c not in ignored]) for file in every]
    check_same_columns([(schema.source, used), *heads])
    return tuple(_table(file, schema, is_test=file is held) for file in every)


def _table(file: Cells, schema: Schema, is_test: bool) -> Table:
    for column in schema.used:
        for found in cell_misfits(file, column):
            # Whoever lacks a label, a group or a client is counted where these are used.
            counted = found.kind == "missing" and column.role != "feature"
            if not counted and not (found.kind == "category" and is_test):
                raise DataError(
                    f"{found}. Mend the cell (a missing one is left empty), or change the schema: "
                    "fedfb schema check finds all such cells."
                )
    return Table({column.name: _values(file, column) for column in schema.used}, file.source)


def _values(file: Cells, column: ColumnSchema) -> Array:
    cells = file.columns[column.name]
    if column.kind == "number":
        return np.array([float(cell) if cell else np.nan for cell in cells], float)
    return np.array(cells, object)
