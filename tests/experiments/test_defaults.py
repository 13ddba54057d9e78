"""One default for all: the command line, the estimators, a study and the loaders of data agree."""

import inspect
from dataclasses import asdict, fields

import pytest

from fedfb.algorithms import METHODS, find_method
from fedfb.data import federation_from_frames
from fedfb.data.request import DataRequest
from fedfb.data.schema import ColumnSchema, Schema
from fedfb.errors import ConfigError
from fedfb.estimator import CLASSIFIERS, FedFBThresholdsClassifier
from fedfb.estimator.training import make_experiment
from fedfb.experiments.compare import for_methods
from fedfb.experiments.explain import explain
from fedfb.experiments.outcome import run
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.paper import targets
from fedfb.paper.targets import published
from fedfb.study.keys import make_private_keys
from fedfb.study.study import make_study, study_to_toml
from study.by_hand import TERMS

USUAL = asdict(Experiment())

ESTIMATOR_DIFFERS = {
    "data": "rows are handed to fit",
    "algorithm": "the class is the method",
    "notion": "a class aims at the first notion that its method knows",
}
STUDY_DIFFERS = {
    "data": "every client names its own file when it joins",
    "secure": "clients are on machines of different owners, so all sums are masked",
}
LOADERS_DIFFER = {
    "split_seed": "an experiment of drawn data splits by the seed of the run, a loader has none",
    "sensitive": "a loader names the paper's attributes itself; () asks for these",
    "label": "a loader has no None: an empty name asks for the schema's",
    "positive": "as label",
    "precision": "rows in float64 serve experiments of both precisions",
}
LOADERS = (federation_from_frames, DataRequest)
COLUMNS = (
    ColumnSchema("age", "feature", "number", missing="mean"),
    ColumnSchema("sex", "sensitive", "category", ("F", "M")),
    ColumnSchema("paid", "label", "category", ("no", "yes"), positive="yes"),
)
BY_GROUP = ("fedfb-thresholds", "hardt")


def study_of(experiment):
    keys = [make_private_keys(name).public for name in ("a", "b", "c")]
    terms = {**TERMS, "code": "0"}
    server = make_private_keys("s", "here").public
    return make_study(terms, Schema(COLUMNS, ("sex",)), experiment, server, keys)


def differing(settings, usual):
    return {name for name, value in asdict(settings).items() if value != usual[name]}


def test_the_command_line_without_flags_is_the_usual_experiment():
    assert from_values({}) == Experiment()
    assert Experiment().sensitive_at_prediction is False


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda one: one.algorithm)
def test_an_estimator_trains_what_the_command_line_trains(classifier):
    experiment = make_experiment(classifier(), groups_given=True)
    assert differing(experiment, USUAL) <= set(ESTIMATOR_DIFFERS)
    assert experiment.notion == find_method(classifier.algorithm).notions[0]


def test_a_study_trains_what_the_command_line_trains():
    assert differing(study_of(Experiment()).experiment, asdict(resolve(Experiment()))) == set(
        STUDY_DIFFERS
    )


@pytest.mark.parametrize("load", LOADERS, ids=lambda one: one.__name__)
def test_rows_are_loaded_by_the_defaults_of_an_experiment(load):
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(load).parameters.items()
        if name in USUAL and parameter.default is not parameter.empty
    }
    assert "sensitive_at_prediction" in defaults
    differ = {name for name, value in defaults.items() if value != USUAL[name]}
    assert differ <= set(LOADERS_DIFFER)
    assert {one.name for one in fields(DataRequest)} <= set(USUAL)


@pytest.mark.parametrize("method", BY_GROUP)
def test_deciding_by_the_group_is_refused_until_somebody_chooses_it(method):
    why = "a choice that a person has to make"
    what_to_do = r"add --sensitive-at-prediction yes \(in Python: sensitive_at_prediction=True\)"
    absent = Experiment(algorithm=method, data="no/such/rows.csv", label="y", positive="1",
                        sensitive=("a",))  # fmt: skip
    for match in (f"{method} decides by the group", why, what_to_do):
        with pytest.raises(ConfigError, match=match):
            run(absent)  # before rows are read
        with pytest.raises(ConfigError, match=match):
            for_methods(Experiment(), ["fedavg", method])  # before any of them is trained
    given = Experiment(algorithm=method, sensitive_at_prediction=True, rows=60, test_rows=60)
    assert run(given, warn=False).settings["sensitive_at_prediction"] is True


def test_only_methods_by_group_are_refused_without_it():
    refused = set()
    for name in METHODS:
        try:
            for_methods(Experiment(notion=METHODS[name].notions[0]), [name])
        except ConfigError:
            refused.add(name)
    assert refused == set(BY_GROUP)


def test_estimators_refuse_in_the_same_words():
    rows, labels = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    with pytest.raises(ConfigError, match="a choice that a person has to make") as said:
        FedFBThresholdsClassifier().fit(rows, labels, sensitive_features=["a", "a", "b", "b"])
    with pytest.raises(ConfigError) as printed:
        run(Experiment(algorithm="fedfb-thresholds"))
    assert str(said.value) == str(printed.value)


def test_what_a_method_by_group_exchanges_is_shown_to_all():
    assert explain(Experiment(algorithm="fedfb-thresholds")).needs_only_sums


@pytest.mark.parametrize("given", [False, True])
def test_a_study_states_whether_the_group_is_given(given):
    study = study_of(Experiment(sensitive_at_prediction=given))
    assert f"sensitive_at_prediction = {str(given).lower()}  #" in study_to_toml(study)


def test_the_reproduction_states_the_papers_choice():
    """Also where it is not the default, or a change of the default would change its figures."""
    for name in targets.target_names():
        assert targets.read_target(name).settings["sensitive_at_prediction"] is True


def test_the_papers_figures_stand_beside_the_papers_choice_only():
    assert published(Experiment(model="mlp", sensitive_at_prediction=True)) is not None
    assert published(Experiment(model="mlp")) is None
