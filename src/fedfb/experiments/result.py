"""What experiments end in, as types: results of runs, comparisons and frontiers.

Their JSON is that of :mod:`fedfb.experiments.codec`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedfb.experiments.seed_result import (
    DivergedSeeds,
    Divergence,
    Estimate,
    Privacy,
    SeedResult,
    Setting,
    Statistic,
    Value,
)
from fedfb.extras import make_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


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

    ``kind`` is one of target, new_client, cost, privacy, less_fair, alike, constant,
    loss, copies; ``sentence`` says what
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
        from fedfb.report import tables

        return make_frame(tables.run_rows(self))

    def groups_frame(self) -> "DataFrame":
        """Return a frame of pandas with one row for each seed, setting and group."""
        from fedfb.report import tables

        return make_frame(tables.rows_by_group(self))

    def to_latex(self) -> str:
        """Return the figures as a LaTeX table; it needs the package booktabs."""
        from fedfb.report import table, tables

        return table.to_latex(tables.table_of_run(self))

    def plot(self) -> "Figure":
        """Return a picture of accuracy against disparity."""
        from fedfb.report.figures import comparison_figure

        return comparison_figure([self], {})

    def _repr_html_(self) -> str:
        from fedfb.report import table, tables

        sentences = [shortfall.sentence for shortfall in self.shortfalls]
        return table.to_html(tables.table_of_run(self), sentences)


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
        from fedfb.report import tables

        return make_frame(tables.comparison_rows(self))

    def to_latex(self) -> str:
        """Return methods side by side as a LaTeX table; it needs the package booktabs."""
        from fedfb.report import table, tables

        return table.to_latex(tables.table_of_comparison(self))

    def plot(self) -> "Figure":
        """Return a picture of accuracy against disparity, one colour for each method."""
        from fedfb.report.figures import comparison_figure

        return comparison_figure(self.results, {})

    def _repr_html_(self) -> str:
        from fedfb.report import table, tables

        return table.to_html(tables.table_of_comparison(self), self.notes)


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
