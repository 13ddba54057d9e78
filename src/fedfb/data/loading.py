"""Load a federation: a built-in data set by name, or the user's files.

Of the user's files each is a client, or the rows of a file are dealt to clients.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

import numpy as np

from fedfb.core import generator
from fedfb.data.address import hide
from fedfb.data.cells import Cells, SourceColumn
from fedfb.data.conform import agreed_schema, tables_of, type_notes
from fedfb.data.declare import Wanted
from fedfb.data.derive import derive
from fedfb.data.federation import Federation, federate, settle_small_groups
from fedfb.data.fit_columns import by_sums
from fedfb.data.groups import Groups, groups_in
from fedfb.data.partition import Clients, Partition, assign, parse_partition, split_order
from fedfb.data.read import names_of, notes_of, paths_of, read_rows
from fedfb.data.request import BUILT_IN, POPULATIONS, DataRequest, check_request
from fedfb.data.schema import Schema
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.data.table import Table, concat
from fedfb.errors import ConfigError, DataError
from fedfb.shapes import Array, Int

PUBLISHED = ("adult", "bank", "compas")


def load(request: DataRequest, split_seed: int, add: AddUp = add_in_clear) -> Federation:
    """Load the data of a request. Small groups are merged if the request names a group for them.

    Args:
        request: which data, and how to read them.
        split_seed: seed of all random choices about the data.
        add: adds the clients' uploads about the columns of the user's files. Built-in data need
            no sums: they are encoded as one public table.

    >>> federation = load(DataRequest("synthetic", rows=100, test_rows=50), split_seed=0)
    >>> len(federation.clients), sum(len(client.y) for client in federation.clients)
    (3, 100)
    """
    check_request(request)
    federation = _load(request, split_seed, add)
    if request.data not in BUILT_IN:
        return federation  # load_own has merged small groups already
    return settle_small_groups(federation, request.minimum_group, request.rest)


def _load(request: DataRequest, split_seed: int, add: AddUp) -> Federation:
    partition, sensitive_at_prediction = request.partition, request.sensitive_at_prediction
    # A run needs one loader only, so each is imported where it is used.
    if request.data in PUBLISHED:
        module = import_module(f"fedfb.data.datasets.{request.data}")
        load_rows = getattr(module, f"load_{request.data}")
        if request.sensitive:
            load_rows = partial(load_rows, sensitive=_choose_attributes(request, module.ATTRIBUTES))
        federation: Federation = load_rows(
            partition, split_seed, sensitive_at_prediction, request.resplit
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
        )
    from fedfb.data.loading import load_own

    return load_own(
        request.own_data,
        request.label or "",
        request.positive or "",
        request.sensitive,
        client_column=request.client_column,
        ignore=request.ignore,
        bins=request.bins,
        merge=request.merge,
        schema=request.schema,
        partition=partition,
        split_seed=split_seed,
        test=request.test,
        sensitive_at_prediction=sensitive_at_prediction,
        minimum_group=request.minimum_group,
        rest=request.rest,
        add=add,
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
    schema: str | None = None,
    partition: str = "paper",
    split_seed: int = 0,
    test: str | None = None,
    sensitive_at_prediction: bool = False,
    minimum_group: int = 10,
    rest: str | None = None,
    add: AddUp = add_in_clear,
) -> Federation:
    """Load CSV and Parquet files, or tables of a database. A column without a role is a feature.

    Args:
        pattern: path of a file, a pattern of several, or the address of a database.
        label: column to predict.
        positive: its favourable value.
        sensitive: columns whose crossed values form the groups.
        client_column: column that names the client of a row.
        ignore: columns to leave out.
        bins: ranges of sensitive numbers, as ``"age: 25,40"``.
        merge: values to merge, as ``"race: Asian+Other=rest"``.
        schema: file that declares the columns, in place of the arguments above.
        partition: how rows are dealt to clients, as text; 'paper': every file is a client.
        split_seed: seed of all random choices about the data.
        test: file of test rows; None: every client's rows are split 7:3, by the seed and the
            client's number only.
        sensitive_at_prediction: whether the model reads the group.
        minimum_group: fewest training rows of a group that is compared.
        rest: name of the group that smaller groups become part of; None: they stay.
        add: adds the clients' uploads, from which numbers are scaled.

    """
    pattern = hide(pattern)
    paths = paths_of(pattern, test)
    files = dict(zip(names_of(paths), map(read_rows, paths), strict=True))
    wanted = Wanted(label, positive, sensitive, client_column, ignore, bins, merge)
    federation = federate_cells(
        pattern,
        files,
        agreed_schema([*files.values()], wanted, schema),
        partition=partition,
        split_seed=split_seed,
        test=None if test is None else read_rows(test),
        sensitive_at_prediction=sensitive_at_prediction,
        add=add,
    )
    return settle_small_groups(federation, minimum_group, rest)


def federate_cells(
    name: str,
    files: Mapping[str, Cells],
    schema: Schema,
    *,
    partition: str = "paper",
    split_seed: int = 0,
    test: Cells | None = None,
    split: bool = True,
    sensitive_at_prediction: bool = False,
    add: AddUp = add_in_clear,
) -> Federation:
    """Make a federation of files by client name, in this order.

    Args:
        name: name of the federation.
        files: training files.
        schema: declarations about the columns.
        partition: see :func:`load_own`.
        split_seed: see :func:`load_own`.
        test: test rows; None: split the training files.
        split: whether to split. If False, and without ``test``, all rows are training rows.
        sensitive_at_prediction: see :func:`load_own`.
        add: see :func:`load_own`.

    """
    _refuse_two_partitions(schema.client, partition)
    tables = tables_of([*files.values()], _add_client_column(test, schema.client), schema)
    raw = concat(tables)
    rows = np.arange(sum(len(part) for part in tables[: len(files)]))
    label, positive = schema.label.name, schema.label.positive
    table = derive(raw, schema.derived)
    _refuse_absent_positive(table.take(rows), label, positive)
    order = schema.group_names
    groups = groups_in(table.take(rows), schema.crossed, order)
    rule = Partition("column", schema.client) if schema.client else parse_partition(partition)
    client, names = _deal_clients(raw, table, tables, tuple(files), groups, rule, split_seed)
    _refuse_small_clients(client[rows], names)
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
            *notes_of([*files.values(), *([] if test is None else [test])]),
            *type_notes(schema),
            *_note_labels(table, label, positive),
        ),
        learn=by_sums(add, schema),
    )


def _refuse_two_partitions(client_column: str | None, partition: str) -> None:
    if client_column is not None and parse_partition(partition).kind != "paper":
        raise ConfigError(
            f"the client column {client_column!r} and the partition {partition!r} both decide the "
            "clients. Give one of them."
        )


def _add_client_column(test: Cells | None, client_column: str | None) -> Cells | None:
    """Add an empty client column where test rows have none: they belong to no client."""
    if test is None or client_column is None or client_column in test.columns:
        return test
    nobody = {client_column: SourceColumn.of([""] * test.rows)}
    return test._replace(columns={**test.columns, **nobody})


def _deal_clients(
    raw: Table,
    table: Table,
    tables: tuple[Table, ...],
    files: tuple[str, ...],
    groups: Groups,
    rule: Partition,
    seed: int,
) -> Clients:
    """Return the client of every row: by the rule, or else by file. A test file has no client."""
    sizes = [len(part) for part in tables]
    if rule.kind != "paper":
        # A client has the name in the raw cell, even where bins of the column form the groups.
        source = raw if rule.kind == "column" else table
        return assign(rule, source, groups, np.arange(sum(sizes[: len(files)])), (seed, 13))
    return Clients(np.repeat([*range(len(files)), -1][: len(sizes)], sizes), files)


def _split(
    client: Int[Array, " n"], group: Int[Array, " n"], split_seed: int
) -> tuple[Int[Array, " t"], Int[Array, " e"]]:
    """Split every client's rows 7:3, see :func:`split_client`."""
    train, test = [], []
    for number in range(int(client.max()) + 1):
        rows = np.flatnonzero(client == number)
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


def _refuse_small_clients(client: Int[Array, " g"], names: tuple[str, ...]) -> None:
    counts = np.bincount(client, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if count < 2:
            raise DataError(
                f"client {name!r} has {count} rows, and at least 2 are needed. Add rows, or merge "
                "it with another client."
            )


def _refuse_absent_positive(table: Table, label: str, positive: str) -> None:
    values = sorted(table.text(label).counts().keys() - {""})
    if positive not in values:
        first = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        raise DataError(
            f"{table.source}: the positive value {positive!r} never occurs in the label column "
            f"{label!r}, whose values are {first}. Choose one of these."
        )


def _note_labels(table: Table, label: str, positive: str) -> tuple[str, ...]:
    negatives = sorted(table.text(label).counts().keys() - {positive, ""})
    if len(negatives) < 2:
        return ()
    first = ", ".join(negatives[:10]) + (", ..." if len(negatives) > 10 else "")
    return (f"the label has more than two values: {positive} is set against the rest ({first})",)
