"""The paper's figures stand beside a result of the paper's own setting, and of no other."""

from dataclasses import fields, replace

import pytest
from msgspec import convert

from fedfb.experiments.resolve import resolve
from fedfb.experiments.result import Printed
from fedfb.experiments.spec import Experiment
from fedfb.paper.targets import OURS_TO_CHOOSE, printed, published

DATA = ("synthetic", "adult", "compas", "bank")
METHODS = ("fedavg", "lft-ensemble", "lft-fedavg", "fedfb", "cfl")


def papers(**settings):
    return Experiment(**{"model": "mlp", "sensitive_at_prediction": True, **settings})


@pytest.mark.parametrize("model", ["mlp", "logistic"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("algorithm", METHODS)
def test_the_paper_has_a_figure_for_its_own_setting(data, algorithm, model):
    experiment = papers(data=data, algorithm=algorithm, model=model)
    row = published(experiment)
    assert 0.5 < row.accuracy.mean < 1
    assert published(replace(experiment, notion="demographic_parity", seeds=(3,), tune=True)) == row


@pytest.mark.parametrize(
    "spelling",
    [
        *({"clients": 3}, {"rows": 3500, "test_rows": 1500}, {"rounds": 10}, {"target": (0.0,)}),
        *({"data": "compas", "sensitive": ("race", "sex")}, {"data": "adult", "split_seed": 0}),
        {"data": "adult", "sensitive": ("sex",)},
    ],
)
def test_another_spelling_of_the_papers_setting_has_the_same_figure(spelling):
    experiment = papers(**spelling)
    expected = convert(printed("tab:dp_mlp", "fedfb", experiment.data), Printed)
    assert published(experiment) == expected


OTHERS = {
    "label": {"label": "y"},
    "positive": {"positive": "1"},
    "sensitive": {"data": "compas", "sensitive": ("sex",)},
    "minimum_group": {"minimum_group": 50},
    "separator": {"separator": ";"},
    "decimal": {"decimal": ","},
    "thousands": {"thousands": "."},
    "encoding": {"encoding": "cp1252"},
    "dates": {"dates": ("opened: year",)},
    "client_rows": {"client_rows": 50},
    "rest": {"data": "compas", "rest": "others"},
    "client_column": {"client_column": "site"},
    "schema": {"schema": "own.toml"},
    "ignore": {"ignore": ("x1",)},
    "bins": {"bins": ("age: 25",)},
    "merge": {"merge": ("race: a+b=c",)},
    "test": {"test": "own.csv"},
    "query": {"query": "select 1"},
    "partition": {"partition": "group"},
    "clients": {"clients": 2},
    "groups": {"groups": 3},
    "heterogeneity": {"heterogeneity": "high"},
    "q": {"q": (0.5, 0.5)},
    "rows": {"rows": 300},
    "test_rows": {"test_rows": 300},
    "split_seed": {"split_seed": 3},
    "resplit": {"data": "adult", "resplit": True},
    "sensitive_at_prediction": {"sensitive_at_prediction": False},
    "notion": {"notion": "eo"},
    "hidden": {"hidden": (8,)},
    "variant": {"algorithm": "lft-ensemble", "variant": "vote"},
    "target": {"target": (0.1,)},
    "cost": {"cost": 0.01},
    "rounds": {"rounds": 2},
    "participation": {"participation": 0.5},
    "dropout": {"dropout": 0.2},
    "local_epochs": {"local_epochs": 1},
    "batch": {"batch": 8},
    "optimiser": {"optimiser": "sgd"},
    "weight_decay": {"weight_decay": 0.1},
    "period": {"period": 2},
    "bits": {"bits": 3},
    "privacy_epsilon": {"privacy_epsilon": 1.0},
    "privacy_delta": {"privacy_epsilon": 1.0, "privacy_delta": 0.1},
    "privacy_clip": {"privacy_epsilon": 1.0, "privacy_clip": 2.0},
    "privacy_signals": {"privacy_epsilon": 1.0, "privacy_signals": 0.5},
    "privacy_level": {"privacy_epsilon": 1.0, "privacy_level": "client"},
}


def test_every_setting_counts_unless_it_is_ours_to_choose():
    names = {field.name for field in fields(Experiment)}
    assert set(OURS_TO_CHOOSE) | set(OTHERS) == names
    assert not set(OURS_TO_CHOOSE) & set(OTHERS)


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_the_paper_has_no_figure_for_another_setting(change):
    assert published(papers(**change)) is None


@pytest.mark.parametrize(
    "change", [{"data": "own.csv"}, {"algorithm": "another"}, {"model": "own:net"}]
)
def test_the_paper_has_no_figure_for_data_methods_and_models_of_others(change):
    assert published(papers(**change)) is None


@pytest.mark.parametrize("algorithm", METHODS)
def test_the_usual_rounds_of_a_printed_method_are_the_papers(algorithm):
    rounds = resolve(papers(algorithm=algorithm)).rounds
    # FedAvg's network is one fit by summed gradients unless local training is asked for.
    assert rounds == (1 if algorithm in ("lft-ensemble", "fedavg") else 10)
