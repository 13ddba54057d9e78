"""A federated method as a scikit-learn classifier, with the engine of the command line.

A classifier predicts two labels of any type. Messages about labels have the words that
scikit-learn's own checks look for. ``report`` gives the report of ``fedfb run`` for any rows, as
values or as a page.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import cleandoc, signature
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import convert, structs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from fedfb.algorithms import find_method
from fedfb.core import Examples, Prediction
from fedfb.data.check import refuse_infinite
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder, reading
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.errors import ConfigError
from fedfb.estimator.training import (
    SOURCE,
    check_two_labels,
    choose_favourable,
    client_names,
    feature_table,
    is_data_frame,
    make_experiment,
    make_federation,
    same_columns,
)
from fedfb.experiments.calibrate import measure_calibration
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.evaluate import evaluate
from fedfb.experiments.measure import measure_loss
from fedfb.experiments.outcome import train
from fedfb.experiments.reporting import with_shortfalls
from fedfb.experiments.result import Result, Summary
from fedfb.experiments.rule import NOBODY, rule_of
from fedfb.experiments.seeds import chance_of, summarise_seeds
from fedfb.experiments.shortfall_warnings import warn_of
from fedfb.experiments.spec import Experiment
from fedfb.experiments.targets import unshown_misses
from fedfb.files import write_whole
from fedfb.notions import long_name
from fedfb.settings import describe_arguments
from fedfb.shapes import Array, Float, Int
from fedfb.tables.table import Table

WITHOUT_GROUPS = (
    "{name}: no sensitive_features were given, so there are no groups to treat alike, and training "
    "is plain."
)


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model for all clients, trained by one of fedfb's methods.

    Parameters are the settings of ``fedfb run`` with the same meaning. ``settings`` takes those
    that are not listed, by name. ``knobs`` takes the parameters of the method, by name. Three
    differ:

    - ``notion`` is by default the first notion of the method, mostly demographic parity;
    - ``positive`` is the favourable label, by default the second of ``classes_``;
    - ``random_state`` is the seed.

    A fitted classifier has ``classes_``, ``history_`` (one record a round), ``groups_`` and
    ``clients_``. ``encoder_`` and ``rule_`` hold, as plain values, all that its decisions need.
    """

    algorithm: ClassVar[str]
    by_group: ClassVar[bool] = False

    # Metadata routing of scikit-learn passes groups and clients on only where they are requested.
    __metadata_request__fit: ClassVar = {"sensitive_features": True, "client": True}
    __metadata_request__predict: ClassVar = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar = {"sensitive_features": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True}

    def __init_subclass__(cls, method: str | None = None, by_group: bool = False) -> None:
        """Register the method of a class.

        Args:
            method: name of the method; None for a class that is no method.
            by_group: whether decisions depend on the group.
        """
        super().__init_subclass__()
        if method is None:
            return
        about = find_method(method)
        cls.algorithm, cls.by_group = method, by_group
        cls.__doc__ = f"{about.name}: {about.summary} ({about.paper}).\n\n{cls.__base__.__doc__}"

    def __init__(
        self,
        *,
        notion: str | None = None,
        target: float | None = None,
        model: str | Callable[[int], Any] = "logistic",
        hidden: tuple[int, ...] = (4,),
        variant: str | None = None,
        knobs: Mapping[str, float] | None = None,
        lr: float | None = None,
        rounds: int | None = None,
        local_epochs: int = 30,
        batch: int = 128,
        sensitive_at_prediction: bool = False,
        positive: Any = None,
        random_state: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.notion = notion
        self.target = target
        self.model = model
        self.hidden = hidden
        self.variant = variant
        self.knobs = knobs
        self.lr = lr
        self.rounds = rounds
        self.local_epochs = local_epochs
        self.batch = batch
        self.sensitive_at_prediction = sensitive_at_prediction
        self.positive = positive
        self.random_state = random_state
        self.settings = settings

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, client: Any = None
    ) -> "FederatedClassifier":
        """Train a model.

        Args:
            X: features, an array or a frame of pandas or polars.
            y: labels, two different values.
            sensitive_features: columns whose crossed values form the groups. None: there are no
                groups to compare, and training is plain.
            client: name of each row's client. None: all rows belong to one client.
        """
        table = self._read_table(X, reset=True)
        label = check_two_labels(y, type(self).__name__)
        check_consistent_length(X, label, sensitive_features, client)
        self.classes_ = np.unique(label)
        self.positive_ = choose_favourable(self.classes_, self.positive)
        if sensitive_features is None and self._compares_groups:
            warnings.warn(WITHOUT_GROUPS.format(name=type(self).__name__), stacklevel=2)
        experiment = make_experiment(self, groups_given=sensitive_features is not None)
        federation = make_federation(
            table, label, self.positive_, sensitive_features, client, experiment
        )
        seed = experiment.seeds[0]
        outcome = train(experiment, federations={seed: federation}, jobs=1)
        warn_of(outcome.result.shortfalls, stacklevel=2)
        federation = outcome.federation  # --features auto chooses the columns
        self.encoder_, self.groups_ = federation.encoder, list(federation.group_names)
        self.clients_ = list(federation.client_names)
        inputs = len(federation.feature_names)
        self.rule_ = rule_of(outcome.experiment, outcome.fitted[0], inputs)
        # Plain values: skops and pickle keep them, also for a later version of the types.
        self.report_ = to_builtins(outcome.result)
        self.history_ = to_builtins(outcome.result.runs[0].rounds)
        return self

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """Return the label of every row. Randomised decisions are drawn.

        A draw depends on ``random_state`` and the place of the row only, so a second call returns
        the same labels.

        Args:
            X: features, with the columns of training.
            sensitive_features: as in ``fit``; needed where decisions depend on the group.
        """
        chance = self.decide(X, sensitive_features=sensitive_features)
        # A new generator in each call, so that a second call returns the same labels.
        coin = np.random.default_rng(self.random_state).random(len(chance))
        favourable = coin < chance
        return np.where(favourable, self.positive_, self._unfavourable)

    def decide(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, " n"]:
        """Return the chance of a favourable decision: 0 or 1, unless decisions are randomised.

        Args:
            X: features, with the columns of training.
            sensitive_features: as in ``fit``; needed where decisions depend on the group.
        """
        return self._decide(X, sensitive_features).decision[0]

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, "n 2"]:
        """Return the probability of each of ``classes_``. Decisions may use thresholds.

        Args:
            X: features, with the columns of training.
            sensitive_features: as in ``fit``; needed where decisions depend on the group.
        """
        favourable = self._decide(X, sensitive_features).score[0]
        columns = (1 - favourable, favourable)
        return np.stack(columns if self._positive_is_last else columns[::-1], axis=1)

    def calibrated(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, " n"]:
        """Return the probability of the favourable label that each score stands for in its group.

        Weights that make decisions fair move scores away from probabilities. No decision depends on
        what this method returns.

        Args:
            X: features, with the columns of training.
            sensitive_features: as in ``fit``. A group that training did not have has the map of all
                groups together.
        """
        x, group = self._encode(X, sensitive_features)
        score = self.rule_.decide(x, group).score[0]
        chances = self.rule_.calibrate(score, self._number_groups(sensitive_features, len(x)))
        if chances is None:
            raise ValueError(
                f"{type(self).__name__} has no calibrated scores: its method asks for no histogram "
                "of them. FedFB with its common cut (settings={'cut': 'common'}) and methods with "
                "thresholds do."
            )
        return chances

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, " n"]:
        """Return the log odds of the second of ``classes_``.

        Args:
            X: features, with the columns of training.
            sensitive_features: as in ``fit``; needed where decisions depend on the group.
        """
        x, group = self._encode(X, sensitive_features)
        if len(self.rule_.members) == 1:
            odds = self.rule_.logits(x)[0]
        else:
            score = self.rule_.decide(x, group).score[0]
            odds = np.log(score) - np.log1p(-score)
        return odds if self._positive_is_last else -odds

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return the accuracy; for randomised decisions, the expected accuracy.

        Args:
            X: features, with the columns of training.
            y: labels.
            sample_weight: weight of each row; None: all are equal.
            sensitive_features: as in ``fit``; needed where decisions depend on the group.
        """
        chance = self.decide(X, sensitive_features=sensitive_features)
        favourable = np.asarray(y) == self.positive_
        right = np.where(favourable, chance, 1 - chance)
        return float(np.average(right, weights=sample_weight))

    def report(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        client: Any = None,
        to: str | Path | None = None,
    ) -> Result | Path:
        """Return the result, as :func:`fedfb.run` does.

        Args:
            X: rows to evaluate on; None: the training rows.
            y: labels of the rows.
            sensitive_features: groups of the rows, as in ``fit``.
            client: clients of the rows, as in ``fit``; None: the rows belong to no client.
            to: path of a new file. The result is then written as a page, and the path returned.
        """
        check_is_fitted(self)
        result = self.result_
        if X is not None:
            rows = self._make_examples(X, y, sensitive_features, client)
            result = judge(result, rows, self.groups_, self.clients_, self.rule_.calibration)
        return result if to is None else write_page(result, self.encoder_, Path(to))

    @property
    def result_(self) -> Result:
        """What training came to, on training rows."""
        return convert(self.report_, Result)

    def __sklearn_tags__(self) -> Any:
        """Say what the classifier takes: two classes, missing values, no sparse matrices."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        return tags

    @property
    def _compares_groups(self) -> bool:
        method = find_method(self.algorithm)
        return method.fair and long_name(self.notion or method.notions[0]) != "client_parity"

    @property
    def _positive_is_last(self) -> bool:
        return bool(self.positive_ == self.classes_[1])

    @property
    def _unfavourable(self) -> Any:
        return self.classes_[0] if self._positive_is_last else self.classes_[1]

    def _read_table(self, X: Any, reset: bool) -> Table:
        """Return features as a table, with the checks that scikit-learn requires."""
        if is_data_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise ValueError("Found array with 0 sample(s), while a minimum of 1 is required.")
            return feature_table(X, training=reset)
        array = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
        return feature_table(array, training=reset)

    def _encode(self, X: Any, sensitive: Any) -> tuple[Float[Array, "n d"], Int[Array, " n"]]:
        check_is_fitted(self)
        table = self._read_table(X, reset=False)
        reads_group = self.encoder_.sensitive_at_prediction or self.rule_.needs_group
        group = np.zeros(len(table), np.int64)
        if reads_group:
            group = self._number_groups(sensitive, len(table))
        table = derive(table, reading(self.encoder_, group=False).rules)
        x = self.encoder_.encode(table, group)
        refuse_infinite(x, self.encoder_.feature_names, table)
        return x, group

    def _number_groups(self, sensitive: Any, rows: int, strict: bool = False) -> Int[Array, " n"]:
        """Return the group of each row; -1, or an error if strict, if training did not have it."""
        if len(self.groups_) == 1:
            return np.zeros(rows, np.int64)
        if sensitive is None:
            raise ValueError(
                f"{type(self).__name__} needs the group of every row here: give "
                "sensitive_features as in fit."
            )
        raw = reading(self.encoder_, features=False)
        columns = same_columns(sensitive, tuple(raw.columns))
        check_consistent_length(np.empty(rows), *columns.values())
        table, groups = derive(Table(columns, SOURCE), raw.rules), self.encoder_.groups
        return groups.group_of(table) if strict else groups.look_up(table).group

    def _decide(self, X: Any, sensitive: Any) -> Prediction:
        x, group = self._encode(X, sensitive)
        return self.rule_.decide(x, group)

    def _make_examples(
        self, X: Any, y: Any, sensitive: Any, client: Any
    ) -> tuple[Prediction, Examples]:
        """Return the decisions on rows, and the rows."""
        x, _ = self._encode(X, sensitive)
        group = self._number_groups(sensitive, len(x), strict=True)
        label = (np.asarray(y) == self.positive_).astype(np.int64)
        check_consistent_length(x, label, client)
        numbers = np.full(len(x), NOBODY)
        if client is not None:
            number = {name: i for i, name in enumerate(self.clients_)}
            numbers = np.array([number.get(name, NOBODY) for name in client_names(client)])
        return self.rule_.decide(x, group), Examples(x, label, group, numbers)


