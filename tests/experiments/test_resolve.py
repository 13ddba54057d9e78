import pytest

from fedfb.algorithms import METHODS, find_method
from fedfb.errors import ConfigError
from fedfb.experiments.compare import for_methods
from fedfb.experiments.resolve import given_grid, resolve, total_rounds, tuning_grid
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import training_notion


def test_what_is_left_open_is_what_the_method_usually_takes():
    done = resolve(Experiment(algorithm="fedfb", outer="step"))
    assert (done.alpha, done.lr, done.rounds, done.variant) == ((0.5,), (), 10, "plain")
    assert resolve(done) == done
    steps = resolve(Experiment(algorithm="afl", notion="cp"))
    assert (steps.rounds, steps.lr) == (300, ())
    private = resolve(Experiment(algorithm="fedavg", privacy_epsilon=3.0))
    assert private.lr == (0.005,)
    assert total_rounds(Experiment(seeds=(0, 1), tune=True)) == 40


@pytest.mark.parametrize("tune", [False, True])
@pytest.mark.parametrize("algorithm", list(METHODS))
def test_to_resolve_twice_is_to_resolve_once(algorithm, tune):
    open_one = Experiment(
        algorithm=algorithm, notion=find_method(algorithm).notions[0], tune=tune, seeds=(0, 1)
    )
    done = resolve(open_one)
    assert resolve(done) == done
    assert given_grid(done) == given_grid(open_one)
    assert not tune or tuning_grid(done) == tuning_grid(open_one)


def test_what_is_tuned_among_a_methods_values_is_not_tuned_among_ones_own():
    """The store goes by the resolved experiment: it must tell the two apart."""
    own = resolve(Experiment(algorithm="fedavg", tune=True, lr=(0.005,)))
    assert own != resolve(Experiment(algorithm="fedavg", tune=True))


def test_clients_are_compared_with_a_larger_step():
    stepping = Experiment(notion="cp", outer="step")
    assert resolve(stepping).alpha == (2.0,)
    assert {run["alpha"] for run in tuning_grid(stepping)} >= {5.0, 10.0}


def test_weights_are_solved_for_unless_a_step_is_given():
    assert (resolve(Experiment()).outer, resolve(Experiment()).alpha) == ("solve", ())
    assert resolve(Experiment(alpha=(0.1,))).outer == "step"
    assert resolve(Experiment(algorithm="fedavg")).outer is None


def test_knobs_make_a_grid():
    runs = given_grid(Experiment(algorithm="q-ffl", notion="cp", knobs=("q=0,0.1",), lr=(0.1, 0.2)))
    assert [(run["q"], run["lr"]) for run in runs] == [(0, 0.1), (0, 0.2), (0.1, 0.1), (0.1, 0.2)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "q-ffl"}, "does not aim at demographic parity, only at client parity"),
        ({"algorithm": "fairfed", "variant": "v33"}, "did you mean 'v3'"),
        ({"knobs": ("beta=1",)}, "unknown knob of fedfb 'beta'"),
        ({"algorithm": "fairfed", "knobs": ("beta=-1",)}, "must lie between 0 and inf"),
        ({"algorithm": "fairfed", "knobs": ("beta=x",)}, "expected numbers"),
        ({"algorithm": "fairfed", "knobs": ("beta=nan",)}, "must lie between"),
    ],
)
def test_what_does_not_fit_the_method_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        resolve(Experiment(**settings))


def test_in_a_comparison_every_method_gets_the_knobs_it_has():
    both = Experiment(knobs=("beta=2",))
    names = ["fedfb", "fairfed"]
    assert [one.knobs for one in for_methods(both, names)] == [(), ("beta=2",)]
    with pytest.raises(ConfigError, match="unknown knob"):
        for_methods(Experiment(knobs=("gamma=2",)), names)


def test_more_than_two_are_compared_with_their_mean_unless_told_otherwise():
    assert not training_notion(Experiment(), groups=2, clients=5).symmetric
    assert training_notion(Experiment(), groups=3, clients=2).symmetric
    assert training_notion(Experiment(notion="cp"), groups=2, clients=3).symmetric
    assert not training_notion(Experiment(reference="first"), groups=3, clients=2).symmetric
