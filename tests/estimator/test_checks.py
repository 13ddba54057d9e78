"""scikit-learn's own checks, on one class of every way to decide."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedfb.estimator import (
    FedFBClassifier,
    FedFBThresholdsClassifier,
    LFTEnsembleClassifier,
)

SMALL = {"rounds": 3, "local_epochs": 10}
CHECKED = [
    FedFBClassifier(**SMALL),
    FedFBThresholdsClassifier(**SMALL, lr=0.05),
    LFTEnsembleClassifier(**SMALL, lr=0.05),
]
"""One model, thresholds by group, and a mixture of models."""

BY_GROUP = {
    "check_classifiers_train": "scores are cut at thresholds that are chosen, by group, for the "
    "fewest mistakes, and not at one half: this check wants the sign of decision_function"
}
"""The only exception. scikit-learn skips a check itself that needs SCIPY_ARRAY_API to be set."""


@pytest.mark.filterwarnings("ignore:.*no sensitive_features were given")
@parametrize_with_checks(
    CHECKED, expected_failed_checks=lambda estimator: BY_GROUP if estimator.by_group else {}
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)
