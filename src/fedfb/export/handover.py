"""A model outside the folder of its run: encoder, rule of decision, and origin."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from fedfb import __version__
from fedfb.core import Prediction
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder, RawRows, Reading, reading
from fedfb.data.table import Table
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Result
from fedfb.experiments.rule import NOBODY, Rule, rule_of
from fedfb.experiments.run_folder import SavedModel, load_model, read_experiment, read_result
from fedfb.experiments.spec import Experiment
from fedfb.models import Network
from fedfb.notions import long_name


class HandOver(NamedTuple):
    """A model outside the folder of its run.

    ``about`` describes the model to its receivers. ``result`` is the run's result, reduced to this
    model. Its list of runs is empty for the model that a fair one is compared with.
    """

    encoder: Encoder
    rule: Rule
    experiment: Experiment
    clients: tuple[str, ...]
    about: dict[str, str]
    result: Result

    @property
    def needs_group(self) -> bool:
        """Whether a decision needs the group."""
        return self.encoder.sensitive_at_prediction or self.rule.needs_group

    @property
    def reading(self) -> Reading:
        """The raw columns that a decision needs, and the rules applied to them."""
        return reading(self.encoder, group=self.needs_group)

    def encode(self, table: Table) -> RawRows:
        """Return raw rows as numbers. Where no decision needs the group, the group is 0."""
        table = derive(table, self.reading.rules)
        group = np.zeros(len(table), np.int64)
        if self.needs_group:
            group = self.encoder.groups.group_of(table)
        return RawRows(self.encoder.encode(table, group), group)

    def decide(self, table: Table) -> Prediction:
        """Score and decide raw rows."""
        rows = self.encode(table)
        group = np.zeros(len(rows.x), np.int64) if rows.group is None else rows.group
        return self.rule.decide(rows.x, group)


def take_over(
    folder: Path, seed: int | None = None, setting: int = 0, client: str | None = None
) -> HandOver:
    """Read a model from a run's folder.

    Args:
        folder: folder of the run.
        seed: seed of the model; None: the run's first.
        setting: number of the setting in a grid.
        client: whose model, where every client has a model of its own.

    """
    saved = load_model(folder, seed, setting)
    experiment = resolve(read_experiment(folder))
    number = _find_client(client, saved.clients, saved.is_personal)
    inputs = len(saved.encoder.feature_names)
    return HandOver(
        saved.encoder,
        rule_of(experiment, saved.fitted, inputs, saved.run, number),
        experiment,
        saved.clients,
        about(saved.encoder, experiment, saved.fitted.seed, client),
        _read_result(folder, saved),
    )


def layers_of(rule: Rule) -> Network:
    """Return the network of a rule. A torch module is refused, as it has no list of layers."""
    if isinstance(rule.network, Network):
        return rule.network
    raise ConfigError(
        f"the model is built by {rule.network.name}, and fedfb cannot export the layers of a torch "
        "module. Export it --to skops, for readers who have that function, or take the "
        "trained module out and export it with torch (docs/torch.md)."
    )


def _find_client(client: str | None, clients: tuple[str, ...], personal: bool) -> int:
    """Return the number of the client whose model is exported; NOBODY for the model of all."""
    if client is None and personal:
        raise ConfigError(
            "every client has a model of its own here, and one model can be exported. Name its "
            f"client: --client, one of {', '.join(clients)}."
        )
    if client is None:
        return NOBODY
    if client not in clients:
        raise ConfigError(unknown_name("client", client, clients))
    if not personal:
        raise ConfigError(
            f"--client {client}: there is one model for all clients here. Leave --client out."
        )
    return clients.index(client)


def about(
    encoder: Encoder, experiment: Experiment, seed: int, client: str | None = None
) -> dict[str, str]:
    """Return the description that travels with a model.

    Args:
        encoder: encoder of the model.
        experiment: settings of the training.
        seed: seed of the training.
        client: client whose own model it is, if any.

    """
    return {
        "made by": f"fedfb {__version__}",
        "algorithm": experiment.algorithm,
        "notion": long_name(experiment.notion),
        "label": encoder.label,
        "positive": encoder.positive,
        "sensitive columns": ", ".join(encoder.groups.columns),
        "groups": "; ".join(encoder.groups.names),
        "group given to the model": "yes" if encoder.sensitive_at_prediction else "no",
        "seed": str(seed),
        "experiment": experiment.hash,
        **({} if client is None else {"client": client}),
    }


def _read_result(folder: Path, saved: SavedModel) -> Result:
    expected = "the result as fedfb run --out wrote it: restore it from a copy, or train again"
    result = read_result(folder, expected)
    runs = tuple(run for run in result.runs if run.seed == saved.fitted.seed)
    return msgspec.structs.replace(result, runs=runs[saved.run : saved.run + 1])
