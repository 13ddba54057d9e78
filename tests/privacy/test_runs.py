"""Whole private runs: what is refused and told, and that an infinite epsilon asks for nothing."""

import subprocess
import sys
from math import inf

import numpy as np
import pytest

from fedfb.algorithms import METHODS
from fedfb.core import ClientTask
from fedfb.errors import ConfigError, DisclosureError, FedFBError
from fedfb.experiments.codec import to_json
from fedfb.experiments.frontier import frontier
from fedfb.experiments.outcome import run, train
from fedfb.experiments.privacy import check_privacy, plan_privacy, questions
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values
from fedfb.experiments.train import build, make_engine, training_notion
from fedfb.runtime import as_arrays

TINY = {"rows": 300, "test_rows": 200, "rounds": 2, "local_epochs": 1, "lr": (0.005,)}
GIVEN = {"sensitive_at_prediction": True}  # thresholds decide by the group
ABLE = ("fedavg", "fedprox", "fedfb", "fedfb-thresholds", "reweighing")


@pytest.mark.parametrize("algorithm", ["fedavg", "fedfb", "fedfb-thresholds"])
@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_with_an_infinite_epsilon_a_run_is_the_plain_one_bit_for_bit(algorithm, model):
    plain = Experiment(algorithm=algorithm, model=model, **GIVEN, **TINY)
    free = Experiment(algorithm=algorithm, model=model, privacy_epsilon=inf, **GIVEN, **TINY)
    assert free == plain
    assert from_values({"privacy_epsilon": "inf"}) == Experiment()
    assert free.hash == plain.hash
    one, other = train(plain), train(free)
    assert one.result == other.result
    for first, second in zip(one.fitted, other.fitted, strict=True):
        arrays = as_arrays(first.trained), as_arrays(second.trained)
        assert arrays[0].keys() == arrays[1].keys()
        assert all(np.array_equal(arrays[0][path], arrays[1][path]) for path in arrays[0])


def test_an_infinite_epsilon_switches_clipping_off_too():
    plain = train(Experiment(algorithm="fedavg", **TINY)).fitted[0].trained.state.params
    settings = {"privacy_epsilon": inf, "privacy_clip": 1e-6, "algorithm": "fedavg", **TINY}
    assert np.array_equal(train(Experiment(**settings)).fitted[0].trained.state.params, plain)


def test_a_torch_model_is_refused_before_training():
    pytest.importorskip("torch", reason="torch is not installed: pip install 'fedfb[torch]'")
    private = Experiment(privacy_epsilon=1.0, model="torch_nets:linear", **TINY)
    with pytest.raises(ConfigError, match="torch_nets:linear, a torch model"):
        check_privacy(resolve(private))


@pytest.mark.parametrize("algorithm", METHODS)
def test_every_method_is_private_or_refused_by_name(algorithm):
    method = METHODS[algorithm]
    notion = "dp" if "demographic_parity" in method.notions else "cp"
    private = {"rounds": 2, "privacy_epsilon": 1.0, **GIVEN}
    experiment = Experiment(algorithm=algorithm, notion=notion, **private)
    if algorithm in ABLE:
        check_privacy(resolve(experiment))
    else:
        with pytest.raises(FedFBError, match=algorithm):
            check_privacy(resolve(experiment))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"notion": "cp"}, "'fit' sends weighted"),
        ({"signal_loss": "ce"}, "'measure' sends losses"),
        ({"participation": 0.5}, "'measure' sends losses, rows"),
        ({"tune": True}, "costs privacy too"),
        ({"cost": 0.01}, "costs privacy too"),
        ({"target": (0.0, 0.1)}, "costs privacy"),
        ({"lr": (0.001, 0.01)}, "costs privacy"),
    ],
)
def test_what_cannot_be_hidden_is_refused_before_training(settings, says):
    with pytest.raises(FedFBError, match=says):
        run(Experiment(privacy_epsilon=1.0, **{**TINY, **settings}))


