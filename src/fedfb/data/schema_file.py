"""Schemas as TOML files, which all clients read, edit and agree on."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from fedfb.data.dates import LOOKS_LIKE as DATE
from fedfb.data.schema import ColumnSchema, Kind, Missing, Role, Scale, Schema, check_declarations
from fedfb.errors import ConfigError, unknown_name
from fedfb.files import read_toml
from fedfb.tables.dialect import Dialect, Dialects, read_dialect
from fedfb.tables.table import number_as_text

HEAD = """\
# What each column is to a model. Edit it, agree on it with all clients, and give it to fedfb run as
# --schema; fedfb schema check lists the cells of a file that do not fit.
#
# role        label, sensitive, client (names the client of a row), feature or ignored
# type        number, category, yes-no (a category of two values), or date (becomes a number)
# as          of a date: year, month, weekday, "age in days at 2024-01-31" or "age in years at ..."
# format      of a date: the 31st of December 2024 as the files write it, "31.12.2024" or
#             "12/31/2024", say; dates such as 2024-01-31 need none
# categories  the values that may occur; in rows that are decided later others become zeros
# missing     mean (with a second column that marks missing cells, if training rows have some),
#             category (of its own) or refuse; of label, sensitive and client: refuse or drop, which
#             leaves the rows out and counts them
# scale       of numbers: standard (mean and standard deviation), robust (median and quartiles) or
#             clip (to the 1% and 99% quantiles, then standard)
# range       of a number that is a feature: its two ends. It is scaled by them, and not by anything
#             learnt from rows
# bins        of a sensitive number: the upper ends of the ranges that form groups
# merge       of a sensitive column, the label or a category: a new name, and the values that it
#             stands for
# blank       cells that count as missing, such as ["999", "k.A."]
#
# A file may have a table of its own, [files."bank_b.csv"] (or a pattern): how it is written, where
# this is not to be detected: separator, decimal ("," or "."), thousands, encoding; and columns, the
# names in this file that differ from those in others: columns = { Income = "income" }
"""

EMPTY: Mapping[tuple[str, str], Sequence[str]] = {}
"""No comments."""

_TOP = ("columns", "crossed", "client", "files")
_CHOICES: dict[str, tuple[str, ...]] = {
    "role": get_args(Role),
    "type": get_args(Kind),
    "missing": get_args(Missing),
    "scale": get_args(Scale),
}
_KEYS = (
    *("role", "type", "positive", "categories", "missing", "scale", "range"),
    *("bins", "merge", "why", "as", "format", "blank"),
)


def write_schema(
    schema: Schema, comments: Mapping[tuple[str, str], Sequence[str]] | None = None
) -> str:
    """Return a schema as TOML that reads back as an equal one.

    Args:
        schema: the schema.
        comments: lines above the tables of columns and files, by ("columns", name) or ("files",
            name).

    """
    top, *tables = schema_parts(schema, comments=comments or {})
    return "\n\n".join([HEAD + ("\n" + top if top else ""), *tables]) + "\n"


def schema_parts(
    schema: Schema, above: str = "", comments: Mapping[tuple[str, str], Sequence[str]] = EMPTY
) -> list[str]:
    """Return the lines about all columns, then a TOML table for each column.

    Args:
        schema: the schema.
        above: precedes the names of the tables, where the schema is part of a larger file.
        comments: see :func:`write_schema`.

    """
    top = []
    if len(schema.crossed) > 1:
        top.append(f"crossed = {_write_value(schema.crossed)}")
    if schema.client is not None and not schema.of("client"):
        top.append(f"client = {_write_value(schema.client)}")
    tables = [
        "\n".join(
            [
                *comments.get(("columns", c.name), ()),
                f"[{above}columns.{_write_key(c.name)}]",
                *_write_column(c),
            ]
        )
        for c in schema.columns
    ]
    tables += [
        "\n".join(
            [
                *comments.get(("files", pattern), ()),
                f"[{above}files.{_write_value(pattern)}]",
                *_write_dialect(dialect),
            ]
        )
        for pattern, dialect in schema.files
    ]
    return ["\n".join(top), *tables]


def _write_dialect(dialect: Dialect) -> list[str]:
    declared = {key: value for key, value in asdict(dialect).items() if value is not None}
    columns = declared.pop("columns", ())
    names = ", ".join(f"{_write_key(name)} = {_write_value(new)}" for name, new in columns)
    return [
        *(f"{key} = {_write_value(value)}" for key, value in declared.items()),
        *([f"columns = {{ {names} }}"] if columns else []),
    ]


def _write_column(column: ColumnSchema) -> list[str]:
    lines = [f'role = "{column.role}"']
    if column.role == "ignored":
        return [*lines, f"why = {_write_value(column.why)}", *_suggest_date(column)]
    lines.append(f'type = "{column.kind}"')
    lines += [f"as = {_write_value(column.quantity)}"] if column.quantity else []
    lines += [f"format = {_write_value(column.format)}"] if column.format else []
    if column.positive:
        lines.append(f"positive = {_write_value(column.positive)}")
    if column.categories:
        lines.append(f"categories = {_write_value(column.categories)}")
    if column.role == "feature" or column.missing == "drop":
        lines.append(f'missing = "{column.missing}"')
    if column.role == "feature":
        lines += [f'scale = "{column.scale}"'] if column.is_number else []
    if column.range:
        lines.append(f"range = [{', '.join(map(number_as_text, column.range))}]")
    if column.blank:
        lines.append(f"blank = {_write_value(column.blank)}")
    if column.bins:
        lines.append(f"bins = [{', '.join(map(number_as_text, column.bins))}]")
    if column.merge:
        pairs = ", ".join(
            f"{_write_key(new)} = {_write_value(values)}" for new, values in column.merge
        )
        lines.append(f"merge = {{ {pairs} }}")
    return lines


def _suggest_date(column: ColumnSchema) -> list[str]:
    """Return a comment that says how to declare a date that was left out."""
    if not column.why.startswith(DATE):
        return []
    return [
        '# As a feature: role = "feature", type = "date", as = "age in days at 2024-01-31" (or '
        '"year"),',
        '# format = "31.12.2024" (the last day of 2024 as the files write it).',
    ]


def _write_value(value: Any) -> str:
    # TOML writes text and lists as JSON does, except for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _write_value(name)


def read_schema(path: str | Path) -> Schema:
    """Read a schema file. An error names the column."""
    values = read_toml(Path(path), "a schema as fedfb schema infer writes it")
    try:
        return schema_from_values(values, str(path))
    except ConfigError as error:
        raise ConfigError(f"the schema {path}: {error}") from None


def dialects_of(dialect: Dialect, schema: str | None) -> Dialects:
    """Return what is declared about files: of all, and of single ones by the schema of a run.

    Args:
        dialect: declarations about all files.
        schema: path of the schema that a run had. If it is not there any more, it says nothing.

    """
    is_there = schema is not None and Path(schema).is_file()
    return Dialects(dialect, read_schema(schema).files if schema and is_there else ())


def schema_from_values(values: Mapping[str, Any], source: str) -> Schema:
    """Return the schema of TOML values.

    Args:
        values: contents of the file.
        source: name of the file, for messages.

    """
    for key in values:
        if key not in _TOP:
            raise ConfigError(unknown_name("key", key, _TOP))
    tables = values.get("columns")
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError("expected a table [columns.NAME] for each column.")
    columns = tuple(_name_errors(name, table) for name, table in tables.items())
    sensitive = [column.name for column in columns if column.role == "sensitive"]
    crossed = _read_texts("crossed", values.get("crossed", sensitive))
    clients = [column.name for column in columns if column.role == "client"]
    client = values.get("client", clients[0] if clients else None)
    fits = [client] == clients if clients else client in sensitive
    if client is not None and not fits:
        raise ConfigError(
            f"client is {client!r}, expected the column of the role client, or a sensitive one."
        )
    schema = Schema(columns, crossed, client, source, _read_dialects(values.get("files", {})))
    check_declarations(schema)
    label = schema.label
    if label.categories and label.positive not in label.group_values:
        raise ConfigError(
            f"the positive value {label.positive!r} is not among the values of the label "
            f"{label.name!r}: {', '.join(label.group_values)}."
        )
    return schema


def _read_dialects(tables: Any) -> tuple[tuple[str, Dialect], ...]:
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError('expected a table [files."NAME"] for each file.')
    dialects = []
    for pattern, table in tables.items():
        try:
            dialects.append((pattern, read_dialect(table)))
        except ConfigError as error:
            raise ConfigError(f"file {pattern!r}: {error}") from None
    return tuple(dialects)


def _name_errors(name: str, table: dict[str, Any]) -> ColumnSchema:
    try:
        return _read_column(name, table)
    except ConfigError as error:
        raise ConfigError(f"column {name!r}: {error}") from None


def _read_column(name: str, table: dict[str, Any]) -> ColumnSchema:
    for key in table:
        if key not in _KEYS:
            raise ConfigError(unknown_name("key", key, _KEYS))
    if "role" not in table:
        raise ConfigError(f"no role. Expected one of {', '.join(_CHOICES['role'])}.")
    for key, choices in _CHOICES.items():
        if key in table and table[key] not in choices:
            raise ConfigError(unknown_name(key, str(table[key]), choices))
    role, kind = table["role"], table.get("type", "category")
    mean = "mean" if kind in ("number", "date") else "category"
    usual = mean if role == "feature" else "refuse"
    merge = table.get("merge", {})
    if not isinstance(merge, dict):
        raise ConfigError('merge is of the form { rest = ["Asian", "Other"] }.')
    return ColumnSchema(
        name=name,
        role=role,
        kind=kind,
        categories=tuple(sorted(_read_texts("categories", table.get("categories", [])))),
        missing=table.get("missing", usual),
        scale=table.get("scale", "standard"),
        range=_read_numbers("range", table.get("range", [])),
        bins=_read_numbers("bins", table.get("bins", [])),
        merge=tuple((new, _read_texts("merge", values)) for new, values in merge.items()),
        positive=_read_text("positive", table.get("positive", "")),
        why=_read_text("why", table.get("why", "")),
        quantity=_read_text("as", table.get("as", "")),
        format=_read_text("format", table.get("format", "")),
        blank=_read_texts("blank", table.get("blank", [])),
    )


def _read_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} is {value!r}, expected text in quotes.")
    return value


def _read_texts(key: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{key} is {values!r}, expected a list of texts in quotes.")
    if len(set(values)) < len(values):
        raise ConfigError(f"{key} names a value twice: {values!r}.")
    return tuple(values)


def _read_numbers(key: str, values: Any) -> tuple[float, ...]:
    wrong = not isinstance(values, list) or any(
        isinstance(value, bool) or not isinstance(value, int | float) for value in values
    )
    if wrong or any(not abs(value) < float("inf") for value in values):
        raise ConfigError(f"{key}: {values!r}, expected a list of numbers.")
    return tuple(float(value) for value in values)
