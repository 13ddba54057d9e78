"""Models and scikit-learn classifiers: one as the other, and in skops files.

A skops file is read without running code.
"""

import numpy as np

from fedfb.core import Prediction
from fedfb.data.reading import reading
from fedfb.data.table import Table
from fedfb.errors import ConfigError
from fedfb.estimator import CLASSIFIERS, FederatedClassifier
from fedfb.estimator.training import parameters_of
from fedfb.experiments.spec_file import from_values
from fedfb.export.handover import HandOver, about


def classifier(hand: HandOver) -> FederatedClassifier:
    """Return a fitted classifier of labels 0 and 1, 1 the favourable one."""
    made = [one for one in CLASSIFIERS if one.algorithm == hand.experiment.algorithm]
    if not made:
        raise ConfigError(
            f"{hand.experiment.algorithm} has no classifier that could be written as skops. Export "
            "it --to onnx."
        )
    model: FederatedClassifier = made[0](**parameters_of(hand.experiment))
    names = list(reading(hand.encoder, group=False).columns)
    model.feature_names_in_, model.n_features_in_ = np.array(names, object), len(names)
    model.classes_, model.positive_ = np.array([0, 1]), 1
    model.encoder_, model.rule_ = hand.encoder, hand.rule
    model.groups_ = list(hand.encoder.groups.names)
    model.clients_ = list(hand.clients)
    model.report_ = hand.report
    model.history_ = [row for run in hand.report["runs"] for row in run["rounds"]]
    return model


def of_classifier(model: FederatedClassifier) -> HandOver:
    """Return what a fitted classifier hands over: ``onnx_model(of_classifier(model))``."""
    settings = {k: v for k, v in model.report_["settings"].items() if v is not None and v != []}
    experiment = from_values(settings)
    words = about(model.encoder_, experiment, experiment.seeds[0])
    clients = tuple(model.clients_)
    return HandOver(model.encoder_, model.rule_, experiment, clients, words, model.report_)


def skops_file(hand: HandOver) -> tuple[bytes, list[str]]:
    """Return the file's content and the types that a reader must trust, all of them ours."""
    from skops import io

    content = io.dumps(classifier(hand))
    types = io.get_untrusted_types(data=content)
    foreign = [name for name in types if not name.startswith("fedfb.")]
    if foreign:
        raise ConfigError(f"the skops file would hold types that are not ours: {foreign}.")
    return content, types


def run_skops(content: bytes, types: list[str], hand: HandOver, table: Table) -> Prediction:
    """Score and decide raw rows with what a skops file holds."""
    from skops import io

    model = io.loads(content, trusted=types)
    return hand._replace(encoder=model.encoder_, rule=model.rule_).decide(table)
