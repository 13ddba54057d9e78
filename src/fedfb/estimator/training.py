"""The training of an estimator: parameters become an experiment, rows become a federation.

Rows may be arrays, or frames of pandas or polars.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from fedfb.algorithms import find_method
from fedfb.data.federation import Federation, Source, federate, settle_small_groups
from fedfb.data.fit_columns import by_sums
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.partition import by_column
from fedfb.data.schema import ColumnSchema, Kind, Schema
from fedfb.data.suspicion import suspicion
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.secure import make_add
from fedfb.experiments.spec import Experiment
from fedfb.notions import labels_of
from fedfb.shapes import Array
from fedfb.tables.cells import (
    SourceColumn,
    as_text,
    check_names,
    clean_names,
    typed,
)
from fedfb.tables.table import Table, Words
from fedfb.tables.values import columns_of

_EVERYBODY = "all"
"""Name of the only group, or the only client, where the user names none."""


def make_experiment(estimator: Any, groups_given: bool) -> Experiment:
    """Return the experiment of an estimator's parameters.

    Args:
        estimator: a ``FederatedClassifier``.
        groups_given: whether the user gave sensitive features.

    """
    method = find_method(estimator.algorithm)
    if estimator.target is not None and "target" not in method.knobs:
        raise ConfigError(
            f"target={estimator.target}: {method.name} cannot be trained to a disparity. Leave it "
            "out, or choose FedFBClassifier."
        )
    # Where all rows are one group, no decision depends on it, and there is no choice to make.
    reads_group = estimator.sensitive_at_prediction if groups_given else estimator.by_group
    values = {
        "data": SOURCE,
        "algorithm": estimator.algorithm,
        "notion": estimator.notion or method.notions[0],
        "target": () if estimator.target is None else (estimator.target,),
        "model": estimator.model,
        "hidden": tuple(estimator.hidden),
        "variant": estimator.variant,
        "knobs": tuple(f"{name}={value}" for name, value in (estimator.knobs or {}).items()),
        "lr": () if estimator.lr is None else (estimator.lr,),
        "rounds": estimator.rounds,
        "local_epochs": estimator.local_epochs,
        "batch": estimator.batch,
        "sensitive_at_prediction": reads_group,
        "seeds": (int(estimator.random_state),),
    }
    return Experiment(**{**values, **(estimator.settings or {})})


def parameters_of(experiment: Experiment) -> dict[str, Any]:
    """Return the parameters of the estimator for an experiment of one setting."""
    names = ("notion", "model", "hidden", "variant", "rounds", "local_epochs", "batch")
    return {
        **{name: getattr(experiment, name) for name in names},
        "sensitive_at_prediction": experiment.sensitive_at_prediction,
        "random_state": experiment.seeds[0],
    }


def make_federation(
    table: Table,
    label: Array,
    positive: Any,
    sensitive: Any,
    client: Any,
    experiment: Experiment,
) -> Federation:
    """Make a federation of the rows. The test rows are the training rows, as there are no others.

    Args:
        table: features.
        label: label of each row.
        positive: the favourable label.
        sensitive: sensitive features; None: all rows are one group.
        client: client of each row; None: there is one client.
        experiment: settings of the training.

    """
    features, rows = tuple(table.columns), np.arange(len(table))
    groups = {_choose_free_name("group", features): Words.of([_EVERYBODY] * len(rows))}
    if sensitive is not None:
        groups = sensitive_columns(sensitive, features)
    name = _choose_free_name("label", (*features, *groups))
    words = Words.of(as_text(value) or "" for value in label.tolist())
    names = Words.of([_EVERYBODY] * len(rows)) if client is None else client_names(client)
    clients = by_column(names)
    schema = Schema(
        (
            *(
                ColumnSchema(column, "feature", _read_kind(cells))
                for column, cells in table.columns.items()
            ),
            *(ColumnSchema(column, "sensitive", "category") for column in groups),
            ColumnSchema(name, "label", "category", positive=as_text(positive) or ""),
        ),
        crossed=tuple(groups),
        source=SOURCE,
        steps=experiment.features != "plain",
    )
    source = Source(
        SOURCE,
        Table({**table.columns, **groups, name: words}, SOURCE),
        train=rows,
        test=rows,
        label=name,
        positive=as_text(positive) or "",
        sensitive=tuple(groups),
        features=features,
        notes=(ON_TRAINING_ROWS,),
    )
    federation = federate(
        source,
        clients,
        sensitive_at_prediction=experiment.sensitive_at_prediction,
        learn=by_sums(make_add(experiment, None, experiment.seeds[0]), schema),
    )
    labels = labels_of(experiment.notion)
    return settle_small_groups(federation, experiment.minimum_group, experiment.rest, labels)


def _read_kind(cells: Array | Words) -> Kind:
    return "category" if isinstance(cells, Words) else "number"


def _choose_free_name(name: str, names: tuple[str, ...]) -> str:
    """Return the name, with underscores added where a column has the name already."""
    return name if name not in names else _choose_free_name(f"{name}_", names)


SOURCE = "the rows given"
"""Name of the table in error messages."""


def is_data_frame(data: Any) -> bool:
    """Return whether data are a frame of pandas or polars: columns with names."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def feature_table(X: Any, training: bool) -> Table:
    """Return features as a table. The columns of an array are called x0, x1, ...

    Columns of text are read as files are.

    Args:
        X: an array of numbers, or a frame.
        training: whether these are training rows. Their cells decide whether a column of text holds
            numbers; later the encoder knows.

    """
    if not is_data_frame(X):
        columns = {f"x{number}": column for number, column in enumerate(X.T)}
        return Table({name: column.astype(np.float64) for name, column in columns.items()}, SOURCE)
    names = clean_names(X.columns)
    check_names(SOURCE, names)
    columns = {
        name: _read_numbers(X[column]) for name, column in zip(names, X.columns, strict=True)
    }
    text = {n: X[column] for n, column in zip(names, X.columns, strict=True) if columns[n] is None}
    if text:
        cells = columns_of(SOURCE, text)
        columns |= (typed([cells])[0] if training else cells.as_text()).columns
    table = Table({name: cells for name, cells in columns.items() if cells is not None}, SOURCE)
    if training:
        _refuse_suspects(table)
    return table


