"""How a trained model decides: its rule as plain arrays, counts of its scores, and decided files.

Estimators and exported models keep a ``Rule``. ``fedfb achievable`` asks clients for histograms of
the scores of a model that was trained without fairness. ``fedfb predict`` decides a file part by
part, so that memory does not grow with the file.
"""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedfb.algorithms.baselines.lft import VARIANTS, Mixing, mix
from fedfb.algorithms.fedfb.calibration import apply_maps
from fedfb.algorithms.fedfb.threshold_rules import histogram_task, look_up
from fedfb.core import Arrays, ClientData, ClientTask, Examples, Key, Prediction
from fedfb.data.encode import Unknown, encode_cells, raw_columns
from fedfb.data.schema_file import dialects_of
from fedfb.engine import Engine, choose_engine
from fedfb.errors import ConfigError
from fedfb.experiments.resolve import resolve
from fedfb.experiments.run_folder import SavedModel
from fedfb.experiments.spec import Experiment, Resolved
from fedfb.experiments.train import Fitted
from fedfb.files import replacing
from fedfb.models import Model, make_model
from fedfb.shapes import Array, Bool, Float, Int
from fedfb.tables.address import Database, find_source
from fedfb.tables.dialect import DETECT, Dialect
from fedfb.tables.stream import read_parts

CALIBRATED = "calibrated"
DECIDED_COLUMNS = ("score", "decision", CALIBRATED)
"""The columns of the output, after those that are copied; the last one if it is asked for."""

_PARQUET = (".parquet", ".pq")


class DecidedRows(NamedTuple):
    """Decisions on some rows, the copied columns in Arrow, and what training did not have.

    ``notes`` are sentences about how the rows were read. ``calibrated`` are probabilities.
    """

    prediction: Prediction
    copies: dict[str, Any]
    unknown: Unknown
    notes: tuple[str, ...]
    calibrated: Array | None = None

    @property
    def columns(self) -> dict[str, Array]:
        """The columns of the output, after those that are copied."""
        columns = {"score": self.prediction.score[0], "decision": self.prediction.decision[0]}
        return columns if self.calibrated is None else {**columns, CALIBRATED: self.calibrated}


class DecidedTotal(NamedTuple):
    """How many rows were decided, the rows with what training did not have, and notes."""

    rows: int
    unknown: dict[str, Counter[str]]
    notes: tuple[str, ...]


def decide_parts(
    model: SavedModel,
    path: str | Path | Database,
    copied: Sequence[str] = (),
    client: str | None = None,
    dialect: Dialect = DETECT,
    calibrated: bool = False,
) -> Iterator[DecidedRows]:
    """Decide the rows of a file, part by part.

    Args:
        model: the model.
        path: a CSV or Parquet file, or a database; '-' is standard input.
        copied: columns to copy.
        client: the client whose model decides, where each client has a model.
        dialect: how a text file is written, where it is not detected.
        calibrated: whether to add what each score stands for in the row's group. The group is then
            read, also where no decision depends on it.

    """
    if calibrated:
        model.refuse_uncalibrated()
    for name in DECIDED_COLUMNS if calibrated else DECIDED_COLUMNS[:-1]:
        if name in copied:
            raise ConfigError(
                f"--keep {name}: the output has a column {name!r} already. Rename the column of "
                "the file, or leave it out."
            )
    source = find_source(path)
    dialect = dialects_of(dialect, model.experiment.schema).of(source)
    for part in read_parts(source, raw_columns(model.encoder, calibrated), copied, dialect):
        rows = encode_cells(model.encoder, part.cells, with_group=calibrated)
        prediction = model.predict(rows, client)
        chances = model.calibrate(prediction, rows) if calibrated else None
        yield DecidedRows(prediction, part.copies, rows.unknown, rows.notes, chances)


def write_decisions(parts: Iterator[DecidedRows], out: Path | None) -> DecidedTotal:
    """Write decisions as CSV or, by the suffix, as Parquet. After an error there is no file.

    Args:
        parts: the decisions.
        out: the file; None: standard output.

    """
    is_parquet = out is not None and out.suffix.lower() in _PARQUET
    rows, unknown, notes = 0, dict[str, Counter[str]](), dict[str, None]()
    writer: Any = None
    with nullcontext() if out is None else replacing(out) as file:
        for part in parts:
            if is_parquet:
                writer = _write_parquet(writer, file, part)
            else:
                lines = _write_csv(part, with_header=not rows)
                # A notebook's stdout takes text only.
                sys.stdout.write(lines.decode()) if file is None else file.write(lines)
            rows += len(part.columns["score"])
            for name, counts in part.unknown.items():
                unknown.setdefault(name, Counter()).update(counts)
            notes |= dict.fromkeys(part.notes)
        if writer is not None:
            writer.close()
    return DecidedTotal(rows, unknown, tuple(notes))


