"""Whole runs of torch models: against the native engine, by seeds, saved, and in scikit-learn."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import fedfb
from fedfb.algorithms import METHODS
from fedfb.engine import choose_engine
from fedfb.errors import ConfigError
from fedfb.experiments.cache import key_of
from fedfb.experiments.conformance import check_method
from fedfb.experiments.conformance import playing as running
from fedfb.experiments.resolve import resolve
from fedfb.experiments.rule import rule_of
from fedfb.experiments.spec_file import from_values, to_toml
from fedfb.models import TorchModel, find_factory

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'fedfb[torch]'")
nets = pytest.importorskip("torch_nets")

DROPPING = "torch_nets:three_layers_with_dropout"
SMALL = {"rows": 400, "test_rows": 400, "rounds": 2, "local_epochs": 2}


def params_of(outcome, seed=0):
    fitted = outcome.fitted[seed]
    return fitted.algorithm.params(fitted.trained.state)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedavg"},
        {"algorithm": "fedfb"},
        {"algorithm": "fedfb", "alpha": (0.1, 0.5), "notion": "eo", "optimiser": "sgd"},
        {"algorithm": "fedprox", "weight_decay": 0.01},
        {"algorithm": "lft-fedavg"},
        {"algorithm": "fedfb", "notion": "cp", "participation": 0.5},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_a_torch_mlp_ends_where_the_native_engine_does(settings):
    """The same shape, start and order: 5 rounds of 5 epochs end within 1e-4 of the largest."""
    fixed = {"data": "synthetic", "rows": 1000, "rounds": 5, "local_epochs": 5, **settings}
    native, ours = (
        fedfb.train(fedfb.Experiment(**fixed, model=model, engine=engine))
        for model, engine in (("mlp", "native"), ("torch_nets:like_the_mlp", "auto"))
    )
    expected, found = params_of(native), params_of(ours)
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
    start = TorchModel("torch_nets:like_the_mlp", ours.federation.test.x.shape[1]).init(0)
    assert np.abs(expected - start).max() > 0.05  # there was something to differ in


def test_seeds_side_by_side_have_the_bits_of_each_alone():
    """Dropout draws from torch's one generator, and seeds run on threads."""
    both = fedfb.train(fedfb.Experiment(**SMALL, model=DROPPING, lr=(0.01,), seeds=(0, 1)), jobs=2)
    for number, seed in enumerate((0, 1)):
        alone = fedfb.train(fedfb.Experiment(**SMALL, model=DROPPING, lr=(0.01,), seeds=(seed,)))
        np.testing.assert_array_equal(params_of(both, number), params_of(alone))


def test_a_run_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    experiment = fedfb.Experiment(**{**SMALL, "rounds": 4}, model=DROPPING, lr=(0.01,))
    whole = fedfb.train(experiment)

    def stop(progress):
        if progress.round == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fedfb.train(experiment, checkpoints=tmp_path, on_round=stop)
    rounds = []
    resumed = fedfb.train(
        experiment, checkpoints=tmp_path, on_round=lambda progress: rounds.append(progress.round)
    )
    assert rounds[0] > 1
    np.testing.assert_array_equal(params_of(resumed), params_of(whole))


