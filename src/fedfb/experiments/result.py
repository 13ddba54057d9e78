"""What experiments end in, as types: results of runs, comparisons and frontiers.

One codec writes them as JSON and reads them again (:func:`to_json`, :func:`from_json`). A field
without a default is always written, as null where there is no value; a field with a default is
written only where it has another value.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from fedfb.errors import DataError
from fedfb.extras import make_frame

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from pandas import DataFrame

SCHEMA = 2
"""The version of the JSON. It grows with every change that an older reader would not understand."""

WHAT_TO_DO = "Run it again with this version, or open it with the version that wrote it"

Interval = tuple[float, float]
"""The ends of a 95% interval."""

Setting = Mapping[str, float]
"""The values of a method's knobs, by name."""

ByNotion = Mapping[str, float | None]
"""A figure for each notion, None where it is not estimable."""


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that cannot be changed; its fields are its JSON."""


class Statistic(Value, frozen=True, kw_only=True):
    """Mean and standard deviation over seeds, None where not estimable, and maybe an interval.

    >>> Statistic(mean=0.5, std=None, ends=(0.4, 0.6)).interval
    (0.4, 0.6)
    """

    mean: float | None
    std: float | None
    ends: Interval | UnsetType | None = field(default=UNSET, name="interval")

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the mean; None where it is not estimable or not computed."""
        return None if isinstance(self.ends, UnsetType) else self.ends


class Estimate(Value, frozen=True, kw_only=True):
    """A mean over seeds with its 95% interval."""

    mean: float | None
    interval: Interval | None


class GroupRates(Value, frozen=True, kw_only=True):
    """What a model decides about one group of the test rows.

    ``n`` counts rows and ``positives`` those with a positive label. Rates are None where no row can
    tell them.
    """

    name: str
    n: int
    positives: int
    positive_rate: float | None
    tpr: float | None
    fpr: float | None
    accuracy: float | None


class ClientRates(Value, frozen=True, kw_only=True):
    """How good a model is on the test rows of one client.

    ``loss_variance`` is that of the mean loss, None where client parity leaves the client out.
    ``disparity`` is the one among the client's rows.
    """

    name: str
    n: int
    accuracy: float | None
    loss: float | None
    loss_variance: float | None
    disparity: ByNotion


class Round(Value, frozen=True, kw_only=True):
    """One round on training rows; a quantity that nobody measured is None.

    ``signal`` and ``lam`` are a number or a vector over what is compared.
    """

    round: int
    signal: list[Any] | float | None
    lam: list[Any] | float | None = field(name="lambda")
    accuracy: float | None
    disparity: float | None


class Divergence(Value, frozen=True, kw_only=True):
    """Where training stopped being finite; no client where it was the common model."""

    round: int
    client: str | None


class DivergedSeeds(Divergence, frozen=True, kw_only=True):
    """Where training of a setting diverged first, and with which seeds."""

    seeds: tuple[int, ...]


class Quality(Value, frozen=True, kw_only=True):
    """Accuracy and disparities of one model, and nothing else of it."""

    accuracy: float | None
    disparity: ByNotion


class Coarse(Value, frozen=True, kw_only=True):
    """Codes that are too coarse for the gaps: their bits, their step, and the bits needed."""

    bits: int
    step: float
    needed: int


class MethodAccount(Value, frozen=True, kw_only=True):
    """What a method says of the end of its training; every field is for some methods only.

    Attributes:
        chosen_round: the round nearest to the target on training rows.
        off_target: how far the training disparity is from the target.
        off_target_before: the same, before thresholds.
        training_accuracy: accuracy of the chosen round on training rows, before thresholds.
        constant_accuracy: accuracy of the best constant decision on training rows.
        at_bound: groups (client parity: clients) whose weights are at their bound.
        left_out: groups with too few rows for a threshold.
        target_is_for: the measure that the target bounds, where it is not the disparity.
        coarse: codes that are too coarse.
        thresholds: for each group the cuts and chances of its rule.
        curve: accuracy and disparity of the rules that were found on training rows.
    """

    chosen_round: int | None = None
    off_target: float | None = None
    off_target_before: float | None = None
    training_accuracy: float | None = None
    constant_accuracy: float | None = None
    at_bound: tuple[str, ...] | None = None
    left_out: tuple[str, ...] | None = None
    target_is_for: str | None = None
    coarse: Coarse | None = None
    thresholds: list[Any] | None = None
    curve: list[dict[str, float]] | None = None


class Training(Value, frozen=True, kw_only=True):
    """The training disparity beside its target, and whether the target is missed beyond chance."""

    target: float
    disparity: float
    missed: bool


