"""One's own files: one file per client, or one file whose rows are dealt to clients."""

from collections.abc import Mapping

import numpy as np

from fedfb.core import generator
from fedfb.data.federation import Federation, federate
from fedfb.data.files import names_of, paths_of, read_rows
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import Clients, Partition, assign, parse_partition
from fedfb.data.read import Cells, typed
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.data.table import Table, concat
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Int


def load_own(
    pattern: str,
    label: str,
    positive: str,
    sensitive: tuple[str, ...],
    *,
    client_column: str | None = None,
    partition: str = "paper",
    split_seed: int = 0,
    test: str | None = None,
    sensitive_at_prediction: bool = True,
    add: AddUp = add_in_clear,
) -> Federation:
    """Load CSV and Parquet files. Features are all columns but the label, sensitive and client one.

    The clients are those of ``client_column``, or of ``partition`` unless it is 'paper', or else
    the files. Test rows are those of the file ``test``; without one, every client's rows are split
    7:3 at random, by the split seed and the client's number only. What numbers are standardised by
    comes from sums over the clients, added up by ``add``.
    """
    paths = paths_of(pattern, test)
    return federate_cells(
        pattern,
        dict(zip(names_of(paths), map(read_rows, paths), strict=True)),
        label,
        positive,
        sensitive,
        client_column=client_column,
        partition=partition,
        split_seed=split_seed,
        test=None if test is None else read_rows(test),
        sensitive_at_prediction=sensitive_at_prediction,
        add=add,
    )


def federate_cells(
    name: str,
    silos: Mapping[str, Cells],
    label: str,
    positive: str,
    sensitive: tuple[str, ...],
    *,
    client_column: str | None = None,
    partition: str = "paper",
    split_seed: int = 0,
    test: Cells | None = None,
    split: bool = True,
    sensitive_at_prediction: bool = True,
    add: AddUp = add_in_clear,
) -> Federation:
    """Make a federation of tables by client name, in this order; see :func:`load_own`.

    With ``split=False``, and without test rows, all rows are to train on.
    """
    _refuse_clashes(label, sensitive, client_column, partition)
    named = (label, *sensitive, *((client_column,) if client_column else ()))
    tables = _typed([*silos.values()], test, named, client_column)
    table = concat(tables)
    given = np.arange(sum(len(part) for part in tables[: len(silos)]))
    _refuse_absent_positive(table.take(given), label, positive)
    groups = groups_in(table.take(given), sensitive)
    how = Partition("column", client_column) if client_column else parse_partition(partition)
    client, names = _clients(table, tables, tuple(silos), groups, how, split_seed)
    _refuse_small_clients(client[given], names)
    train, held = given, np.arange(len(given), len(table))
    if test is None and split:
        train, held = _split(client, split_seed)
    features = tuple(name for name in table.columns if name not in named)
    if not features:
        raise DataError(f"{table.source}: no columns are left as features. Add some.")
    return federate(
        name,
        table,
        label=label,
        positive=positive,
        sensitive=sensitive,
        features=features,
        train=train,
        test=held,
        client=client,
        client_names=names,
        sensitive_at_prediction=sensitive_at_prediction,
        notes=_label_note(table, label, positive),
        add=add,
    )


def _refuse_clashes(
    label: str, sensitive: tuple[str, ...], client_column: str | None, partition: str
) -> None:
    if label in (*sensitive, client_column) or len(set(sensitive)) < len(sensitive):
        raise ConfigError(
            f"the label {label!r}, the sensitive columns {list(sensitive)} and the client column "
            f"{client_column!r}: the label must not be one of the others, and no sensitive column "
            "can stand twice."
        )
    if client_column is not None and parse_partition(partition).kind != "paper":
        raise ConfigError(
            f"the client column {client_column!r} and the partition {partition!r} both decide the "
            "clients. Give one of them."
        )


def _typed(
    files: list[Cells], test: Cells | None, named: tuple[str, ...], client_column: str | None
) -> tuple[Table, ...]:
    """One table per file, the test rows last; they need not have the client column."""
    for file in files:
        for name in named:
            Table({key: np.array([]) for key in file.columns}, file.source).column(name)
    if test is not None:
        if client_column and client_column not in test.columns:
            nobody = {client_column: [""] * len(test.lines)}
            test = Cells(test.source, {**test.columns, **nobody}, test.lines)
        files = [*files, test]
    return typed(files, text=named)


def _clients(
    table: Table,
    tables: tuple[Table, ...],
    silos: tuple[str, ...],
    groups: Groups,
    how: Partition,
    seed: int,
) -> Clients:
    """Give every row a client: by the rule, or else by its file (a test file: none)."""
    sizes = [len(part) for part in tables]
    if how.kind != "paper":
        return assign(how, table, groups, np.arange(sum(sizes[: len(silos)])), (seed, 13))
    return Clients(np.repeat([*range(len(silos)), -1][: len(sizes)], sizes), silos)


def _split(client: Int[Array, " n"], split_seed: int) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split every client's rows 7:3; both parts have at least one row."""
    train, test = [], []
    for number in range(int(client.max()) + 1):
        rows = np.flatnonzero(client == number)
        order = generator((split_seed, 12, number)).permutation(rows)
        cut = 7 * len(rows) // 10
        train.append(order[:cut])
        test.append(order[cut:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def _refuse_small_clients(client: Int[Array, " g"], names: tuple[str, ...]) -> None:
    counts = np.bincount(client, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if count < 2:
            raise DataError(
                f"client {name!r} has {count} rows, and at least 2 are needed. Add rows, or merge "
                "it with another client."
            )


def _refuse_absent_positive(table: Table, label: str, positive: str) -> None:
    values = sorted(set(table.text(label)) - {""})
    if positive not in values:
        shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        raise DataError(
            f"{table.source}: the positive value {positive!r} never occurs in the label column "
            f"{label!r}, whose values are {shown}. Choose one of these."
        )


def _label_note(table: Table, label: str, positive: str) -> tuple[str, ...]:
    others = sorted(set(table.text(label)) - {positive, ""})
    if len(others) < 2:
        return ()
    shown = ", ".join(others[:10]) + (", ..." if len(others) > 10 else "")
    return (f"the label has more than two values: {positive} is set against the rest ({shown})",)