def test_a_function_is_kept_by_its_name():
    by_function = fedfb.Experiment(model=nets.three_layers_with_dropout)
    assert by_function == fedfb.Experiment(model=DROPPING)
    assert by_function.hash != fedfb.Experiment(model="torch_nets:linear").hash
    assert f'model = "{DROPPING}"' in to_toml(by_function)
    assert from_values({"model": DROPPING}) == by_function
    assert fedfb.Experiment(model=nets.Frozen).model == "torch_nets:Frozen"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda features: None, "cannot be found again by its name"),
        (torch.nn.Linear(2, 1), "built already"),
        ("mlpp", "did you mean 'mlp'.*or your own as MODULE:FUNCTION"),
        (3, "must be text"),
    ],
    ids=["lambda", "module", "misspelt", "number"],
)
def test_what_has_no_name_is_no_model(model, said):
    with pytest.raises(ConfigError, match=said):
        fedfb.Experiment(model=model)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch_nets:nothing", "torch_nets has no function nothing"),
        ("torch_nets:DROPPED.out", "is not the name of a function"),
        ("no_such_nets:build", "there is no module no_such_nets, neither in the working directory"),
        ("torch_nets:nn", "torch_nets has no function nn"),
        ("nets_that_stop:build", "nets_that_stop stops with ZeroDivisionError"),
    ],
)
def test_a_name_that_leads_nowhere_is_told(name, said, tmp_path, monkeypatch):
    (tmp_path / "nets_that_stop.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        find_factory(name)
    assert str(tmp_path) not in sys.path


def test_a_model_of_ones_own_is_trained_anew_every_time():
    """Its code may change without a change of its name, so no record may stand for it."""
    assert key_of(resolve(fedfb.Experiment()), "rows", 0) is not None
    assert key_of(resolve(fedfb.Experiment(model=DROPPING)), "rows", 0) is None


def test_the_module_taken_out_scores_as_the_run_does():
    outcome = fedfb.train(fedfb.Experiment(**SMALL, model=DROPPING))
    test = outcome.federation.test
    rule = rule_of(outcome.experiment, outcome.fitted[0], test.x.shape[1])
    module = rule.network.module(rule.members[0])
    with torch.no_grad():
        found = torch.sigmoid(module(torch.from_numpy(test.x).float())).reshape(-1)
    score = outcome.fitted[0].predict(test).score[0]
    np.testing.assert_allclose(found.numpy(), score, atol=1e-6)


def test_a_classifier_takes_a_function():
    rng = np.random.default_rng(0)
    x, group, client = rng.normal(size=(300, 4)), rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    y = (x[:, 0] + group > rng.normal(size=300)).astype(int)
    model = clone(
        fedfb.FedFBClassifier(model=nets.three_layers_with_dropout, lr=0.01, local_epochs=5)
    )
    model.fit(x, y, sensitive_features=group, client=client)
    assert model.score(x, y) > 0.6
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize("name", ["fedfb", "ditto", "fpfl"])
def test_methods_conform_on_the_torch_engine(name, monkeypatch):
    model = TorchModel("torch_nets:linear", running.PLAYED_FEATURES)
    engine = choose_engine("auto", model, np.float64)
    monkeypatch.setattr(running, "engine", lambda: engine)
    method = METHODS[name]
    assert check_method(method._replace(notions=method.notions[:1])) == []


@pytest.mark.slow
def test_torch_is_imported_for_torch_models_only():
    code = "import fedfb, sys; from fedfb.experiments.outcome import run\n"
    code += "run(fedfb.Experiment(rows=60, test_rows=60, rounds=1, local_epochs=1, model='mlp'))\n"
    code += "sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedfb\[torch\]'"):
        fedfb.run(fedfb.Experiment(**SMALL, model=DROPPING))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("FEDFB_DATA"), reason="FEDFB_DATA is not set")
def test_three_layers_with_dropout_train_under_fedfb_on_adult():
    """Two epochs in each of 4 rounds: most of the disparity goes for two points of accuracy."""
    fixed = {"data": "adult", "model": DROPPING, "lr": (0.005,), "rounds": 4, "local_epochs": 2}
    plain = fedfb.run(fedfb.Experiment(**fixed, algorithm="fedavg")).summary
    fair = fedfb.run(fedfb.Experiment(**fixed, algorithm="fedfb")).summary
    gaps = [one.disparity["demographic_parity"].mean for one in (plain, fair)]
    assert plain.accuracy.mean > 0.84
    assert fair.accuracy.mean > plain.accuracy.mean - 0.03
    assert gaps[0] > 0.09
    assert gaps[1] < gaps[0] / 3