class ClientPrivacy(Value, frozen=True, kw_only=True):
    """What one client spends.

    ``sampling`` is the chance of a row to be in a training step, ``steps`` and ``answers`` count,
    and the noises are multipliers.
    """

    client: str
    rows: int
    epsilon: float
    sampling: float
    steps: int
    answers: int
    training_noise: float
    answering_noise: float


class Privacy(Value, frozen=True, kw_only=True):
    """How well rows (level ``record``) or whole clients (level ``client``) are hidden.

    ``epsilon`` is the budget, ``most`` what the client spends that spends most, ``signals`` the
    share for counts and signals, ``shared_by`` how many clients add the noise of a sum together.
    """

    level: str
    epsilon: float
    delta: float
    most: float
    clip: float
    signals: float
    shared_by: int
    clients: tuple[ClientPrivacy, ...]
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    trust: tuple[str, ...]


class Evaluation(Value, frozen=True, kw_only=True):
    """What one model is worth on test rows.

    Attributes:
        accuracy: None where training diverged.
        auc: area under the ROC curve, None where rows have one label only.
        disparity: by notion.
        interval: the 95% interval of each disparity.
        groups: one entry a group.
        clients: one entry a client; none where only sums over clients are known.
        local_disparity: the largest disparity among one client's rows.
        four_fifths: least rate of positive decisions over the largest.
        not_estimable: by notion the groups (client parity: clients) with too few rows.
        majority_accuracy: what the better constant classifier reaches.
    """

    accuracy: float | None
    balanced_accuracy: float | None
    auc: float | None
    disparity: ByNotion
    interval: Mapping[str, Interval | None]
    groups: tuple[GroupRates, ...]
    clients: tuple[ClientRates, ...]
    local_disparity: ByNotion
    four_fifths: float | None
    not_estimable: Mapping[str, tuple[str, ...]]
    majority_accuracy: float | None

    @property
    def rows(self) -> int:
        """The number of test rows."""
        return sum(group.n for group in self.groups)


class SeedResult(Evaluation, frozen=True, kw_only=True):
    """One setting trained with one seed.

    Attributes:
        loss: mean loss on test rows; ``loss_spread`` is the standard deviation of the rows' losses.
        constant_loss: mean loss of the training share of positive labels as every row's score;
            ``loss_error`` is the standard error of the difference.
        copied: share of test rows with an exact copy in training, None if within chance.
        at_one_half: what the scores alone come to, where decisions are not scores of at least 1/2.
        method: what the method says of its end.
        needs_single: tasks of which the method needs every client's upload by itself.
        rounds: training, round by round; empty where nobody looked.
        training: None for a method without a target.
        diverged: where training diverged; figures are then None.
    """

    seed: int
    settings: Setting
    loss: float | None
    loss_spread: float | None
    constant_loss: float | None
    loss_error: float | None
    copied: float | None
    at_one_half: Quality | None
    method: MethodAccount = field(name="told")
    needs_single: tuple[str, ...]
    rounds: tuple[Round, ...]
    training: Training | None
    privacy: Privacy | None = None
    diverged: Divergence | None = None


class Figures(Value, frozen=True, kw_only=True):
    """Means over seeds.

    ``free`` is the model that is trained alike but without fairness, ``cost`` the accuracy that
    fairness costs beside it; both are None where there is no such model.
    """

    accuracy: Statistic
    disparity: Mapping[str, Statistic]
    cost: Statistic | None = None
    free: "Figures | None" = None
    diverged: DivergedSeeds | None = None


class Summary(Figures, frozen=True, kw_only=True):
    """Means over seeds of one setting; ``settings`` are the values that all seeds share."""

    settings: Setting


class TriedSetting(Value, frozen=True, kw_only=True):
    """What a setting reached on validation rows, or where it diverged."""

    setting: Setting
    accuracy: float | None
    disparity: float | None
    loss: float | None
    off_target: float | None
    diverged: Divergence | None = None


class Tuning(Value, frozen=True, kw_only=True):
    """What was chosen on validation rows, the floor under the accuracy, and what from."""

    chosen: Setting
    accuracy_floor: float | None
    candidates: tuple[TriedSetting, ...]


class Picked(Tuning, frozen=True, kw_only=True):
    """What one seed chose for itself."""

    seed: int


class Shortfall(Value, frozen=True, kw_only=True):
    """A promise that a result does not keep.

    ``kind`` is one of target, cost, privacy, less_fair, alike, loss, copies; ``sentence`` says what
    is the matter and what to do, ``values`` are the figures in it, by name.
    """

    kind: str
    sentence: str
    values: Mapping[str, Any]


