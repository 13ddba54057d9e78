"""Logistic regression as coefficients in JSON, to be read by people and by any language."""

from collections.abc import Iterator
from typing import Any

from fedfb.algorithms.fedfb_thresholds import thresholds
from fedfb.data.columns import NumberColumn
from fedfb.data.derive import rule_to_dict
from fedfb.errors import ConfigError
from fedfb.export.handover import HandOver

FORMAT = "fedfb coefficients 1"


def coefficients(hand: HandOver) -> dict[str, Any]:
    r"""Return the model as plain values.

    .. math:: s=\sigma\Big(b+\sum_j\beta_j\frac{x_j-\mu_j}{\sigma_j}+\sum_c\beta_{c,v_c}
              +\beta_a\Big)

    over numbers j, categories c with value :math:`v_c`, and the group a where the model reads it. A
    missing number adds ``if_missing``, a category that is not listed adds nothing.
    """
    if len(hand.rule.members) > 1 or hand.rule.network.hidden:
        raise ConfigError(
            f"coefficients are those of one logistic regression, and this model is "
            f"{_in_words(hand)}. Export it --to onnx or --to skops."
        )
    [(weight, bias)] = hand.rule.network.split(hand.rule.members)
    values = iter(weight[0, :, 0].tolist())
    encoder = hand.encoder
    features = [_feature(column, values) for column in encoder.columns]
    given = encoder.sensitive_at_prediction
    return {
        "format": FORMAT,
        "about": hand.about,
        "intercept": float(bias[0, 0]),
        "features": features,
        "groups": {
            "columns": list(encoder.groups.columns),
            "names": list(encoder.groups.names),
            "coefficients": dict(zip(encoder.groups.names, values, strict=True)) if given else {},
        },
        "derived": [rule_to_dict(rule) for rule in hand.reading.rules],
        "thresholds": _thresholds(hand),
    }


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


def _thresholds(hand: HandOver) -> dict[str, list[dict[str, float]]]:
    """Return every group's thresholds: from ``score`` on a ``share`` of rows is decided positively.

    Shares add up; those of all thresholds that a score reaches are the chance of a 1.
    """
    names = hand.encoder.groups.names
    if hand.rule.chance is None:
        return {name: [{"score": 0.5, "share": 1.0}] for name in names}
    return {n: thresholds(row) for n, row in zip(names, hand.rule.chance, strict=True)}


def _in_words(hand: HandOver) -> str:
    if len(hand.rule.members) > 1:
        return f"a mixture of {len(hand.rule.members)}"
    return f"a network with hidden layers of {', '.join(map(str, hand.rule.network.hidden))}"
