"""What all silos' files have in common: columns, label and groups, agreed before rows are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.data.columns import MISSING_CATEGORY, CategoryColumn, Column, NumberColumn, fit_column
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups, groups_in
from fedfb.data.read import Cells, read_cells, typed
from fedfb.data.statistics import Spread
from fedfb.data.table import Table, concat
from fedfb.errors import ConfigError, DataError, unknown_name

NUMBER = "number"
"""The kind of a column of numbers; of others the categories are listed."""


@dataclass(frozen=True)
class Schema:
    """The label and its favourable value, the sensitive columns, all groups, and every feature.

    Public: everybody in the study reads it. A feature is a number, or one of the listed categories.
    """

    label: str
    positive: str
    sensitive: tuple[str, ...]
    groups: tuple[str, ...]
    columns: Mapping[str, str | tuple[str, ...]]

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers, in order."""
        return tuple(name for name, kind in self.columns.items() if kind == NUMBER)

    @property
    def needed(self) -> tuple[str, ...]:
        """Every column that a silo's file must have."""
        return (*self.columns, *self.sensitive, self.label)

    def encoder(self, spread: Spread, sensitive_at_prediction: bool) -> Encoder:
        """Return how rows become numbers, once the spread of the numeric columns is known."""
        place = {name: number for number, name in enumerate(self.numeric)}

        def column(name: str, kind: str | tuple[str, ...]) -> Column:
            if not isinstance(kind, str):
                return CategoryColumn(name, kind)
            at = place[name]
            mean, sd = float(spread.mean[at]), float(spread.sd[at])
            return NumberColumn(name, mean, sd, bool(spread.missing[at] > 0))

        return Encoder(
            tuple(column(name, kind) for name, kind in self.columns.items()),
            Groups(self.sensitive, self.groups),
            self.label,
            self.positive,
            sensitive_at_prediction,
        )


def schema_of(
    paths: Sequence[str | Path], label: str, positive: str, sensitive: tuple[str, ...]
) -> Schema:
    """Read a schema off files that look like the silos': a template, or rows that may be shown."""
    named = (label, *sensitive)
    files = [read_cells(path) for path in paths]
    for file in files:
        _require(file, named)
    table = concat(typed(files, text=named))
    features = [name for name in table.columns if name not in named]
    if not features:
        raise DataError(f"{table.source}: no columns are left as features. Add some.")
    fitted = {name: fit_column(table, name) for name in features}
    columns = {
        name: found.categories if isinstance(found, CategoryColumn) else NUMBER
        for name, found in fitted.items()
    }
    return Schema(label, positive, sensitive, groups_in(table, sensitive).names, columns)


def read_rows(schema: Schema, path: str | Path) -> Table:
    """Read a silo's file and refuse what does not fit the schema, with file and line.

    Columns that the schema does not name are never stored.
    """
    found = read_cells(path, only=None)
    _require(found, schema.needed)
    columns = {
        name: _numbers(found, name)
        if schema.columns.get(name) == NUMBER
        else np.array(found.columns[name], object)
        for name in schema.needed
    }
    for name, kind in schema.columns.items():
        if not isinstance(kind, str):
            _refuse_unknown(found, name, kind)
    table = Table(columns, found.source)
    Groups(schema.sensitive, schema.groups).group_of(table)
    return table


def _require(file: Cells, names: Sequence[str]) -> None:
    for name in names:
        if name not in file.columns:
            raise DataError(
                f"{file.source}: {unknown_name('column', name, file.columns)}. The study's schema "
                "needs it: add or rename it, or ask the coordinator for another schema."
            )


def _numbers(file: Cells, name: str) -> Any:
    values = []
    for cell, line in zip(file.columns[name], file.lines, strict=True):
        try:
            value = float(cell) if cell else np.nan
        except ValueError:
            value = np.inf
        if np.isinf(value) or "_" in cell:
            raise DataError(
                f"{file.source}, line {line}, column {name!r}: {cell!r} is not a finite number, "
                "and the study's schema says that the column holds numbers. Mend the cell or "
                "leave it empty."
            )
        values.append(value)
    return np.array(values, float)


def _refuse_unknown(file: Cells, name: str, known: Sequence[str]) -> None:
    for cell, line in zip(file.columns[name], file.lines, strict=True):
        if (cell or MISSING_CATEGORY) not in known:
            shown = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            what = repr(cell) if cell else "an empty cell"
            raise DataError(
                f"{file.source}, line {line}, column {name!r}: {what} is none of the schema's "
                f"values ({shown}). Recode it, or ask the coordinator to add it to the schema "
                f"({MISSING_CATEGORY!r} stands for empty cells)."
            )


def schema_to_values(schema: Schema) -> dict[str, Any]:
    """Return a schema as TOML holds it."""
    columns = {k: v if isinstance(v, str) else list(v) for k, v in schema.columns.items()}
    return {
        "label": schema.label,
        "positive": schema.positive,
        "sensitive": list(schema.sensitive),
        "groups": list(schema.groups),
        "columns": columns,
    }


def schema_from_values(values: Mapping[str, Any], where: str) -> Schema:
    """Read a schema from TOML's values."""
    try:
        columns = {
            str(name): kind if isinstance(kind, str) else tuple(map(str, kind))
            for name, kind in values["columns"].items()
        }
        found = Schema(
            str(values["label"]),
            str(values["positive"]),
            tuple(map(str, values["sensitive"])),
            tuple(map(str, values["groups"])),
            columns,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{where}: the schema cannot be read ({error!r}). Expected label, positive, "
            "sensitive, groups and a table of columns, as fedfb study init writes them."
        ) from None
    for name, kind in found.columns.items():
        if isinstance(kind, str) and kind != NUMBER:
            raise ConfigError(
                f"{where}: column {name!r} is {kind!r}; expected 'number' or a list of categories."
            )
    return found