def test_who_does_not_know_of_privacy_cannot_build_a_private_run():
    experiment = resolve(Experiment(privacy_epsilon=1.0, **TINY))
    engine, notion = make_engine(experiment, 2), training_notion(experiment, 2, 3)
    with pytest.raises(ConfigError, match="--privacy-epsilon is offered"):
        build(experiment, engine, notion, given_grid(experiment))


def test_a_question_beyond_the_plan_is_refused():
    plan = plan_privacy(resolve(Experiment(privacy_epsilon=1.0, **TINY)), {0: 100})
    count = ClientTask("count", "sum", lambda *_: ({}, {}), sensitivity={"counts": 1.0})
    guard = plan.guard()
    for _ in range(plan.asked.answers):
        guard(count)
    with pytest.raises(DisclosureError, match="not planned for"):
        guard(count)


def test_questions_are_counted_over_the_whole_run():
    settings = {"privacy_epsilon": 1.0, "rounds": 7, "period": 3, "local_epochs": 4}
    asked = questions(resolve(Experiment(**settings)))
    assert (asked.trainings, asked.epochs, asked.answers) == (7, 7 * 4, 1 + 2)


def test_noise_is_new_every_seed_and_the_same_again():
    settings = {"algorithm": "fedfb", "privacy_epsilon": 1.0, "split_seed": 0, **TINY}
    experiment = Experiment(seeds=(0, 1), **settings)
    counts = [one.trained.state.counts for one in train(experiment).fitted]
    again = [one.trained.state.counts for one in train(experiment).fitted]
    assert not np.any(counts[0] == counts[1])
    assert np.array_equal(counts, again)


@pytest.mark.slow
def test_under_secure_sums_clients_share_the_noise():
    """Of three clients two must be honest; the variance of the sum of three shares is 3/2 of it."""
    settings = {"algorithm": "fedfb", "privacy_epsilon": 10.0, "split_seed": 0, **TINY}
    masked = train(Experiment(secure=True, seeds=tuple(range(12)), **settings))
    truth = (
        train(Experiment(**TINY, algorithm="fedfb", split_seed=0)).fitted[0].trained.state.counts
    )
    privacy = masked.result.privacy
    assert privacy.shared_by == 2
    scale = privacy.clients[0].answering_noise
    off = np.ravel([one.trained.state.counts - truth for one in masked.fitted])
    assert truth.min() > 6 * scale  # so that no count was cut off at 0
    assert abs(np.mean(off**2) / (1.5 * scale**2) - 1) < 5 * (2 / off.size) ** 0.5


def test_a_whole_client_can_be_hidden_with_a_warning_among_few(capsys):
    settings = {"algorithm": "fedfb", "privacy_epsilon": 5.0, "privacy_level": "client", **TINY}
    report = run(Experiment(**settings))
    assert "below 100" in capsys.readouterr().err
    privacy = report.privacy
    assert privacy.level == "client"
    for client in privacy.clients:
        assert (client.sampling, client.steps) == (1.0, TINY["rounds"])
        assert 4.9 <= client.epsilon <= 5.0


def test_the_frontier_has_points_at_every_epsilon():
    record = frontier(
        Experiment(**{**TINY, "target": (0.0, 1.0)}),
        ["fedavg", "fedfb", "lft-fedavg"],
        epsilons=(1.0, inf),
    )
    points = {(one.algorithm, one.epsilon) for one in record.points}
    assert points == {(name, e) for name in ("fedavg", "fedfb") for e in (1.0, None)}
    assert [one.algorithm for one in record.left_out] == ["lft-fedavg"]
    assert record.epsilons == (1.0, None)
    to_json(record)


def test_a_plain_run_never_loads_the_accountant():
    code = (
        "import sys; from fedfb.cli.app import app; "
        "app(['run', '--rows', '100', '--test-rows', '100', '--rounds', '1', '--lr', "
        "'0.005', '--privacy-epsilon', 'inf'], standalone_mode=False); "
        "sys.exit('dp_accounting' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