class EngineChoice(Value, frozen=True, kw_only=True):
    """The engine that did the arithmetic, and why this engine."""

    name: str
    reason: str


class Result(Value, frozen=True, kw_only=True):
    """What an experiment ends in.

    Attributes:
        schema: the version of this JSON.
        notion: the long name of what is to be equal.
        settings: every setting of the experiment, as JSON values.
        engine: which engine trained, and why.
        runs: one entry for each seed and setting; all settings of a seed stand together.
        summary: means over seeds, None where the grid has several settings.
        summaries: means over seeds, one entry a setting.
        tuning: what was chosen for all seeds together.
        picked: what every seed chose for itself.
        privacy: of the seed whose clients spend most.
        notes: what a reader should know; the sentences of the shortfalls come first.
        groups: their names, in the order of ``runs[0].groups``.
        experiment_hash: a short name of all settings.
        shared_test_rows: share of test rows that two seeds have in common.
        shortfalls: promises that the result does not keep.
        study: the name of the study, where it is one, with the names of its clients.
    """

    schema: int
    data: str
    model: str
    algorithm: str
    notion: str
    settings: Mapping[str, Any]
    engine: EngineChoice
    runs: tuple[SeedResult, ...]
    summary: Figures | None
    summaries: tuple[Summary, ...]
    tuning: Tuning | None
    picked: tuple[Picked, ...]
    privacy: Privacy | None
    notes: tuple[str, ...]
    groups: tuple[str, ...]
    experiment_hash: str
    shared_test_rows: float
    shortfalls: tuple[Shortfall, ...]
    study: str | None = None
    client_names: tuple[str, ...] | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the experiment."""
        return tuple(self.settings["seeds"])

    @property
    def group_is_given(self) -> bool:
        """Whether the group is an input of the model."""
        return bool(self.settings["sensitive_at_prediction"])

    def runs_of(self, place: int) -> tuple[SeedResult, ...]:
        """Return the runs of one setting, one for each seed."""
        return self.runs[place :: len(self.summaries)]

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with one row for each seed and setting."""
        from fedfb.report import table

        return make_frame(table.run_rows(self))

    def groups_frame(self) -> "DataFrame":
        """Return a frame of pandas with one row for each seed, setting and group."""
        from fedfb.report import table

        return make_frame(table.group_rows(self))

    def to_latex(self) -> str:
        """Return the figures as a LaTeX table; it needs the package booktabs."""
        from fedfb.report import table

        return table.to_latex(table.table_of_run(self))

    def plot(self) -> "Figure":
        """Return a picture of accuracy against disparity."""
        from fedfb.report.figures import comparison_figure

        return comparison_figure([self], {})

    def _repr_html_(self) -> str:
        from fedfb.report import table

        sentences = [shortfall.sentence for shortfall in self.shortfalls]
        return table.to_html(table.table_of_run(self), sentences)


class Difference(Value, frozen=True, kw_only=True):
    """How two methods differ over the same seeds: the figure of ``of`` minus that of ``less``."""

    of: str
    less: str
    accuracy: Estimate
    disparity: Mapping[str, Estimate]


class Comparison(Value, frozen=True, kw_only=True):
    """Several methods on the same seeds, and how every two of them differ.

    ``notes`` are the sentences of all shortfalls.
    """

    schema: int
    notes: tuple[str, ...]
    results: tuple[Result, ...]
    differences: tuple[Difference, ...]

    def to_frame(self) -> "DataFrame":
        """Return a frame of pandas with one row for each method and setting."""
        from fedfb.report import table

        return make_frame(table.comparison_rows(self))

    def to_latex(self) -> str:
        """Return methods side by side as a LaTeX table; it needs the package booktabs."""
        from fedfb.report import table

        return table.to_latex(table.table_of_comparison(self))

    def plot(self) -> "Figure":
        """Return a picture of accuracy against disparity, one colour for each method."""
        from fedfb.report.figures import comparison_figure

        return comparison_figure(self.results, {})

    def _repr_html_(self) -> str:
        from fedfb.report import table

        return table.to_html(table.table_of_comparison(self), self.notes)


class Printed(Value, frozen=True, kw_only=True):
    """What the paper prints of a method."""

    accuracy: Statistic
    disparity: Statistic


class GroupMeans(Value, frozen=True, kw_only=True):
    """Rates of one group, as means over seeds."""

    name: str
    positive_rate: float | None
    tpr: float | None
    fpr: float | None
    accuracy: float | None