def _write_parquet(writer: Any, file: Any, part: DecidedRows) -> Any:
    """Write rows, and return the writer, which is made with the first rows."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({**part.copies, **part.columns})
    if writer is None:
        writer = parquet.ParquetWriter(file, table.schema)
    writer.write_table(table.cast(writer.schema))
    return writer


def _write_csv(part: DecidedRows, with_header: bool) -> bytes:
    from fedfb.tables.cells import as_text

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator="\n")
    if with_header:
        writer.writerow([*part.copies, *part.columns])
    copies = [[as_text(value) for value in column.to_pylist()] for column in part.copies.values()]
    columns = [
        [format(value, "g" if name == "decision" else ".6f") for value in column.tolist()]
        for name, column in part.columns.items()
    ]
    writer.writerows(zip(*copies, *columns, strict=True))
    return lines.getvalue().encode()


def describe_unknown(unknown: dict[str, Counter[str]], rest: str | None = None) -> Iterator[str]:
    """Yield a sentence for the groups, and for each column, that hold what training did not have.

    Args:
        unknown: rows of each value, by column; '' stands for the groups.
        rest: name of the group that unknown groups count as; None: there is none.

    >>> list(describe_unknown({"town": Counter(ham=2)}))
    ["2 rows have a value of 'town' that training did not have (ham): it counts as no category"]
    """
    rule = "decided without group, at the plain threshold"
    if rest is not None:
        rule = f"it counts as {rest!r}, which small groups were merged into"
    for name, counts in unknown.items():
        if not counts:
            continue
        rows, most = (
            counts.total(),
            ", ".join(value or "missing" for value, _ in counts.most_common(5)),
        )
        values = most + (f" and {len(counts) - 5} more" if len(counts) > 5 else "")
        has = f"{rows} row{'s have' if rows > 1 else ' has'}"
        yield (
            f"{has} a value of {name!r} that training did not have ({values}): it counts as no "
            "category"
            if name
            else f"{has} a group that training did not have ({values}): {rule}"
        )


NOBODY = -1
"""The client of rows that belong to none."""

_PROBES = 64
"""Random rows on which a rule is compared with the method's own decisions."""


@dataclass(frozen=True)
class Rule:
    r"""One or more networks and what is made of their scores.

    .. math:: s=\frac{\sum_m w_m\,\sigma(z_m)}{\sum_m w_m},\qquad
              P(\hat y=1)=\begin{cases}C_{a,\lfloor sK\rfloor}&\text{with thresholds by group}\\
              \text{the mixture of the members' decisions}&\text{else}\end{cases}

    One model is a mixture of one. ``chance`` is :math:`C`, by group and bin of the score; a single
    group stands for all rows: a common cut. ``calibration`` are the maps of
    ``fedfb.algorithms.fedfb.calibration``.
    """

    network: Model
    precision: str
    members: Float[Array, "m p"]
    weights: Float[Array, " m"]
    mixing: Mixing = "randomised"
    chance: Float[Array, "a k"] | None = None
    calibration: Float[Array, "b 2"] | None = None

    def logits(self, x: Float[Array, "n d"]) -> Float[Array, "m n"]:
        """Return every member's logit of every row."""
        engine = choose_engine("auto", self.network, np.dtype(self.precision))
        return engine.logits(self.members, x)

    def decide(self, x: Float[Array, "n d"], group: Int[Array, " n"]) -> Prediction:
        """Score and decide rows; the group (-1: unknown) matters only where thresholds differ."""
        with np.errstate(all="ignore"):
            prediction = mix(self.logits(x)[:, None], self.weights, self.mixing)
        if self.chance is None:
            return prediction
        return Prediction(prediction.score, look_up(self.chance[None], group, prediction.score))

    def calibrate(
        self, score: Float[Array, " n"], group: Int[Array, " n"]
    ) -> Float[Array, " n"] | None:
        """Return the probability that each score stands for; None if none was learnt."""
        return None if self.calibration is None else apply_maps(self.calibration, group, score)

    @property
    def bins(self) -> int:
        """The number of bins of the scores; 0 without thresholds."""
        return 0 if self.chance is None else self.chance.shape[1]

    @property
    def needs_group(self) -> bool:
        """Whether a decision needs the group of a row."""
        return self.chance is not None and len(self.chance) > 1


