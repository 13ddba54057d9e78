"""A federated method as a scikit-learn classifier: the same engine as the command line.

What may be predicted: two labels of any type. The messages are those scikit-learn looks for.

The report of an estimator: that of ``fedfb run``, for any rows, as values or as a page.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import convert, structs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fedfb.algorithms import find_method
from fedfb.core import Examples, Prediction
from fedfb.data.check import refuse_infinite
from fedfb.data.derive import derive
from fedfb.data.encode import Encoder, reading
from fedfb.data.notes import ON_TRAINING_ROWS
from fedfb.data.table import Table
from fedfb.errors import ConfigError
from fedfb.estimator.training import (
    SOURCE,
    client_names,
    feature_table,
    is_frame,
    make_experiment,
    make_federation,
    same_columns,
)
from fedfb.experiments.evaluate import evaluate
from fedfb.experiments.outcome import train
from fedfb.experiments.reporting import measure_loss, with_shortfalls
from fedfb.experiments.result import Result, Summary, to_builtins
from fedfb.experiments.rule import NOBODY, rule_of
from fedfb.experiments.seeds import summarise_seeds
from fedfb.experiments.shortfall_warnings import warn_of
from fedfb.files import write_whole
from fedfb.notions import long_name
from fedfb.shapes import Array, Float, Int

PLAIN = (
    "{name}: no sensitive_features were given, so there are no groups to treat alike, and training "
    "is plain."
)


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model for all clients, trained by one of fedfb's methods.

    Parameters are the settings of ``fedfb run`` with the same meaning; ``settings`` takes those
    that are not listed, ``knobs`` the method's own, by name. Three differ:

    - ``notion`` is by default the first one that the method knows, mostly demographic parity;
    - ``positive`` is the favourable label, by default the second of ``classes_``;
    - ``random_state`` is the seed.

    Fitted, it has ``classes_``, ``history_`` (one record a round), ``groups_``, ``clients_``, and
    as plain values all that decides: ``encoder_`` and ``rule_``.
    """

    algorithm: ClassVar[str]
    by_group: ClassVar[bool] = False

    # Where scikit-learn hands groups and owners through (metadata routing), they are wanted.
    __metadata_request__fit: ClassVar = {"sensitive_features": True, "client": True}
    __metadata_request__predict: ClassVar = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True}
    __metadata_request__decision_function: ClassVar = {"sensitive_features": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True}

    def __init_subclass__(cls, method: str | None = None, by_group: bool = False) -> None:
        """Name the method of a class, and whether groups have thresholds of their own in it."""
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
        """Train on rows of which ``client`` names the owner and ``sensitive_features`` the group.

        Without clients all rows belong to one; without sensitive features there is nothing to be
        fair about, and training is plain.
        """
        table = self._table(X, reset=True)
        label = checked_labels(y, type(self).__name__)
        check_consistent_length(X, label, sensitive_features, client)
        self.classes_ = np.unique(label)
        self.positive_ = favourable_label(self.classes_, self.positive)
        if sensitive_features is None and self._compares_groups:
            warnings.warn(PLAIN.format(name=type(self).__name__), stacklevel=2)
        experiment = make_experiment(self, groups_given=sensitive_features is not None)
        federation = make_federation(
            table, label, self.positive_, sensitive_features, client, experiment
        )
        seed = experiment.seeds[0]
        outcome = train(experiment, federations={seed: federation}, jobs=1)
        warn_of(outcome.result.shortfalls, stacklevel=2)
        self.encoder_, self.groups_ = federation.encoder, list(federation.group_names)
        self.clients_ = list(federation.client_names)
        inputs = len(federation.feature_names)
        self.rule_ = rule_of(outcome.experiment, outcome.fitted[0], inputs)
        # Plain values: skops and pickle keep them, also for a later version of the types.
        self.report_ = to_builtins(outcome.result)
        self.history_ = to_builtins(outcome.result.runs[0].rounds)
        return self

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """Return the label of every row; where decisions are randomised, a coin is thrown.

        The coin follows ``random_state`` and the place of the row, so that asking twice gives the
        same answer.
        """
        chance = self.decide(X, sensitive_features=sensitive_features)
        coin = np.random.default_rng(self.random_state).random(len(chance))
        favourable = coin < chance
        return np.where(favourable, self.positive_, self._other)

    def decide(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, " n"]:
        """Return the chance that a row is decided favourably, 0 or 1 unless decisions are mixed."""
        return self._prediction(X, sensitive_features).decision[0]

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, "n 2"]:
        """Return the probability of each of ``classes_``; decisions may have other thresholds."""
        favourable = self._prediction(X, sensitive_features).score[0]
        columns = (1 - favourable, favourable)
        return np.stack(columns if self._positive_is_last else columns[::-1], axis=1)

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> Float[Array, " n"]:
        """Return the log odds of the second of ``classes_``."""
        x, group = self._encoded(X, sensitive_features)
        if len(self.rule_.members) == 1:
            odds = self.rule_.logits(x)[0]
        else:
            score = self.rule_.decide(x, group).score[0]
            odds = np.log(score) - np.log1p(-score)
        return odds if self._positive_is_last else -odds

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return the accuracy, of randomised decisions the expected one."""
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
        """Return what :func:`fedfb.run` does, for these rows; without any, for training rows.

        With ``to`` it is written as a page to look at, and the path is returned.
        """
        check_is_fitted(self)
        found = self.result_
        if X is not None:
            rows = self._examples(X, y, sensitive_features, client)
            found = judge(found, rows, self.groups_, self.clients_)
        return found if to is None else write_page(found, self.encoder_, Path(to))

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
    def _other(self) -> Any:
        return self.classes_[0] if self._positive_is_last else self.classes_[1]

    def _table(self, X: Any, reset: bool) -> Table:
        """Return features as a table, with the checks that scikit-learn asks for."""
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X):
                raise ValueError("Found array with 0 sample(s), while a minimum of 1 is required.")
            return feature_table(X, training=reset)
        checked = validate_data(
            self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan"
        )
        return feature_table(checked, training=reset)

    def _encoded(self, X: Any, sensitive: Any) -> tuple[Float[Array, "n d"], Int[Array, " n"]]:
        check_is_fitted(self)
        table = self._table(X, reset=False)
        needed = self.encoder_.sensitive_at_prediction or self.rule_.needs_group
        group = np.zeros(len(table), np.int64)
        if needed:
            group = self._group_numbers(sensitive, len(table))
        table = derive(table, reading(self.encoder_, group=False).rules)
        x = self.encoder_.encode(table, group)
        refuse_infinite(x, self.encoder_.feature_names, table)
        return x, group

    def _group_numbers(self, sensitive: Any, rows: int) -> Int[Array, " n"]:
        if len(self.groups_) == 1:
            return np.zeros(rows, np.int64)
        if sensitive is None:
            raise ValueError(
                f"{type(self).__name__} needs to know the group of every row here: give "
                "sensitive_features as in fit."
            )
        needed = reading(self.encoder_, features=False)
        columns = same_columns(sensitive, tuple(needed.columns))
        check_consistent_length(np.empty(rows), *columns.values())
        return self.encoder_.groups.group_of(derive(Table(columns, SOURCE), needed.rules))

    def _prediction(self, X: Any, sensitive: Any) -> Prediction:
        x, group = self._encoded(X, sensitive)
        return self.rule_.decide(x, group)

    def _examples(self, X: Any, y: Any, sensitive: Any, client: Any) -> tuple[Prediction, Examples]:
        """Return rows to judge the classifier on, with its decisions."""
        x, _ = self._encoded(X, sensitive)
        group = self._group_numbers(sensitive, len(x))
        label = (np.asarray(y) == self.positive_).astype(np.int64)
        check_consistent_length(x, label, client)
        owner = np.full(len(x), NOBODY)
        if client is not None:
            number = {name: i for i, name in enumerate(self.clients_)}
            owner = np.array([number.get(name, NOBODY) for name in client_names(client)])
        return self.rule_.decide(x, group), Examples(x, label, group, owner)


def checked_labels(y: Any, name: str) -> Array:
    """Return labels as an array; refuse what is not two classes, for the classifier of a name."""
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


def favourable_label(classes: Array, named: Any) -> Any:
    """Return the favourable one of two labels: the one that is named, else the second."""
    if named is None:
        return classes[1]
    if named not in classes:
        raise ConfigError(
            f"positive={named!r} is not one of the labels, which are {classes.tolist()}. Name the "
            "favourable one of them."
        )
    return named


def judge(
    result: Result, found: tuple[Prediction, Examples], groups: list[str], clients: list[str]
) -> Result:
    """Return the result with its figures taken on other rows than those of training."""
    [evaluation] = evaluate(*found, groups, clients)
    prediction, examples = found
    losses = measure_loss(prediction.score[0], examples, None)._asdict()
    run = structs.replace(result.runs[0], **structs.asdict(evaluation), **losses)
    figures = summarise_seeds([run], shared=1.0)
    return with_shortfalls(
        structs.replace(
            result,
            runs=(run,),
            summary=figures,
            summaries=(Summary(settings=run.settings, **structs.asdict(figures)),),
            notes=tuple(note for note in result.notes if note != ON_TRAINING_ROWS),
        )
    )


def write_page(result: Result, encoder: Encoder, path: Path) -> Path:
    """Write the report as a page, as ``fedfb report`` does; a file that is there is kept."""
    from fedfb.report.folder import Found, Run
    from fedfb.report.html import check_tools, render
    from fedfb.report.sections import make_page

    check_tools()
    if path.exists():
        raise ConfigError(f"{path} is there already. Give the name of a new file.")
    page = make_page(Found((Run(result, {}, len(encoder.feature_names), ()),)))
    write_whole(path, render(page))
    return path
