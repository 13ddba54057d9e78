"""Raw rows of a file, encoded as in training."""

from pathlib import Path

import numpy as np

from fedfb.data.encode import Encoder, RawRows
from fedfb.data.files import read_rows
from fedfb.data.table import Table


def encode_file(
    encoder: Encoder, path: str | Path, separator: str | None = None, groups: bool = True
) -> RawRows:
    """Encode a file of raw rows as in training; it needs no label, other columns are ignored.

    Unless ``groups`` are wanted they are read only for a model that is given them: to decide a row
    of a group that nobody trained on is then no error.
    """
    cells = read_rows(path, separator)
    # Text throughout: which columns are numbers was decided in training, not by these few rows.
    columns = {name: np.array(column, object) for name, column in cells.columns.items()}
    table = Table(columns, cells.source)
    needed = {rule.target: rule.source for rule in encoder.derived}
    sensitive = {needed.get(name, name) for name in encoder.groups.columns}
    wanted = groups and sensitive <= set(columns)
    if not encoder.sensitive_at_prediction and not wanted:
        return RawRows(encoder.encode(table), None)
    table = encoder.prepare(table)
    group = encoder.groups.group_of(table)
    return RawRows(encoder.encode(table, group), group)
