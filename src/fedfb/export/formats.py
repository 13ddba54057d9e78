"""Forms of an exported model: coefficients in JSON, scikit-learn classifiers, skops files.

People and programs in any language can read the coefficients of a logistic regression. A skops file
holds a scikit-learn classifier and is read without running code.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedfb.algorithms.fedfb.thresholds import thresholds
from fedfb.core import Prediction
from fedfb.data.columns import NumberColumn
from fedfb.data.derive import rule_to_dict
from fedfb.data.encode import reading
from fedfb.data.groups import values_of
from fedfb.errors import ConfigError
from fedfb.estimator import CLASSIFIERS, FederatedClassifier
from fedfb.estimator.training import parameters_of
from fedfb.experiments.codec import to_builtins
from fedfb.experiments.spec_file import from_values
from fedfb.export.handover import HandOver, about, layers_of
from fedfb.models import Network
from fedfb.tables.table import Table

FORMAT = "fedfb coefficients 1"

HALF = [{"score": 0.5, "share": 1.0}]


def coefficients(hand: HandOver) -> dict[str, Any]:
    r"""Return the model as plain values.

    .. math:: s=\sigma\Big(b+\sum_j\beta_j\frac{x_j-\mu_j}{\sigma_j}+\sum_c\beta_{c,v_c}
              +\beta_a\Big)

    over numbers j, categories c with value :math:`v_c`, and the group a where the model reads it. A
    missing number adds ``if_missing``, a number above a step adds the step's coefficient, a
    category that is not listed adds nothing. Where decisions
    do not depend on the group, no sensitive column is named and one group stands for all rows.
    """
    network = layers_of(hand.rule)
    if len(hand.rule.members) > 1 or network.hidden:
        raise ConfigError(
            f"coefficients are those of one logistic regression, and this model is "
            f"{_describe_network(hand, network)}. Export it --to onnx or --to skops."
        )
    [(weight, bias)] = network.split(hand.rule.members)
    values = iter(weight[0, :, 0].tolist())
    encoder = hand.encoder
    features = [_describe_feature(column, values) for column in encoder.columns]
    return {
        "format": FORMAT,
        "about": hand.about,
        "intercept": float(bias[0, 0]),
        "features": features,
        "sensitive": list(encoder.groups.columns) if hand.needs_group else [],
        "rules": [rule_to_dict(rule) for rule in hand.reading.rules],
        "groups": _describe_groups(hand, values) if hand.needs_group else [_describe_all(hand)],
    }


def _describe_groups(hand: HandOver, values: Iterator[float]) -> list[dict[str, Any]]:
    """Describe every group: the sensitive columns' values, its coefficient and its thresholds.

    A group of merged values has no values and is the last: it has the rows of no other group.
    A row that reaches the ``score`` of a threshold gains its ``share``. The chance of a favourable
    decision is the sum of these shares.
    """
    groups, chance = hand.encoder.groups, hand.rule.chance
    described = [
        {
            "name": name,
            "values": [] if name in groups.into else list(values_of(groups.columns, name) or ()),
            "coefficient": next(values) if hand.encoder.sensitive_at_prediction else 0.0,
            "thresholds": _describe_thresholds(chance, number),
        }
        for number, name in enumerate(groups.names)
    ]
    return sorted(described, key=lambda group: not group["values"])


def _describe_all(hand: HandOver) -> dict[str, Any]:
    """Describe the one group of a model that does not need groups."""
    steps = _describe_thresholds(hand.rule.chance, 0)
    return {"name": "all", "values": [], "coefficient": 0.0, "thresholds": steps}


def _describe_thresholds(chance: Any, group: int) -> list[dict[str, float]]:
    """Describe the thresholds of a group; a single row of chances is the cut of all groups."""
    if chance is None:
        return HALF
    return _drop_unreachable(thresholds(chance[group if len(chance) > 1 else 0]))


def _drop_unreachable(steps: list[dict[str, float]]) -> list[dict[str, float]]:
    """Leave out the threshold that no score reaches: it stands for rows that are never favoured."""
    return [threshold for threshold in steps if threshold["score"] < 1]


def _describe_feature(column: Any, values: Iterator[float]) -> dict[str, Any]:
    """Describe a feature by its coefficients.

    Args:
        column: column of the encoder.
        values: all coefficients, in the order of the encoder; those of the column are taken.

    """
    if isinstance(column, NumberColumn):
        return {
            "column": column.name,
            "kind": "number",
            "clip": None if column.low is None else [column.low, column.high],
            "mean": column.mean,
            "sd": column.sd,
            "coefficient": next(values),
            "if_missing": next(values) if column.indicator else 0.0,
            "steps": [{"above": step, "coefficient": next(values)} for step in column.steps],
        }
    categories = {category: next(values) for category in column.categories}
    return {"column": column.name, "kind": "category", "coefficients": categories}


def _describe_network(hand: HandOver, network: Network) -> str:
    if len(hand.rule.members) > 1:
        return f"a mixture of {len(hand.rule.members)}"
    return f"a network with hidden layers of {', '.join(map(str, network.hidden))}"


def classifier(hand: HandOver) -> FederatedClassifier:
    """Return a fitted classifier with the labels 0 and 1, of which 1 is favourable."""
    classes = [cls for cls in CLASSIFIERS if cls.algorithm == hand.experiment.algorithm]
    if not classes:
        raise ConfigError(
            f"{hand.experiment.algorithm} has no classifier that could be written as skops. Export "
            "it --to onnx."
        )
    model: FederatedClassifier = classes[0](**parameters_of(hand.experiment))
    names = list(reading(hand.encoder, group=False).columns)
    model.feature_names_in_, model.n_features_in_ = np.array(names, object), len(names)
    model.classes_, model.positive_ = np.array([0, 1]), 1
    model.encoder_, model.rule_ = hand.encoder, hand.rule
    model.groups_ = list(hand.encoder.groups.names)
    model.clients_ = list(hand.clients)
    model.report_ = to_builtins(hand.result)
    model.history_ = [to_builtins(row) for run in hand.result.runs for row in run.rounds]
    return model


def of_classifier(model: FederatedClassifier) -> HandOver:
    """Return a fitted classifier as exports take it: ``onnx_model(of_classifier(model))``."""
    settings = {k: v for k, v in model.result_.settings.items() if v is not None and v != []}
    experiment = from_values(settings)
    words = about(model.encoder_, experiment, experiment.seeds[0])
    clients = tuple(model.clients_)
    return HandOver(model.encoder_, model.rule_, experiment, clients, words, model.result_)


def skops_file(hand: HandOver) -> tuple[bytes, list[str]]:
    """Return the content of a skops file, and the types in it that a reader must trust."""
    from skops import io

    content = io.dumps(classifier(hand))
    types = io.get_untrusted_types(data=content)
    foreign = [name for name in types if not name.startswith("fedfb.")]
    if foreign:
        raise ConfigError(f"the skops file would hold types that are not ours: {foreign}.")
    return content, types


def run_skops(content: bytes, types: list[str], hand: HandOver, table: Table) -> Prediction:
    """Score and decide raw rows with the model in a skops file.

    Args:
        content: the file.
        types: types that are trusted.
        hand: our model, for all that the file does not hold.
        table: raw rows.

    """
    from skops import io

    model = io.loads(content, trusted=types)
    return hand._replace(encoder=model.encoder_, rule=model.rule_).decide(table)
