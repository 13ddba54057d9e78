"""Load a federation: a built-in data set by name, or the user's files.

Of the user's files each is a client, or the rows of a file are dealt to clients.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

import numpy as np

from fedfb.core import generator
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
from fedfb.data.federation import Federation, federate, settle_small_groups
from fedfb.data.fit_columns import by_sums
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import (
    Clients,
    Partition,
    assign,
    parse_partition,
    rows_of_clients,
    seat,
    split_order,
)
from fedfb.data.request import BUILT_IN, POPULATIONS, DataRequest, check_request, dialect_of
from fedfb.data.schema import Schema
from fedfb.data.schema_file import read_schema
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Int
from fedfb.tables.address import hide
from fedfb.tables.cells import Cells
from fedfb.tables.dialect import DETECT, Dialect, Dialects
from fedfb.tables.problems import Problem
from fedfb.tables.read import notes_of, try_files, try_read
from fedfb.tables.table import Table, concat

PUBLISHED = ("adult", "bank", "compas")


def load(
    request: DataRequest,
    split_seed: int,
    add: AddUp = add_in_clear,
    precision: str = "float64",
    labels: tuple[int, ...] = (),
) -> Federation:
    """Load the data of a request. Small groups are merged if the request names a group for them.

    Args:
        request: which data, and how to read them.
        split_seed: seed of all random choices about the data.
        add: adds the clients' uploads about the columns of the user's files. Built-in data need
            no sums: they are encoded as one public table.
        precision: type of the numbers of the features of the user's files.
        labels: labels among whose rows a notion compares rates: a group with few rows of one of
            them is small. Empty: all rows count.

    >>> federation = load(DataRequest("synthetic", rows=100, test_rows=50), split_seed=0)
    >>> len(federation.clients), sum(len(client.y) for client in federation.clients)
    (3, 100)
    """
    check_request(request)
    federation = _load(request, split_seed, add, precision, labels)
    if request.data not in BUILT_IN:
        return federation  # load_own has merged small groups already
    return settle_small_groups(federation, request.minimum_group, request.rest, labels)


def _load(
    request: DataRequest,
    split_seed: int,
    add: AddUp,
    precision: str,
    labels: tuple[int, ...],
) -> Federation:
    partition, sensitive_at_prediction = request.partition, request.sensitive_at_prediction
    # A run needs one loader only, so each is imported where it is used.
    if request.data in PUBLISHED:
        module = import_module(f"fedfb.data.datasets.{request.data}")
        load_rows = getattr(module, f"load_{request.data}")
        if request.sensitive:
            load_rows = partial(load_rows, sensitive=_choose_attributes(request, module.ATTRIBUTES))
        federation: Federation = load_rows(
            partition,
            split_seed,
            sensitive_at_prediction,
            request.resplit,
            client_rows=request.client_rows,
        )
        return federation
    if request.data in POPULATIONS:
        from fedfb.data.datasets.gaussians import load_gaussians

        return load_gaussians(
            request.data,
            partition,
            split_seed,
            sensitive_at_prediction,
            q=request.q,
            rows=request.rows,
            test_rows=request.test_rows,
            client_rows=request.client_rows,
        )
    if request.data == "synthetic":
        from fedfb.data.datasets.synthetic import load_synthetic

        return load_synthetic(
            partition,
            split_seed,
            sensitive_at_prediction,
            clients=request.clients,
            groups=request.groups,
            heterogeneity=request.heterogeneity,
            rows=request.rows,
            test_rows=request.test_rows,
            client_rows=request.client_rows,
        )
    return load_own(
        request.own_data,
        request.label or "",
        request.positive or "",
        request.sensitive,
        client_column=request.client_column,
        ignore=request.ignore,
        bins=request.bins,
        merge=request.merge,
        dates=request.dates,
        schema=request.schema,
        dialect=dialect_of(request),
        partition=partition,
        split_seed=split_seed,
        client_rows=request.client_rows,
        test=request.test,
        sensitive_at_prediction=sensitive_at_prediction,
        minimum_group=request.minimum_group,
        rest=request.rest,
        labels=labels,
        add=add,
        precision=precision,
    )


def _choose_attributes(request: DataRequest, choices: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the attributes that form the groups, in the order of the data set."""
    for attributes in choices:
        if sorted(attributes) == sorted(request.sensitive):
            return attributes
    raise ConfigError(
        f"the groups of {request.data} can be formed by "
        f"{' or '.join(','.join(columns) for columns in choices)}, "
        f"not by {','.join(request.sensitive)!r}."
    )


