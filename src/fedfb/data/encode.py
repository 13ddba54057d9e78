"""The encoder: from raw rows to the numbers that a model reads.

An encoder is learnt on training rows and stored as plain JSON. It lists the raw columns that it
reads, and encodes later files as in training.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.data.address import Database
from fedfb.data.cells import Cells
from fedfb.data.columns import CategoryColumn, Column, NumberColumn, fit_column
from fedfb.data.derive import Bins, Blank, Derived, derive, rule_from_dict, rule_to_dict
from fedfb.data.dialect import DETECT, Dialect
from fedfb.data.groups import Groups
from fedfb.data.read import read_rows
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Float, Int


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

    def encode(self, table: Table, group: Int[Array, " n"] | None = None) -> Float[Array, "n d"]:
        """Return ``x`` of the table's rows.

        Args:
            table: rows with derived columns.
            group: group of each row, where the model reads it; None: computed from the table.

        """
        parts = [column.encode(table) for column in self.columns]
        if self.sensitive_at_prediction:
            group = self.groups.group_of(table) if group is None else group
            parts.append(np.eye(len(self.groups.names))[group])
        return np.concatenate(parts, axis=1)

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
                groups=Groups(**{key: tuple(names) for key, names in values["groups"].items()}),
                label=values["label"],
                positive=values["positive"],
                sensitive_at_prediction=values["sensitive_at_prediction"],
                derived=tuple(rule_from_dict(rule) for rule in values["derived"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"this is not an encoder as fedfb writes it ({error!r}). Train again, or use the "
                "file as it was written."
            ) from None


class RawRows(NamedTuple):
    """Encoded rows of a file; ``group`` is None where it is absent or not requested.

    ``notes`` are sentences about how the file was read.
    """

    x: Float[Array, "n d"]
    group: Int[Array, " n"] | None
    notes: tuple[str, ...] = ()


def fit_encoder(
    table: Table,
    *,
    features: tuple[str, ...],
    groups: Groups,
    label: str,
    positive: str,
    sensitive_at_prediction: bool,
    derived: tuple[Derived, ...] = (),
    columns: tuple[Column, ...] | None = None,
) -> Encoder:
    """Learn an encoder from training rows.

    Args:
        table: training rows only.
        features: names of the features.
        groups: groups of the rows.
        label: column to predict.
        positive: its favourable value.
        sensitive_at_prediction: whether the model reads the group.
        derived: rules that made columns of the table.
        columns: encoding of the features, where it was learnt from sums over clients; None: learn
            it from the table.

    """
    if columns is None:
        columns = tuple(fit_column(table, name) for name in features)
    return Encoder(columns, groups, label, positive, sensitive_at_prediction, derived)


def _read_column(values: Mapping[str, Any]) -> Column:
    if "categories" in values:
        return CategoryColumn(values["name"], tuple(values["categories"]))
    return NumberColumn(**values)


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
    encoder: Encoder, path: str | Path | Database, dialect: Dialect = DETECT, groups: bool = True
) -> RawRows:
    """Encode a file of raw rows as in training. It needs no label. Other columns are ignored.

    Args:
        encoder: the encoder.
        path: a CSV or Parquet file, or a database.
        dialect: how a text file is written, where it is not detected.
        groups: whether to read groups that the model does not read. If not, a row of an unknown
            group is no error.

    """
    return encode_cells(encoder, read_rows(path, dialect), groups)


def encode_cells(encoder: Encoder, cells: Cells, groups: bool = True) -> RawRows:
    """Encode raw rows as in training. The arguments are those of :func:`encode_file`."""
    # Training decided which columns are numbers, not these few rows.
    kinds = {column.name: isinstance(column, NumberColumn) for column in encoder.columns}
    columns = {
        name: column.numbers if kinds.get(name) and _is_finite(column.numbers) else column.words
        for name, column in cells.columns.items()
    }
    table = cells.make_table(columns)
    sources = {rule.target: rule.source for rule in encoder.derived}
    sensitive = {sources.get(name, name) for name in encoder.groups.columns}
    reads_group = groups and sensitive <= set(columns)
    needs_group = encoder.sensitive_at_prediction or reads_group
    table = encoder.prepare(table, needs_group)
    if not needs_group:
        return RawRows(encoder.encode(table), None, cells.notes)
    group = encoder.groups.group_of(table)
    return RawRows(encoder.encode(table, group), group, cells.notes)


def _is_finite(numbers: Float[Array, " n"] | None) -> bool:
    return numbers is not None and not np.isinf(numbers).any()