class Point(Value, frozen=True, kw_only=True):
    """One setting on the curve of one method.

    Attributes:
        knob: the knob that the curve goes along; None for a curve of one point.
        epsilon: that of differential privacy; None without privacy.
        seeds: accuracy and disparity of every seed.
        pooled: whether all rows are in one place.
        limit: whether the method is the limit, and not one of the approaches.
        pareto: whether no other point is as accurate and as fair.
    """

    algorithm: str
    knob: str | None
    epsilon: float | None
    settings: Setting
    accuracy: Estimate
    disparity: Estimate
    seeds: tuple[tuple[float | None, float | None], ...]
    groups: tuple[GroupMeans, ...]
    pooled: bool
    limit: bool
    diverged: DivergedSeeds | None
    pareto: bool


class LeftOut(Value, frozen=True, kw_only=True):
    """A method that is not on the frontier, or not all of it, and why."""

    algorithm: str
    reason: str


class MethodShortfall(Shortfall, frozen=True, kw_only=True):
    """A shortfall of one method on the frontier, at one epsilon."""

    algorithm: str
    epsilon: float | None


class Frontier(Value, frozen=True, kw_only=True):
    """How every method trades accuracy for fairness.

    ``constant`` is the accuracy of the better constant classifier, ``epsilons`` are those that were
    asked for (None: without privacy). The other fields are as in :class:`Result`.
    """

    schema: int
    data: str
    model: str
    notion: str
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    experiment_hash: str
    groups: tuple[str, ...]
    constant: float | None
    points: tuple[Point, ...]
    epsilons: tuple[float | None, ...]
    left_out: tuple[LeftOut, ...]
    failed: tuple[LeftOut, ...]
    shortfalls: tuple[MethodShortfall, ...]
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    shared_test_rows: float

    @property
    def delta(self) -> float:
        """The delta of differential privacy that goes with every epsilon."""
        return float(self.settings["privacy_delta"])


Document = TypeVar("Document", Result, Comparison, Frontier)


def to_json(value: Value) -> str:
    """Return a value as JSON. A number that is not finite raises ValueError."""
    # Not msgspec.json.encode: it writes null for NaN, and so would hide a fault.
    return json.dumps(msgspec.to_builtins(value), indent=1, allow_nan=False)


def to_builtins(value: Any) -> Any:
    """Return a value as dictionaries, lists, numbers and text: its JSON, for those without types.

    >>> to_builtins(Estimate(mean=0.5, interval=(0.4, 0.6)))
    {'mean': 0.5, 'interval': [0.4, 0.6]}
    """
    # There and back: msgspec alone would leave tuples, which are not equal to the lists of JSON.
    return json.loads(json.dumps(msgspec.to_builtins(value)))


def say_client(values: Any) -> Any:
    """Return JSON values of schema 1 in the words of schema 2, which calls a silo a client.

    >>> say_client({"schema": 1, "silo_names": ["a"], "silos": [{"silo": "a"}]})
    {'schema': 2, 'client_names': ['a'], 'clients': [{'client': 'a'}]}
    """
    if isinstance(values, list):
        return [say_client(value) for value in values]
    if not isinstance(values, dict):
        return values
    # A result of a study lists the names of its clients; all other lists hold more of a client.
    names = "client_names" if "study" in values else "clients"
    words = {"silo": "client", "silo_names": "client_names", "silos": names}
    upgraded = {words.get(name, name): say_client(value) for name, value in values.items()}
    if upgraded.get("schema") == 1:
        upgraded["schema"] = SCHEMA
    for name in ("level", "privacy_level"):
        if upgraded.get(name) == "silo":
            upgraded[name] = "client"
    return upgraded


class _Head(Value, frozen=True):
    schema: int = 0


def from_json(content: str | bytes, kind: type[Document], where: "str | Path") -> Document:
    """Return the value that JSON holds.

    Args:
        content: the JSON.
        kind: the type that is expected.
        where: the file, for the message.

    Raises:
        DataError: it is another version, or does not fit the type.

    >>> from_json('{"schema": 99}', Result, "result.json")
    Traceback (most recent call last):
    fedfb.errors.DataError: result.json has schema 99, and this version of fedfb reads schema 2. \
Run it again with this version, or open it with the version that wrote it.
    """
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema == SCHEMA:
            return msgspec.json.decode(content, type=kind)
        if schema == 1:
            return msgspec.convert(say_client(msgspec.json.decode(content)), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DataError(
            f"{where} is not a {kind.__name__.lower()} as this version of fedfb writes it "
            f"({error}). {WHAT_TO_DO}."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"{where} cannot be read as JSON ({error}): it was cut short or changed. Restore it "
            "from a copy, or run it again."
        ) from error
    had = f"schema {schema}" if schema else "no schema"
    raise DataError(
        f"{where} has {had}, and this version of fedfb reads schema {SCHEMA}. {WHAT_TO_DO}."
    )
