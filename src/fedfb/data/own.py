"""A federation of the user's own rows: files, tables of databases, or frames.

Each file is a client, or the rows of all are dealt to clients.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfb.data.conform import (
    add_client_column,
    agreed_schema,
    drop_notes,
    release,
    tables_of,
    type_notes,
)
from fedfb.data.declare import Wanted
from fedfb.data.derive import derive
from fedfb.data.federation import Federation, Source, federate, settle_small_groups
from fedfb.data.fit_columns import by_sums
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import (
    Clients,
    Partition,
    assign,
    parse_partition,
    rows_of_clients,
    seat,
    split_client,
)
from fedfb.data.request import DataRequest, dialect_of
from fedfb.data.schema import Schema
from fedfb.data.schema_file import read_schema
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Int
from fedfb.tables.address import hide
from fedfb.tables.cells import Cells, as_text
from fedfb.tables.dialect import DETECT, Dialects
from fedfb.tables.marks import settle_numbers
from fedfb.tables.problems import Problem
from fedfb.tables.read import notes_of, try_files, try_read
from fedfb.tables.table import Table, concat
from fedfb.tables.values import columns_of, is_frame

Frame = Any
"""A frame of pandas or polars, or a mapping of column names to lists or arrays."""


def load_own(request: DataRequest, split_seed: int = 0, **options: Any) -> Federation:
    """Load CSV and Parquet files, or tables of a database. A column without a role is a feature.

    Args:
        request: the files, the roles of their columns, and how rows are dealt.
        split_seed: seed of all random choices about the data.
        options: see :func:`federate_cells`.

    """
    declared = None if request.schema is None else read_schema(request.schema)
    dialects = Dialects(dialect_of(request), () if declared is None else declared.files)
    files, problems = try_files(request.own_data, dialects, request.test)
    test = None if request.test is None else try_read(request.test, dialects)
    if isinstance(test, Problem):
        problems, test = [*problems, test], None
    schema = agreed_schema(
        [*files.values()],
        wanted_of(request),
        declared,
        test=test,
        problems=problems,
        clients=files if request.partition == "paper" else None,
    )
    return federate_cells(
        hide(request.own_data), files, schema, request, split_seed, test=test, **options
    )


def wanted_of(request: DataRequest) -> Wanted:
    """Return the roles of columns that a request declares."""
    return Wanted(
        request.label or "",
        request.positive or "",
        request.sensitive,
        request.client_column,
        request.ignore,
        request.bins,
        request.merge,
        request.dates,
    )


def federation_from_frames(
    frames: Mapping[str, Frame] | Frame,
    label: str = "",
    positive: Any = "",
    sensitive: str | Iterable[str] = (),
    *,
    client_column: str | None = None,
    ignore: Iterable[str] = (),
    bins: Iterable[str] = (),
    merge: Iterable[str] = (),
    dates: Iterable[str] = (),
    schema: str | Schema | None = None,
    partition: str = "paper",
    split_seed: int = 0,
    client_rows: int = 2,
    test: Frame | None = None,
    split: bool = True,
    sensitive_at_prediction: bool = False,
    minimum_group: int = 10,
    rest: str | None = None,
    labels: tuple[int, ...] = (),
    name: str = "frames",
    add: AddUp = add_in_clear,
    precision: str = "float64",
) -> Federation:
    """Make a federation of one frame per client, or of one frame dealt to clients.

    Values become the cells of a CSV file, so the result is that of the same files, to the bit.

    Args:
        frames: frames by client name, or one frame.
        label: column to predict.
        positive: its favourable value.
        sensitive: columns whose crossed values form the groups.
        client_column: column that names the client of a row.
        ignore: columns to leave out.
        bins: ranges of sensitive numbers, as ``"age: 25,40"``.
        merge: values to merge, as ``"race: Asian+Other=rest"``.
        dates: what is derived from dates, as ``"birth: year"``.
        schema: declares the columns in place of the arguments above: a schema, or its path.
        partition: how rows are dealt to clients, as text; 'paper': every frame is a client.
        split_seed: seed of all random choices about the data.
        client_rows: fewest rows of a client; clients with fewer sit out.
        test: test rows; None: every client's rows are split 7:3.
        split: whether to split. If False, and without ``test``, all rows are training rows.
        sensitive_at_prediction: whether the model reads the group.
        minimum_group: fewest training rows of a group that is compared.
        rest: name of the group that smaller groups become part of; None: they stay.
        labels: labels among whose rows a notion compares rates: (1,) for equal opportunity, (0, 1)
            for equalized odds. A group with few rows of one of them is small.
        name: name of the federation.
        add: adds the clients' uploads about their columns.
        precision: type of the numbers of the features; float32 halves the memory, and is enough
            for an experiment of that precision (the default).

    >>> rows = {"age": [31, 52, 40, 28], "sex": ["F", "M", "F", "M"], "paid": [1, 0, 0, 1]}
    >>> federation = federation_from_frames(rows, "paid", 1, "sex", split=False)
    >>> federation.feature_names, federation.clients[0].y.tolist()
    (('age',), [1, 0, 0, 1])
    """
    by_client = _split_by_client(frames, name)
    cells = {client: _read_frame(client, by_client[client]) for client in sorted(by_client)}
    request = DataRequest(
        data=name,
        label=label,
        positive=as_text(positive),
        sensitive=(sensitive,) if isinstance(sensitive, str) else tuple(sensitive),
        client_column=client_column,
        ignore=tuple(ignore),
        bins=tuple(bins),
        merge=tuple(merge),
        dates=tuple(dates),
        partition=partition,
        client_rows=client_rows,
        sensitive_at_prediction=sensitive_at_prediction,
        minimum_group=minimum_group,
        rest=rest,
    )
    held = None if test is None else _read_frame("the test rows", test)
    by_file = cells if partition == "paper" else None
    agreed = agreed_schema(
        [*cells.values()], wanted_of(request), schema, test=held, clients=by_file
    )
    return federate_cells(
        name,
        cells,
        agreed,
        request,
        split_seed,
        test=held,
        split=split,
        labels=labels,
        add=add,
        precision=precision,
    )


def _read_frame(source: str, frame: Frame) -> Cells:
    """Return a frame as cells. Numbers in columns of text are read as those of a CSV file."""
    return settle_numbers(columns_of(source, frame), DETECT)


def _split_by_client(frames: Any, name: str) -> dict[str, Frame]:
    """Return frames by client. The columns of a single frame have no columns themselves."""
    if not isinstance(frames, Mapping):
        return {name: frames}
    if not frames:
        raise ConfigError("no frames were given. Expected {client: frame}, or one frame.")
    if not any(map(is_frame, frames.values())):
        return {name: frames}
    return {str(client): frame for client, frame in frames.items()}


def federate_cells(
    name: str,
    files: Mapping[str, Cells],
    schema: Schema,
    request: DataRequest,
    split_seed: int,
    *,
    test: Cells | None = None,
    split: bool = True,
    labels: tuple[int, ...] = (),
    add: AddUp = add_in_clear,
    precision: str = "float64",
) -> Federation:
    """Make a federation of files by client name, in this order.

    Args:
        name: name of the federation.
        files: training files, which give up their columns.
        schema: declarations about the columns.
        request: how rows are dealt, whether the model reads the group, what becomes of small ones.
        split_seed: seed of all random choices about the data. Without test rows, every client's
            rows are split 7:3, by the seed and the client's number only.
        test: test rows; None: split the training files.
        split: whether to split. If False, and without ``test``, all rows are training rows.
        labels: labels among whose rows a notion compares rates; empty: among all rows.
        add: adds the clients' uploads, from which numbers are scaled.
        precision: type of the numbers of the features.

    """
    _refuse_two_partitions(schema.client, request.partition)
    parts = [*files.values()]
    parts += [] if test is None else [add_client_column(test, schema.client)]
    tables = tables_of(parts, schema)
    sizes = [len(part) for part in tables]
    notes = (*notes_of(parts), *type_notes(schema), *drop_notes(parts, schema))
    release(parts if test is None else [*parts, test])
    raw = concat(tables)
    del tables
    rows = np.arange(sum(sizes[: len(files)]))
    label, group_order = schema.label, schema.group_names
    table = derive(raw, schema.derived)
    groups = groups_in(table.take(slice(len(rows))), schema.crossed, group_order)
    rule = (
        Partition("column", schema.client) if schema.client else parse_partition(request.partition)
    )
    dealt = _deal_clients(raw, table, sizes, tuple(files), groups, rule, split_seed)
    clients, client_notes = seat(dealt, rows, rows, request.client_rows)
    train, test_rows = rows, np.arange(len(rows), len(table))
    if test is None and split:
        train, test_rows = _split(clients.client, groups.group_of(table), split_seed)
    features = schema.of("feature")
    if not features:
        raise DataError(f"{table.source}: no columns are left as features. Add some.")
    label_notes = _note_labels(table, label.name, label.positive)
    # The rows of a client stand side by side, so that no later step gathers or copies them.
    parts_of_clients = rows_of_clients(clients.client[train], len(clients.names))
    order = np.concatenate([*(train[places] for places in parts_of_clients), test_rows])
    table, first_test = table.take(order), len(order) - len(test_rows)
    del raw
    source = Source(
        name=name,
        table=table,
        train=np.arange(first_test),
        test=np.arange(first_test, len(order)),
        label=label.name,
        positive=label.positive,
        sensitive=schema.crossed,
        features=tuple(column.name for column in features),
        derived=schema.derived,
        group_order=group_order,
        notes=(*notes, *label_notes, *client_notes),
    )
    federation = federate(
        source,
        clients._replace(client=clients.client[order]),
        sensitive_at_prediction=request.sensitive_at_prediction,
        learn=by_sums(add, replace(schema, steps=request.features != "plain")),
        precision=precision,
        rest=request.rest,
    )
    return settle_small_groups(federation, request.minimum_group, request.rest, labels)


def _refuse_two_partitions(client_column: str | None, partition: str) -> None:
    if client_column is not None and parse_partition(partition).kind != "paper":
        raise ConfigError(
            f"the client column {client_column!r} and the partition {partition!r} both decide the "
            "clients. Give one of them."
        )


def _deal_clients(
    raw: Table,
    table: Table,
    sizes: Sequence[int],
    files: tuple[str, ...],
    groups: Groups,
    rule: Partition,
    seed: int,
) -> Clients:
    """Return the client of every row: by the rule, or else by file. A test file has no client."""
    if rule.kind != "paper":
        # A client has the name in the raw cell, even where bins of the column form the groups.
        source = raw if rule.kind == "column" else table
        return assign(rule, source, groups, np.arange(sum(sizes[: len(files)])), (seed, 13))
    for name, size in zip(files, sizes, strict=False):
        if size < 2:
            raise DataError(
                f"client {name!r} has {size} rows, and at least 2 are needed. Is its file whole? "
                "Add rows, or leave the file out."
            )
    return Clients(np.repeat([*range(len(files)), -1][: len(sizes)], sizes), files)


def _split(
    client: Int[Array, " n"], group: Int[Array, " n"], split_seed: int
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split every client's rows 7:3, see :func:`fedfb.data.partition.split_client`."""
    train, test = [], []
    for number, rows in enumerate(rows_of_clients(client, int(client.max()) + 1)):
        places, places_aside = split_client(group[rows], number, split_seed)
        train.append(rows[places])
        test.append(rows[places_aside])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def _note_labels(table: Table, label: str, positive: str) -> tuple[str, ...]:
    negatives = sorted(table.text(label).counts().keys() - {positive, ""})
    if len(negatives) < 2:
        return ()
    first = ", ".join(negatives[:10]) + (", ..." if len(negatives) > 10 else "")
    return (f"the label has more than two values: {positive} is set against the rest ({first})",)
