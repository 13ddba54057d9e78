"""A model outside the folder of its run: encoder, rule of decision, and origin.

An exported model is compared with ours on drawn rows: a run's folder holds no rows.
"""

import re
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from fedfb import __version__
from fedfb.core import Prediction
from fedfb.data.columns import NumberColumn
from fedfb.data.dates import Dates
from fedfb.data.derive import Bins, Blank, derive
from fedfb.data.encode import Encoder, RawRows, Reading, reading
from fedfb.data.groups import Groups, groups_in, values_of
from fedfb.engine import sigmoid
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.result import Result
from fedfb.experiments.rule import NOBODY, Rule, rule_of
from fedfb.experiments.run_folder import SavedModel, load_model, read_result
from fedfb.experiments.spec import Experiment
from fedfb.models import Network
from fedfb.notions import long_name
from fedfb.shapes import Array, Bool
from fedfb.tables.table import Table


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
        """Return raw rows as numbers.

        Where no decision needs the group, the group is 0. A group that training did not have is -1.
        """
        table = derive(table, self.reading.rules)
        group = np.zeros(len(table), np.int64)
        if self.needs_group:
            group = self.encoder.groups.look_up(table).group
        return RawRows(self.encoder.encode(table, group), group)

    def decide(self, table: Table) -> Prediction:
        """Score and decide raw rows."""
        x, group = self.encode(table)[:2]
        return self.rule.decide(x, np.zeros(len(x), np.int64) if group is None else group)


def take_over(
    folder: Path,
    seed: int | None = None,
    setting: int = 0,
    client: str | None = None,
    trust_code: bool = False,
) -> HandOver:
    """Read a model from a run's folder.

    Args:
        folder: folder of the run.
        seed: seed of the model; None: the run's first.
        setting: number of the setting in a grid.
        client: whose model, where every client has a model of its own.
        trust_code: run the function that a torch model names.

    """
    saved = load_model(folder, seed, setting, trust_code)
    experiment = saved.experiment
    number = _find_client(client, saved.clients, saved.is_personal)
    inputs = len(saved.encoder.feature_names)
    handover = HandOver(
        saved.encoder,
        rule_of(experiment, saved.fitted, inputs, saved.run, number),
        experiment,
        saved.clients,
        about(saved.encoder, experiment, saved.fitted.seed, client),
        _read_result(folder, saved),
    )
    _refuse_dates(handover.reading)
    return handover


def _refuse_dates(reading: Reading) -> None:
    for rule in reading.rules:
        if isinstance(rule, Dates):
            raise ConfigError(
                f"column {rule.source!r} is a date, and an exported model cannot derive its "
                f"{rule.quantity}. Decide with fedfb predict, or write the number into a column "
                "of its own and train again."
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


_TOLERANCE = 1e-6
"""Largest difference of scores from ours: our engine adds up in float32."""

MADE_UP_ROWS = 200
UNSEEN = "a value nobody has seen"


def made_up_rows(hand: HandOver) -> Table:
    """Draw raw rows: numbers around their mean, all categories and groups, unknown and missing."""
    rng = np.random.default_rng(0)
    columns = hand.reading.columns
    cells = {name: _draw_cells(hand, name, number, rng) for name, number in columns.items()}
    return Table(cells, "rows made up to compare")


def _draw_cells(hand: HandOver, name: str, number: bool, rng: np.random.Generator) -> Array:
    if not number:
        return rng.choice(np.array([*_list_words(hand, name), "", UNSEEN], object), MADE_UP_ROWS)
    for column in hand.encoder.columns:
        if isinstance(column, NumberColumn) and column.name == name:
            values = rng.normal(column.mean, 2 * column.sd, MADE_UP_ROWS)
            return np.where(rng.random(MADE_UP_ROWS) < 0.1, np.nan, values)
    edges = next(r.edges for r in hand.reading.rules if isinstance(r, Bins) and r.source == name)
    wide = edges[-1] - edges[0] + 1.0
    return np.round(rng.uniform(edges[0] - wide, edges[-1] + wide, MADE_UP_ROWS))


def _list_words(hand: HandOver, name: str) -> list[str]:
    """Return all values that the model knows of a raw column, or of columns derived from it."""
    makes = {rule.target for rule in hand.reading.rules if rule.source == name} | {name}
    words: set[str] = set()
    for column in hand.encoder.columns:
        if column.name in makes and not isinstance(column, NumberColumn):
            words.update(column.categories)
    for rule in hand.reading.rules:
        if rule.source == name and not isinstance(rule, Bins | Blank | Dates):
            words.update(rule.values)
    groups = hand.encoder.groups
    for place, column_name in enumerate(groups.columns):
        if hand.needs_group and column_name in makes:
            words.update(cells[place] for cells in cells_of_groups(groups))
    return sorted(words)


def between_values(columns: tuple[str, ...]) -> list[str]:
    """Return the text before, between and after the values of columns in a group's name."""
    marks = [f"\0{place}\0" for place in range(len(columns))]
    table = Table({n: np.array([m], object) for n, m in zip(columns, marks, strict=True)})
    [name] = groups_in(table, columns).names
    return re.split("\0\\d+\0", name)


def cells_of_groups(groups: Groups) -> list[tuple[str, ...]]:
    """Return the values of the sensitive columns of each group, also of merged ones."""
    names = (*groups.names, *groups.merged)
    return [cells for name in names if (cells := values_of(groups.columns, name)) is not None]


def refuse_difference(hand: HandOver, table: Table, prediction: Prediction, form: str) -> None:
    """Refuse an exported model whose scores or decisions differ from ours.

    Decisions may differ where rounding decides.

    Args:
        hand: our model.
        table: raw rows.
        prediction: scores and decisions of the exported model on these rows.
        form: name of the exported form, for the message.

    """
    expected = hand.decide(table)
    far = float(np.max(np.abs(expected.score - prediction.score), initial=0.0))
    differ = np.abs(expected.decision - prediction.decision)[0] > _TOLERANCE
    wrong = int((differ & ~on_an_edge(hand, table)).sum())
    if not far <= _TOLERANCE or wrong:
        raise ConfigError(
            f"the {form} does not decide as the model does: scores are off by up to {far:g}, and "
            f"{wrong} of {len(table)} decisions differ. Nothing was written; please report this."
        )


def on_an_edge(hand: HandOver, table: Table) -> Bool[Array, " n"]:
    """Return the rows so near to a threshold that rounding decides."""
    bins = hand.rule.bins or 2
    place = bins * sigmoid(hand.rule.logits(hand.encode(table).x))
    place = np.vstack([place, bins * hand.decide(table).score])
    edge = np.round(place)
    near = np.abs(place - edge) <= _TOLERANCE * bins
    return np.any(near & (edge > 0) & (edge < bins), axis=0)
