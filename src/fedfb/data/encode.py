"""The encoder: from raw rows to the numbers that a model reads.

An encoder is learnt on training rows and stored as plain JSON. It lists the raw columns that it
reads, and encodes later files as in training.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from msgspec import convert

from fedfb.data.columns import CategoryColumn, Column, NumberColumn
from fedfb.data.derive import Bins, Blank, Derived, derive, rule_from_dict, rule_to_dict
from fedfb.data.groups import Groups
from fedfb.errors import ConfigError, DataError, unknown_name
from fedfb.shapes import Array, Float, Int
from fedfb.tables.address import Database
from fedfb.tables.cells import Cells
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.table import Table

_ROWS_AT_A_TIME = 8192
"""Rows that are encoded together."""


@dataclass(frozen=True)
class Encoder:
    """All that is needed to compute ``x`` and the group of raw rows.

    ``columns`` encode the features, ``groups`` number the groups, and ``derived`` are rules that
    are applied first. With ``sensitive_at_prediction`` the model also reads the group, as one 0/1
    column for each group.
    """

    columns: tuple[Column, ...]
    groups: Groups
    label: str
    positive: str
    sensitive_at_prediction: bool
    derived: tuple[Derived, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of ``x``."""
        names = tuple(name for column in self.columns for name in column.feature_names)
        if not self.sensitive_at_prediction:
            return names
        return names + tuple(f"group={name}" for name in self.groups.names)

    def prepare(self, table: Table, group: bool = True) -> Table:
        """Derive columns by the rules whose columns the table has.

        Args:
            table: raw rows.
            group: whether to derive groups and label, besides features.

        """
        features = {column.name for column in self.columns}
        rules = [rule for rule in self.derived if group or rule.target in features]
        return derive(table, [rule for rule in rules if rule.source in table.columns])

    def encode(
        self,
        table: Table,
        group: Int[Array, " n"] | None = None,
        rows: Int[Array, " m"] | None = None,
        precision: str = "float64",
    ) -> Float[Array, "m d"]:
        """Return ``x`` of the table's rows.

        Args:
            table: rows with derived columns.
            group: group of each row, where the model reads it; None: computed from the table. A row
                of no known group has the number -1, and zeros in the columns of groups.
            rows: the rows to encode, in this order; None: all.
            precision: type of the numbers.

        """
        if self.sensitive_at_prediction and group is None:
            group = self.groups.group_of(table)
        names = [column.name for column in self.columns]
        ends = np.cumsum([len(column.feature_names) for column in self.columns])
        x = np.zeros((len(table if rows is None else rows), len(self.feature_names)), precision)
        # A few rows at a time: what is computed from them stays in the processor's cache.
        for begin in range(0, len(x), _ROWS_AT_A_TIME):
            part = slice(begin, begin + _ROWS_AT_A_TIME)
            places = part if rows is None else rows[part]
            cells = table.take(places, names)
            blocks = np.split(x[part], ends, axis=1)
            with np.errstate(over="ignore"):  # refuse_infinite names the column later
                for column, block in zip(self.columns, blocks, strict=False):
                    column.fill(cells, block)
            if self.sensitive_at_prediction and group is not None:
                known = np.flatnonzero(group[places] >= 0)
                blocks[-1][known, group[places][known]] = 1.0
        return x

    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as plain values that JSON can hold."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "groups": asdict(self.groups),
            "label": self.label,
            "positive": self.positive,
            "sensitive_at_prediction": self.sensitive_at_prediction,
            "derived": [rule_to_dict(rule) for rule in self.derived],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Encoder":
        """Rebuild an encoder from :meth:`to_dict`, also after a round trip through JSON."""
        try:
            return cls(
                columns=tuple(_read_column(column) for column in values["columns"]),
                groups=convert(values["groups"], Groups),
                label=convert(values["label"], str),
                positive=convert(values["positive"], str),
                sensitive_at_prediction=convert(values["sensitive_at_prediction"], bool),
                derived=tuple(rule_from_dict(rule) for rule in values["derived"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DataError(
                f"this is not an encoder as fedfb writes it ({error!r}). Train again, or use the "
                "file as it was written."
            ) from None


Unknown = Mapping[str, Mapping[str, int]]
"""Rows of each group (under the name '') and category of a column that training did not have."""


class RawRows(NamedTuple):
    """Encoded rows of a file; ``group`` is None where it is absent or not requested.

    A group of ``unknown`` has the number -1, and a category has zeros. ``notes`` are sentences
    about how the file was read.
    """

    x: Float[Array, "n d"]
    group: Int[Array, " n"] | None
    unknown: Unknown = MappingProxyType({})
    notes: tuple[str, ...] = ()


def _read_column(values: Mapping[str, Any]) -> Column:
    if "categories" in values:
        return convert(values, CategoryColumn)
    return convert(values, NumberColumn)


class Reading(NamedTuple):
    """Raw columns (True: numbers, False: text), and the rules to be applied to them."""

    columns: dict[str, bool]
    rules: tuple[Derived, ...]


def reading(encoder: Encoder, *, features: bool = True, group: bool = True) -> Reading:
    """Return the raw columns that an encoder needs.

    Args:
        encoder: the encoder.
        features: include the columns of features.
        group: include the columns of groups.

    """
    columns = encoder.columns if features else ()
    kinds = {column.name: isinstance(column, NumberColumn) for column in columns}
    for name in encoder.groups.columns if group else ():
        kinds.setdefault(name, False)
    rules: list[Derived] = []
    for rule in reversed(encoder.derived):
        if rule.target not in kinds:
            continue
        number, in_place = isinstance(rule, Bins), rule.source == rule.target
        if isinstance(rule, Blank):
            number = kinds[rule.target]
        if not in_place and kinds.get(rule.source, number) != number:
            raise ConfigError(
                f"column {rule.source!r} is read both as a number and as text, which an exported "
                "model cannot do. Write it into two columns and train again."
            )
        del kinds[rule.target]
        kinds[rule.source] = number
        rules.insert(0, rule)
    return Reading(kinds, tuple(rules))


def encode_file(
    encoder: Encoder, path: str | Path | Database, dialect: Dialect = DETECT
) -> RawRows:
    """Encode a file of raw rows as in training. It needs no label. Other columns are ignored.

    A row of a group that training did not have is an error.

    Args:
        encoder: the encoder.
        path: a CSV or Parquet file, or a database.
        dialect: how a text file is written, where it is not detected.

    """
    from fedfb.tables.read import read_rows  # here: built-in data need no reader of files

    return encode_cells(encoder, read_rows(path, dialect), is_judged=True)


def encode_cells(
    encoder: Encoder, cells: Cells, is_judged: bool = False, with_group: bool = False
) -> RawRows:
    """Encode raw rows as in training.

    Args:
        encoder: the encoder.
        cells: the rows.
        is_judged: whether decisions are judged by group. The group is then read wherever the rows
            have its columns, and one that training did not have is an error. Rows that are only
            decided are counted instead, if the model reads the group.
        with_group: whether to read the group also if the model does not.

    """
    table = _type_columns(encoder, cells, with_group)
    needed = encoder.sensitive_at_prediction or with_group
    needs_group = needed or (is_judged and _group_sources(encoder) <= set(table.columns))
    table = encoder.prepare(table, needs_group)
    group, unknown = None, {}
    if needs_group and is_judged:
        group = encoder.groups.group_of(table)
    elif needs_group:
        group, unknown_groups = encoder.groups.look_up(table)
        if encoder.sensitive_at_prediction:
            unknown[""] = unknown_groups
    for column in encoder.columns:
        if isinstance(column, CategoryColumn):
            counts = table.text(column.name).counts().items()
            categories = (*column.categories, "")
            unknown[column.name] = {cell: n for cell, n in counts if cell not in categories}
    return RawRows(encoder.encode(table, group), group, unknown, cells.notes)


def raw_columns(encoder: Encoder, with_group: bool = False) -> dict[str, bool]:
    """Return the raw columns that a decision reads, and whether each holds numbers.

    Args:
        encoder: the encoder.
        with_group: whether the group is read also if the model does not read it.

    """
    columns = dict.fromkeys(_group_sources(encoder), False)
    columns = columns if encoder.sensitive_at_prediction or with_group else {}
    for column in encoder.columns:
        source, is_number = column.name, isinstance(column, NumberColumn)
        for rule in reversed(encoder.derived):
            if rule.target == source:
                source, is_number = rule.source, is_number and isinstance(rule, Blank)
        columns[source] = columns.get(source, False) or is_number
    return columns


def _group_sources(encoder: Encoder) -> set[str]:
    """Return the raw columns that the groups are made of."""
    return set(reading(encoder, features=False).columns)


def _type_columns(encoder: Encoder, cells: Cells, with_group: bool) -> Table:
    """Return cells as numbers and text. Training decided which are numbers, not these few rows."""
    needed = raw_columns(encoder, with_group)
    for name in needed:
        if name not in cells.columns:
            raise DataError(f"{cells.source}: {unknown_name('column', name, cells.columns)}")
    columns: dict[str, Any] = {}
    for name in {**needed, **dict.fromkeys(_group_sources(encoder))}:
        if (column := cells.columns.get(name)) is not None:
            is_number = needed.get(name) and _is_finite(column.numbers)
            columns[name] = column.numbers if is_number else column.words
    return cells.make_table(columns)


def _is_finite(numbers: Array | None) -> bool:
    """Return whether numbers were read, none of them infinite: an error names the cell then."""
    return numbers is not None and not np.isinf(numbers).any()
