"""What an estimator trains: its parameters as an experiment, the rows given as a federation."""

from typing import Any

import numpy as np

from fedfb.algorithms import find_method
from fedfb.data.federation import Federation, federate, settle_small_groups
from fedfb.data.fit_silos import by_sums
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.partition import by_column
from fedfb.data.schema import ColumnSchema, Kind, Schema
from fedfb.data.table import Table
from fedfb.data.values import as_text
from fedfb.errors import ConfigError
from fedfb.estimator.rows import SOURCE, client_names, sensitive_columns
from fedfb.experiments.secure import make_add
from fedfb.experiments.spec import Experiment
from fedfb.shapes import Array

EVERYBODY = "all"
"""The only group, and the only client, where none are given."""


def make_experiment(estimator: Any, groups_given: bool) -> Experiment:
    """Return the experiment that an estimator's parameters stand for."""
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
    """Return the parameters of an estimator that stands for an experiment of one setting."""
    same = ("notion", "model", "hidden", "variant", "rounds", "local_epochs", "batch")
    return {
        **{name: getattr(experiment, name) for name in same},
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
    """Give every client its rows; the report is on the same ones, for want of others."""
    features, rows = tuple(table.columns), np.arange(len(table))
    groups = {_free("group", features): np.full(len(rows), EVERYBODY, object)}
    if sensitive is not None:
        groups = sensitive_columns(sensitive, features)
    name = _free("label", (*features, *groups))
    words = np.array([as_text(value) for value in label.tolist()], object)
    owner = np.full(len(rows), EVERYBODY, object) if client is None else client_names(client)
    owners = by_column(owner)
    schema = Schema(
        (
            *(ColumnSchema(own, "feature", _kind(cells)) for own, cells in table.columns.items()),
            *(ColumnSchema(column, "sensitive", "category") for column in groups),
            ColumnSchema(name, "label", "category", positive=as_text(positive) or ""),
        ),
        crossed=tuple(groups),
        source=SOURCE,
    )
    federation = federate(
        SOURCE,
        Table({**table.columns, **groups, name: words}, SOURCE),
        label=name,
        positive=as_text(positive) or "",
        sensitive=tuple(groups),
        features=features,
        train=rows,
        test=rows,
        client=owners.client,
        client_names=owners.names,
        sensitive_at_prediction=experiment.sensitive_at_prediction,
        notes=(ON_TRAINING_ROWS,),
        learn=by_sums(make_add(experiment, None, experiment.seeds[0]), schema),
    )
    return settle_small_groups(federation, experiment.minimum_group, experiment.rest)


def _kind(cells: Array) -> Kind:
    return "number" if cells.dtype.kind == "f" else "category"


def _free(name: str, taken: tuple[str, ...]) -> str:
    """Return the name, longer where a column already has it."""
    return name if name not in taken else _free(f"{name}_", taken)
