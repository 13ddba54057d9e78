"""A silo's rows: read and checked by the study's schema, and as the model of a phase reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.algorithms import find_method
from fedfb.core import ClientData, Examples
from fedfb.data.check import labels, refuse_infinite, refuse_vast
from fedfb.data.columns import CategoryColumn
from fedfb.data.conform import tables_of
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder
from fedfb.data.federation import hold_out_of
from fedfb.data.groups import Groups
from fedfb.data.read import read_rows
from fedfb.data.schema import Schema
from fedfb.data.table import Table
from fedfb.errors import ConfigError, DisclosureError
from fedfb.experiments.resolve import picks_rate
from fedfb.experiments.tune import HELD_OUT
from fedfb.flower.study import Study
from fedfb.flower.trial import ACHIEVABLE, TUNE, Trial, largest_encoder, make_trial
from fedfb.flower.wire import pack_values, unpack_values


@dataclass(frozen=True)
class Prepared:
    """A silo's rows as the model of a phase reads them, and what the silo was told of it."""

    told: str
    phase: str
    encoder: Encoder
    data: ClientData
    trial: Trial


def read_table(schema: Schema, path: str | Path) -> Table:
    """Read a silo's file and refuse what does not fit the schema, as fedfb run --schema does."""
    [raw] = tables_of([read_rows(path)], None, schema)
    table = derive(raw, schema.derived)
    labels(table, schema.label.name, schema.label.positive)
    Groups(schema.crossed, schema.group_names).group_of(table)
    return table


def told_of(phase: str, encoder: Encoder, rates: tuple[float, ...] = ()) -> str:
    """Write what silos are told of a phase: how rows are encoded, and rates that were picked."""
    return pack_values({"phase": phase, "encoder": encoder.to_dict(), "rates": list(rates)})


def prepared(study: Study, id: int, train: Table, test: Table, told: str) -> Prepared:
    """Encode a silo's rows with what was learnt of all columns."""
    values = unpack_values(told)
    phase, encoder = values["phase"], Encoder.from_dict(values["encoder"])
    _refuse_other(study, phase, encoder, values)
    x, y, group = encoded(study, encoder, train)
    data = ClientData(id, x, y, group, len(encoder.groups.names))
    x, y, group = encoded(study, encoder, test)
    judged = Examples(x, y, group, np.full(len(y), id, np.int64))
    if phase == TUNE:
        data, judged = hold_out_of(data, HELD_OUT, study.seed)
    trial = make_trial(study, encoder, phase, values["rates"], judged)
    return Prepared(told, phase, encoder, data.read_only(), trial)


def encoded(study: Study, encoder: Encoder, table: Table) -> tuple[Any, Any, Any]:
    """Return features, labels and groups of rows."""
    group = encoder.groups.group_of(table)
    refuse_vast(table, encoder.columns)
    x = encoder.encode(table, group)
    refuse_infinite(x, encoder.feature_names, table)
    y = labels(table, encoder.label, encoder.positive)
    return x.astype(study.experiment.precision), y, group


def _refuse_other(study: Study, phase: str, encoder: Encoder, values: Mapping[str, Any]) -> None:
    """Refuse what does not follow from the study, to which this silo has agreed."""
    experiment = study.experiment
    if phase == ACHIEVABLE and not study.achievable:
        raise DisclosureError(
            "the coordinator asks for the spread of this silo's scores, and the study does not "
            "allow it."
        )
    rates = find_method(experiment.algorithm).learning_rates if picks_rate(experiment) else ()
    most = largest_encoder(study.schema, experiment.sensitive_at_prediction)
    categories = {c.name: set(c.categories) for c in most.columns if isinstance(c, CategoryColumn)}
    same = ("label", "positive", "sensitive_at_prediction", "derived")
    fits = (
        set(values["rates"]) <= set(rates)
        and all(getattr(encoder, name) == getattr(most, name) for name in same)
        and [column.name for column in encoder.columns] == [c.name for c in most.columns]
        and set(encoder.groups.names) <= set(most.groups.names)
        and all(
            set(column.categories) <= categories.get(column.name, set())
            for column in encoder.columns
            if isinstance(column, CategoryColumn)
        )
    )
    if not fits:
        raise ConfigError(
            "the coordinator's way to encode rows is not that of the study's schema. It runs "
            "another version, or another study: compare both."
        )