def _refuse_suspects(table: Table) -> None:
    """Refuse columns that are no features, as for files: identifiers, dates, free text."""
    for name, cells in table.columns.items():
        # A column with fractions is measured: no identifier or date looks like it.
        is_number = not isinstance(cells, Words)
        measured = is_number and bool(np.any(cells % 1 > 0))
        column = SourceColumn.of(cells if is_number else cells.tolist())
        reason = None if measured else suspicion(name, [column])
        if reason:
            raise DataError(f"{SOURCE}: column {name!r} {reason.what}. Leave it out of X.")


def _read_numbers(column: Any) -> Array | None:
    """Return a column of numbers as float64; None for a column of anything else."""
    values = np.asarray(column)
    return values.astype(np.float64) if values.dtype.kind in "fiu" else None


def sensitive_columns(sensitive: Any, features: Sequence[str] = ()) -> dict[str, Words]:
    """Return sensitive features by name, as text.

    Args:
        sensitive: a frame, an array or a list.
        features: names of features. A sensitive column of the same name is called "sensitive NAME".

    >>> {name: cells.tolist() for name, cells in sensitive_columns([0, 1]).items()}
    {'sensitive_feature': ['0', '1']}
    """
    frame = sensitive if is_data_frame(sensitive) else _name_columns(sensitive)
    columns = columns_of(SOURCE, frame).as_text().columns
    return {f"sensitive {n}" if n in features else n: cells for n, cells in columns.items()}


def _name_columns(sensitive: Any) -> dict[str, Any]:
    values = np.asarray(sensitive)
    if values.ndim == 1:
        return {getattr(sensitive, "name", None) or "sensitive_feature": sensitive}
    if values.shape[1] == 1:
        return {"sensitive_feature": values[:, 0]}
    return {f"sensitive_feature_{i}": column for i, column in enumerate(values.T)}


def same_columns(sensitive: Any, names: Sequence[str]) -> dict[str, Words]:
    """Return sensitive features under their names of training.

    Args:
        sensitive: a frame, an array or a list.
        names: names of training. Columns are matched by name, or else by position.

    """
    columns = sensitive_columns(sensitive)
    by_plain_name = {name.removeprefix("sensitive "): name for name in names}
    if set(columns) == set(by_plain_name):
        return {by_plain_name[name]: cells for name, cells in columns.items()}
    if len(columns) != len(names):
        raise DataError(
            f"{SOURCE}: sensitive_features has {len(columns)} columns ({', '.join(columns)}), in "
            f"training there were {len(names)}: {', '.join(by_plain_name)}. Give the same ones."
        )
    return dict(zip(names, columns.values(), strict=True))


def client_names(client: Any) -> Words:
    """Return the name of every row's client as text. Every row needs a client."""
    names = columns_of(SOURCE, {"client": client}).as_text().text("client")
    missing = int((names == "").sum())
    if missing:
        raise DataError(
            f"{SOURCE}: the client is missing in {missing} of {len(names)} rows. Name the "
            "client of these rows, or leave them out."
        )
    return names


def check_two_labels(y: Any, name: str) -> Array:
    """Return labels as an array.

    Args:
        y: labels, as the user gave them.
        name: name of the classifier, for messages.

    Raises:
        ValueError: the labels are not of two classes.

    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    label: Array = column_or_1d(y, warn=True)
    assert_all_finite(label, input_name="y")
    check_classification_targets(label)
    kind = type_of_target(label, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    if len(set(label.tolist())) < 2:
        raise ValueError(
            f"{name} needs rows of two classes, and y has one class only: {label.tolist()[0]!r}."
        )
    return label


def choose_favourable(classes: Array, positive: Any) -> Any:
    """Return the favourable one of two labels.

    Args:
        classes: the two labels.
        positive: the favourable one, as the user named it; None: the second.

    """
    if positive is None:
        return classes[1]
    if positive not in classes:
        raise ConfigError(
            f"positive={positive!r} is not one of the labels, which are {classes.tolist()}. Name "
            "the favourable one of them."
        )
    return positive
