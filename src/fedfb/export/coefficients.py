"""Logistic regression as coefficients in JSON, to be read by people and by any language."""

from collections.abc import Iterator
from typing import Any

from fedfb.algorithms.fedfb_thresholds import thresholds
from fedfb.data.columns import NumberColumn
from fedfb.data.derive import rule_to_dict
from fedfb.data.reading import reading
from fedfb.errors import ConfigError
from fedfb.export.comparing import cells_of_groups
from fedfb.export.handover import HandOver, layers_of
from fedfb.models import Network

FORMAT = "fedfb coefficients 1"

HALF = [{"score": 0.5, "share": 1.0}]
EVERYBODY = {"name": "all", "values": [], "coefficient": 0.0, "thresholds": HALF}


def coefficients(hand: HandOver) -> dict[str, Any]:
    r"""Return the model as plain values.

    .. math:: s=\sigma\Big(b+\sum_j\beta_j\frac{x_j-\mu_j}{\sigma_j}+\sum_c\beta_{c,v_c}
              +\beta_a\Big)

    over numbers j, categories c with value :math:`v_c`, and the group a where the model reads it. A
    missing number adds ``if_missing``, a category that is not listed adds nothing. Where decisions
    do not depend on the group, no sensitive column is named and one group stands for all rows.
    """
    network = layers_of(hand.rule)
    if len(hand.rule.members) > 1 or network.hidden:
        raise ConfigError(
            f"coefficients are those of one logistic regression, and this model is "
            f"{_in_words(hand, network)}. Export it --to onnx or --to skops."
        )
    [(weight, bias)] = network.split(hand.rule.members)
    values = iter(weight[0, :, 0].tolist())
    encoder = hand.encoder
    features = [_feature(column, values) for column in encoder.columns]
    rules = reading(encoder, features=False).rules if hand.needs_group else ()
    return {
        "format": FORMAT,
        "about": hand.about,
        "intercept": float(bias[0, 0]),
        "features": features,
        "sensitive": list(encoder.groups.columns) if hand.needs_group else [],
        "rules": [rule_to_dict(rule) for rule in rules],
        "groups": _groups(hand, values) if hand.needs_group else [EVERYBODY],
    }


def _groups(hand: HandOver, values: Iterator[float]) -> list[dict[str, Any]]:
    """Describe every group: the sensitive columns' values, its coefficient and its thresholds.

    From ``score`` on, a ``share`` of rows is decided positively; the shares of all thresholds that
    a row reaches add up to its chance.
    """
    groups, chance = hand.encoder.groups, hand.rule.chance
    return [
        {
            "name": name,
            "values": list(cells),
            "coefficient": next(values) if hand.encoder.sensitive_at_prediction else 0.0,
            "thresholds": HALF if chance is None else _reachable(thresholds(chance[number])),
        }
        for number, (name, cells) in enumerate(
            zip(groups.names, cells_of_groups(groups), strict=True)
        )
    ]


def _reachable(found: list[dict[str, float]]) -> list[dict[str, float]]:
    """Leave out the threshold that nobody reaches: it stands for rows that are never let in."""
    return [threshold for threshold in found if threshold["score"] < 1]


def _feature(column: Any, values: Iterator[float]) -> dict[str, Any]:
    """Describe a feature by its coefficients, which come in the order of the encoder."""
    if isinstance(column, NumberColumn):
        return {
            "column": column.name,
            "kind": "number",
            "clip": None if column.low is None else [column.low, column.high],
            "mean": column.mean,
            "sd": column.sd,
            "coefficient": next(values),
            "if_missing": next(values) if column.indicator else 0.0,
        }
    categories = {category: next(values) for category in column.categories}
    return {"column": column.name, "kind": "category", "coefficients": categories}


def _in_words(hand: HandOver, network: Network) -> str:
    if len(hand.rule.members) > 1:
        return f"a mixture of {len(hand.rule.members)}"
    return f"a network with hidden layers of {', '.join(map(str, network.hidden))}"