def _describe_parameters() -> str:
    """Return the parameters that are settings; those that differ stand in the docstring itself."""
    names = signature(FederatedClassifier).parameters.keys() - {"notion", "positive", "knobs"}
    section = describe_arguments(one for one in fields(Experiment) if one.name in names)
    return section.replace("; several make a grid", "")  # a classifier takes one value


FederatedClassifier.__doc__ = (
    f"{cleandoc(FederatedClassifier.__doc__ or '')}\n\n{_describe_parameters()}"
)


def judge(
    result: Result,
    outcome: tuple[Prediction, Examples],
    groups: list[str],
    clients: list[str],
    maps: Array | None = None,
) -> Result:
    """Return a result with the figures of other rows than the training rows.

    Args:
        result: result of the training.
        outcome: decisions on the rows, and the rows.
        groups: names of the groups.
        clients: names of the clients.
        maps: of scores to probabilities, by group; None: none were learnt.
    """
    [evaluation] = evaluate(*outcome, groups, clients)
    prediction, examples = outcome
    losses = measure_loss(prediction.score[0], examples, None)._asdict()
    figures_of_rows = {**structs.asdict(evaluation), **losses, "chance": chance_of(evaluation)}
    calibration = (
        () if maps is None else measure_calibration(prediction.score[0], examples, groups, maps)
    )
    run = structs.replace(
        result.runs[0], **figures_of_rows, leave_out=None, calibration=calibration
    )
    of_training = {ON_TRAINING_ROWS, *unshown_misses(result)}
    figures = summarise_seeds([run], shared=1.0)
    return with_shortfalls(
        structs.replace(
            result,
            runs=(run,),
            summary=figures,
            summaries=(Summary(settings=run.settings, **structs.asdict(figures)),),
            notes=tuple(note for note in result.notes if note not in of_training),
        )
    )


def write_page(result: Result, encoder: Encoder, path: Path) -> Path:
    """Write a result as the page of ``fedfb report``.

    Args:
        result: the result.
        encoder: the encoder of the model.
        path: a file that does not exist yet.
    """
    from fedfb.report.folder import Found, ReportedRun
    from fedfb.report.html import check_tools, render
    from fedfb.report.page import make_page

    check_tools()
    if path.exists():
        raise ConfigError(f"{path} exists already. Give the name of a new file.")
    page = make_page(Found((ReportedRun(result, {}, len(encoder.feature_names), ()),)))
    write_whole(path, render(page))
    return path