def load_own(
    pattern: str,
    label: str = "",
    positive: str = "",
    sensitive: tuple[str, ...] = (),
    *,
    client_column: str | None = None,
    ignore: tuple[str, ...] = (),
    bins: tuple[str, ...] = (),
    merge: tuple[str, ...] = (),
    dates: tuple[str, ...] = (),
    schema: str | None = None,
    dialect: Dialect = DETECT,
    partition: str = "paper",
    split_seed: int = 0,
    client_rows: int = 2,
    test: str | None = None,
    sensitive_at_prediction: bool = False,
    minimum_group: int = 10,
    rest: str | None = None,
    labels: tuple[int, ...] = (),
    add: AddUp = add_in_clear,
    precision: str = "float64",
) -> Federation:
    """Load CSV and Parquet files, or tables of a database. A column without a role is a feature.

    Args:
        pattern: path of a file or folder, a pattern, or an address; or several, as words.
        label: column to predict.
        positive: its favourable value.
        sensitive: columns whose crossed values form the groups.
        client_column: column that names the client of a row.
        ignore: columns to leave out.
        bins: ranges of sensitive numbers, as ``"age: 25,40"``.
        merge: values to merge, as ``"race: Asian+Other=rest"``.
        dates: what is derived from dates, as ``"birth: year"``.
        schema: file that declares the columns, in place of the arguments above.
        dialect: how text files are written, where it is not detected.
        partition: how rows are dealt to clients, as text; 'paper': every file is a client.
        split_seed: seed of all random choices about the data.
        client_rows: fewest rows of a client; clients with fewer sit out.
        test: file of test rows; None: every client's rows are split 7:3, by the seed and the
            client's number only.
        sensitive_at_prediction: whether the model reads the group.
        minimum_group: fewest training rows of a group that is compared.
        rest: name of the group that smaller groups become part of; None: they stay.
        labels: labels among whose rows a notion compares rates; empty: among all rows.
        add: adds the clients' uploads, from which numbers are scaled.
        precision: type of the numbers of the features.

    """
    declared = None if schema is None else read_schema(schema)
    dialects = Dialects(dialect, () if declared is None else declared.files)
    files, problems = try_files(pattern, dialects, test)
    test_rows = None if test is None else try_read(test, dialects)
    if isinstance(test_rows, Problem):
        problems, test_rows = [*problems, test_rows], None
    wanted = Wanted(label, positive, sensitive, client_column, ignore, bins, merge, dates)
    agreed = agreed_schema(
        [*files.values()],
        wanted,
        declared,
        test=test_rows,
        problems=problems,
        clients=files if partition == "paper" else None,
    )
    federation = federate_cells(
        hide(pattern),
        files,
        agreed,
        partition=partition,
        split_seed=split_seed,
        client_rows=client_rows,
        test=test_rows,
        sensitive_at_prediction=sensitive_at_prediction,
        rest=rest,
        add=add,
        precision=precision,
    )
    return settle_small_groups(federation, minimum_group, rest, labels)


def federate_cells(
    name: str,
    files: Mapping[str, Cells],
    schema: Schema,
    *,
    partition: str = "paper",
    split_seed: int = 0,
    client_rows: int = 2,
    test: Cells | None = None,
    split: bool = True,
    sensitive_at_prediction: bool = False,
    rest: str | None = None,
    add: AddUp = add_in_clear,
    precision: str = "float64",
) -> Federation:
    """Make a federation of files by client name, in this order.

    Args:
        name: name of the federation.
        files: training files, which give up their columns.
        schema: declarations about the columns.
        partition: see :func:`load_own`.
        split_seed: see :func:`load_own`.
        client_rows: see :func:`load_own`.
        test: test rows; None: split the training files.
        split: whether to split. If False, and without ``test``, all rows are training rows.
        sensitive_at_prediction: see :func:`load_own`.
        rest: name of the group that small groups will become part of.
        add: see :func:`load_own`.
        precision: see :func:`load_own`.

    """
    _refuse_two_partitions(schema.client, partition)
    parts = [*files.values()]
    parts += [] if test is None else [add_client_column(test, schema.client)]
    tables = tables_of(parts, schema)
    sizes = [len(part) for part in tables]
    notes = (*notes_of(parts), *type_notes(schema), *drop_notes(parts, schema))
    release(parts if test is None else [*parts, test])
    raw = concat(tables)
    del tables
    rows = np.arange(sum(sizes[: len(files)]))
    label, positive = schema.label.name, schema.label.positive
    table = derive(raw, schema.derived)
    order = schema.group_names
    groups = groups_in(table.take(slice(len(rows))), schema.crossed, order)
    rule = Partition("column", schema.client) if schema.client else parse_partition(partition)
    dealt = _deal_clients(raw, table, sizes, tuple(files), groups, rule, split_seed)
    (client, names), client_notes = seat(dealt, rows, rows, client_rows)
    train, test_rows = rows, np.arange(len(rows), len(table))
    if test is None and split:
        train, test_rows = _split(client, groups.group_of(table), split_seed)
    features = schema.of("feature")
    if not features:
        raise DataError(f"{table.source}: no columns are left as features. Add some.")
    return federate(
        name,
        table,
        label=label,
        positive=positive,
        sensitive=schema.crossed,
        features=tuple(column.name for column in features),
        train=train,
        test=test_rows,
        client=client,
        client_names=names,
        sensitive_at_prediction=sensitive_at_prediction,
        derived=schema.derived,
        group_order=order,
        notes=(
            *notes,
            *_note_labels(table, label, positive),
            *client_notes,
        ),
        learn=by_sums(add, schema),
        precision=precision,
        rest=rest,
    )


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
    """Split every client's rows 7:3, see :func:`split_client`."""
    train, test = [], []
    for number, rows in enumerate(rows_of_clients(client, int(client.max()) + 1)):
        places, places_aside = split_client(group[rows], number, split_seed)
        train.append(rows[places])
        test.append(rows[places_aside])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def split_client(
    group: Int[Array, " n"], number: int, split_seed: int
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split one client's rows 7:3, in a random order. Every group has at least one training row.

    Args:
        group: group of each row.
        number: number of the client.
        split_seed: seed. The order depends on the seed and the client's number only.

    """
    order = generator((split_seed, 12, number)).permutation(len(group))
    return split_order(order, group)


def _note_labels(table: Table, label: str, positive: str) -> tuple[str, ...]:
    negatives = sorted(table.text(label).counts().keys() - {positive, ""})
    if len(negatives) < 2:
        return ()
    first = ", ".join(negatives[:10]) + (", ..." if len(negatives) > 10 else "")
    return (f"the label has more than two values: {positive} is set against the rest ({first})",)