def rule_of(
    experiment: Resolved, fitted: Fitted, inputs: int, run: int = 0, client: int = NOBODY
) -> Rule:
    """Return how one run of a fitted method decides.

    The rule is compared with the method's own decisions on random rows. A method whose decisions
    have another form, such as one from a plugin, is refused.

    Args:
        experiment: what was trained.
        fitted: the trained runs.
        inputs: number of features.
        run: the place of the run on the run axis.
        client: id of a client, for a method with a model for each client.
    """
    state, memories, _ = fitted.trained
    members, weights = _members(fitted, run, memories.get(client, {}))
    rule = Rule(
        make_model(experiment.model, inputs, experiment.hidden),
        experiment.precision,
        members,
        weights,
        _mixing(experiment),
        state.chance[run] if "chance" in state._fields else None,
        state.calibration[run] if "calibration" in state._fields else None,
    )
    _refuse_other_decisions(rule, fitted, run, client, experiment.algorithm)
    return rule


def _members(
    fitted: Fitted, run: int, memory: Arrays
) -> tuple[Float[Array, "m p"], Float[Array, " m"]]:
    """Return the parameters of the networks that decide, and their weights."""
    state = fitted.trained.state
    full_weight = np.ones(1)
    if "members" in state._fields:
        return state.members[run], state.weights
    if "personal" in memory:
        return memory["personal"][run][None], full_weight
    if "best" in state._fields and np.isfinite(state.distance[run]):
        return state.best[run][None], full_weight
    params = fitted.algorithm.params(state)
    if params is None:
        raise ConfigError(
            f"{fitted.algorithm.name} has no model that all rows are decided by, so there is none "
            "to hand over. Train with a method of one common model (fedfb list)."
        )
    return params[run][None], full_weight


def _mixing(experiment: Resolved) -> Mixing:
    """Return how members are mixed; for one model it does not matter."""
    of_members = experiment.algorithm == "lft-ensemble"
    return VARIANTS[str(experiment.variant)] if of_members else "randomised"


def _refuse_other_decisions(
    rule: Rule, fitted: Fitted, run: int, client: int, algorithm: str
) -> None:
    """Refuse a rule that does not decide random rows as its method does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_PROBES, rule.network.inputs))
    groups = 1 if rule.chance is None else len(rule.chance)
    group, nothing = np.arange(_PROBES) % groups, np.zeros(_PROBES, np.int64)
    score, decision = fitted.predict(Examples(x, nothing, group, np.full(_PROBES, client)))
    prediction = rule.decide(x, group)
    same = np.array_equal(prediction.decision[0], decision[run])
    if not same or not np.allclose(prediction.score[0], score[run], rtol=0, atol=1e-9):
        raise ConfigError(
            f"{algorithm} decides in a way of its own, not by a common network with thresholds, so "
            "its model cannot be taken out. Use fedfb predict on the folder of its run."
        )


POPULATION_BINS = 200
"""Bins of the score, from 0 to 1."""

FEWEST_SCORES = 30
"""A group with rows, but fewer than this, is too small to estimate the law of its scores."""


def without_fairness(experiment: Experiment) -> Resolved:
    """Return what trains the model whose scores are counted: FedAvg, otherwise as declared."""
    usual = Experiment()
    of_method = (
        *("alpha", "target", "cost", "outer", "knobs", "variant", "notion", "participation", "cut"),
    )
    plain: dict[str, Any] = {name: getattr(usual, name) for name in of_method}
    return resolve(replace(experiment, algorithm="fedavg", **plain))


def scores_task(engine: Engine) -> ClientTask:
    """Ask every client for the histogram of its scores, by label and group, and its id."""
    counting = histogram_task(engine, POPULATION_BINS)

    def run(broadcast: Arrays, data: ClientData, memory: Arrays, key: Key) -> tuple[Arrays, Arrays]:
        upload, memory = counting.run(broadcast, data, memory, key)
        return {**upload, "client": np.array(data.id)}, memory

    return ClientTask("scores", "gather", run)


def tiny(counts: Float[Array, "*i a k"]) -> Bool[Array, "*i a"]:
    """Return which groups of each client have rows, but too few.

    >>> tiny(np.array([[3.0, 2.0], [0.0, 0.0], [20.0, 30.0]])).tolist()
    [True, False, False]
    """
    rows = counts.sum(axis=-1)
    few: Bool[Array, "*i a"] = (rows > 0) & (rows < FEWEST_SCORES)
    return few


def withheld(upload: Arrays) -> Arrays:
    """Return a client's upload with zeros for its counts, if one of its groups is tiny."""
    by_group = upload["rows"].sum(axis=(0, 1))
    return {**upload, "rows": 0.0 * upload["rows"]} if tiny(by_group).any() else upload
