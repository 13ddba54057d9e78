"""What may be predicted: two labels of any type. The messages are those scikit-learn looks for."""

from typing import Any

from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from fedfb.errors import ConfigError
from fedfb.shapes import Array


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
