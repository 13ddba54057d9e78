"""scikit-learn's own checks, on one class of every way to decide."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedfb.estimator import (
    FedAvgClassifier,
    FedFBClassifier,
    FedFBThresholdsClassifier,
    LFTEnsembleClassifier,
)

SMALL = {"rounds": 3, "local_epochs": 10}
CHECKED = [
    FedFBClassifier(**SMALL),
    FedFBClassifier(**SMALL, model="mlp", lr=0.02),
    FedAvgClassifier(**SMALL, lr=0.05),
    FedFBThresholdsClassifier(**SMALL, lr=0.05),
    LFTEnsembleClassifier(**SMALL, lr=0.05),
]
"""A logistic model, a network, no fairness, thresholds by group, and a mixture of models."""

# No check is left out. scikit-learn itself skips the one that needs SCIPY_ARRAY_API to be set.
EXCEPTIONS: dict[str, str] = {}


@pytest.mark.filterwarnings("ignore:.*no sensitive_features were given")
@parametrize_with_checks(CHECKED, expected_failed_checks=lambda estimator: EXCEPTIONS)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)
