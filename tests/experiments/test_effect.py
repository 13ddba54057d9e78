"""A setting that is given has an effect, or is refused: what methods declare is what they do."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from fedfb.algorithms import METHODS, find_method
from fedfb.data import load
from fedfb.errors import ConfigError
from fedfb.experiments import resolve as resolving
from fedfb.experiments.compare import compare, compare_into, for_methods, results_of
from fedfb.experiments.effect import forms_that_read, is_read, without_effect
from fedfb.experiments.frontier import _plan_all, frontier, plan
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import fit
from fedfb.settings import setting_of

TINY = {
    **{"rows": 160, "test_rows": 40, "rounds": 4, "local_epochs": 2, "batch": 32, "lr": (0.05,)},
    "sensitive_at_prediction": True,
}

OTHERS = {
    "scaling": [{"scaling": "sample"}],
    "signal_loss": [{"signal_loss": "ce"}, {"signal_loss": "zero_one"}],
    "normalise": [{"normalise": "l2"}],
    "decay": [{"decay": "const"}],
    "timing": [{"timing": "piggyback"}, {"timing": "local"}],
    "period": [{"period": 2}],
    "bits": [{"bits": 2}],
    "reference": [{"reference": "mean"}, {"reference": "first"}],
    "solver": [{"solver": "newton"}],
    "local_epochs": [{"local_epochs": 1}],
    "batch": [{"batch": 16}],
    "optimiser": [{"optimiser": "sgd"}],
    "weight_decay": [{"weight_decay": 0.5}],
    "participation": [{"participation": 0.5}],
    "dropout": [{"dropout": 0.5}],
}
"""Values of the settings that methods may read, other than the usual ones."""

AS_SUCH = {"outer", "target", "cost", "alpha", "accuracy_floor", "cut"}
"""Settings that are read before a method is built, or that change decisions but no score."""


def every_form():
    for name in METHODS:
        method = METHODS[name]
        for variant in method.variants:
            for rule in method.outer_rules or (None,):
                yield pytest.param(name, variant, rule, id=f"{name}-{variant}-{rule}")


@cache
def rows(groups):
    return load(Experiment(**TINY, groups=groups).request, 0)


def trained(experiment):
    """Return scores on test rows; "refused" where the method has reasons of its own."""
    data = rows(experiment.groups)
    try:
        done = resolve(experiment)
        return fit(done, data, given_grid(done), 0, watched=False).predict(data.test).score
    except ConfigError:
        return "refused"


def differ(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) != isinstance(other, str)
    return not np.allclose(one, other, rtol=0, atol=1e-6)


def test_every_setting_that_depends_on_the_method_is_tried_here():
    by_method = {field.name for field in fields(Experiment) if setting_of(field).by_method}
    assert by_method == OTHERS.keys() | AS_SUCH
    declared = {name for method in METHODS.values() for name in method.reads}
    assert declared - by_method <= {"alpha"}


@pytest.mark.parametrize(("name", "variant", "rule"), list(every_form()))
def test_a_method_reads_what_it_declares_and_nothing_else(name, variant, rule, monkeypatch):
    monkeypatch.setattr(resolving, "without_effect", lambda experiment: {})
    method = find_method(name)
    groups = 2 if method.most_groups else 3
    with_effect = set()
    for notion in dict.fromkeys((method.notions[0], method.notions[-1])):
        usual = Experiment(
            **TINY, algorithm=name, variant=variant, outer=rule, notion=notion, groups=groups
        )
        before = trained(usual)
        with_effect |= {
            setting
            for setting, values in OTHERS.items()
            if any(differ(before, trained(replace(usual, **value))) for value in values)
        }
    assert with_effect == {setting for setting in OTHERS if is_read(usual, setting)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (8,)}, "--hidden has no effect with --model logistic. .* give --model mlp"),
        ({"data": "compas", "split_seed": 3}, "--split-seed has no effect: .* nothing is drawn"),
        ({"bits_mode": "per_round"}, "--bits-mode has no effect without --bits"),
        ({"rounding": "stochastic"}, "--rounding has no effect without --bits"),
        ({"accuracy_floor": 0.5}, "--accuracy-floor has no effect without --tune"),
        ({"accuracy_floor": 0.5, "tune": True}, "with fedfb and --outer solve"),
        ({"privacy_delta": 1e-3}, "--privacy-delta has no effect without --privacy-epsilon"),
        ({"privacy_clip": 2.0}, "--privacy-clip has no effect without --privacy-epsilon"),
        ({"privacy_signals": 0.5}, "--privacy-signals has no effect without"),
        ({"privacy_level": "client"}, "--privacy-level has no effect without"),
        ({"algorithm": "fedavg", "alpha": (1.0,)}, "--alpha has no effect with fedavg.*: fedfb,"),
        ({"algorithm": "fedavg", "target": (0.1,)}, "--target has no effect with fedavg"),
        ({"algorithm": "fedavg", "cost": 0.1}, "--cost has no effect with fedavg"),
        ({"algorithm": "fedavg", "outer": "step"}, "--outer has no effect with fedavg"),
        ({"algorithm": "fedavg", "bits": 4}, "--bits has no effect with fedavg"),
        ({"algorithm": "fedavg", "reference": "mean"}, "--reference has no effect with fedavg"),
        ({"algorithm": "fpfl", "local_epochs": 5}, "--local-epochs has no effect with fpfl"),
        ({"algorithm": "cfl", "participation": 0.5}, "with cfl: all rows are in one place"),
        ({"outer": "solve", "alpha": (1.0,)}, "give --outer step or --outer paper"),
        ({"normalise": "l2"}, "--normalise has no effect with fedfb and --outer solve"),
        ({"outer": "paper", "normalise": "l2"}, "--normalise has no effect with fedfb and --outer"),
        ({"knobs": ("alpha=1",)}, "--set alpha has no effect with fedfb and --outer solve"),
        ({"algorithm": "fairfed", "alpha": (1.0,)}, "and --variant v3. .* --variant v3-fairbatch"),
    ],
)
def test_a_setting_without_effect_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        resolve(Experiment(**settings))


@pytest.mark.parametrize(("name", "variant", "rule"), list(every_form()))
def test_what_is_resolved_can_be_resolved_again(name, variant, rule):
    notion = find_method(name).notions[0]
    done = resolve(Experiment(algorithm=name, variant=variant, outer=rule, notion=notion))
    assert without_effect(done) == {}
    assert given_grid(resolve(done)) == given_grid(done)


def test_in_a_comparison_settings_go_with_the_setting_that_they_need():
    given = Experiment(bits=8, bits_mode="per_round", rounding="stochastic")
    plain, fair = for_methods(given, ["fedavg", "fedfb"])
    assert (plain.bits, plain.bits_mode, plain.rounding) == (None, "per_value", "nearest")
    assert (fair.bits, fair.bits_mode, fair.rounding) == (8, "per_round", "stochastic")


@pytest.mark.parametrize("many", [compare, lambda *of: results_of(*of, None)])
def test_bits_that_are_too_few_for_the_groups_are_refused_before_anything_is_trained(many):
    given = Experiment(**{**TINY, "rounds": 10**6}, groups=3, bits=6, bits_mode="per_round")
    with pytest.raises(ConfigError, match=r"3 for each of 2 values.* at least --bits 8"):
        many(given, ["fedavg", "fedfb"])


def test_in_a_comparison_a_setting_is_for_those_methods_that_read_it():
    given = Experiment(alpha=(0.1,), decay="const", scaling="sample", knobs=("mu=1",))
    shared = for_methods(given, ["fedavg", "fedfb", "cfl", "fedprox"])
    read = [(one.alpha, one.decay, one.scaling, one.knobs) for one in shared]
    assert read == [
        ((), "inv_sqrt", "mass", ()),
        ((0.1,), "const", "sample", ()),
        ((0.1,), "const", "mass", ()),
        ((), "inv_sqrt", "mass", ("mu=1",)),
    ]


@pytest.mark.parametrize(
    ("settings", "methods", "message"),
    [
        ({"hidden": (8,)}, ["fedavg", "fedfb"], "--hidden has no effect with --model logistic"),
        ({"decay": "inv"}, ["fedavg", "fedfb"], "with fedfb and --outer solve"),
        ({"decay": "inv"}, ["fedavg", "fedprox"], "--decay has no effect with fedavg"),
        ({"knobs": ("gamma=2",)}, ["fedavg", "fedfb"], "unknown knob of fedavg 'gamma'"),
        ({}, ["fedavg", "fedbf"], "did you mean 'fedfb'"),
        ({}, ["fedavg", "q-ffl"], "q-ffl does not aim at demographic parity"),
        ({"secure": True}, ["fedavg", "fcfl"], "fcfl needs every client's own answer"),
        ({"privacy_epsilon": 1.0}, ["fedavg", "cfl"], "cfl trains on all rows in one place"),
        ({"privacy_epsilon": 1.0}, ["fedavg", "fairfed"], "fairfed"),
        ({"sensitive_at_prediction": False}, ["fedavg", "hardt"], "hardt"),
        ({"groups": 3}, ["fedavg", "fcfl"], "fcfl compares at most 2 groups"),
    ],
)
def test_a_comparison_refuses_every_method_before_it_trains_one(
    settings, methods, message, monkeypatch, tmp_path
):
    for module in ("compare", "cache"):
        monkeypatch.setattr(
            f"fedfb.experiments.{module}.train", lambda *a, **k: pytest.fail("trained")
        )
    given = Experiment(**{**TINY, **settings})
    for call in (
        lambda: compare(given, methods),
        lambda: results_of(given, methods, None),
        lambda: compare_into(tmp_path / "kept", given, methods),
    ):
        with pytest.raises(Exception, match=message):
            call()
    assert not (tmp_path / "kept").exists()


def test_a_frontier_shares_settings_and_refuses_what_none_reads():
    curves = plan(Experiment(decay="const", local_epochs=5), 2, ["fpfl", "lft-fedavg"]).curves
    read = {one.algorithm: (one.experiment.decay, one.experiment.local_epochs) for one in curves}
    assert read == {"fpfl": ("inv_sqrt", 30), "lft-fedavg": ("const", 5)}
    with pytest.raises(ConfigError, match="--hidden has no effect"):
        plan(Experiment(hidden=(8,)), 2)


def test_a_frontier_knows_its_methods_before_rows_are_read(monkeypatch):
    monkeypatch.setattr("fedfb.experiments.frontier.load_rows", lambda *a: pytest.fail("read"))
    with pytest.raises(ConfigError, match="did you mean 'fedfb'"):
        frontier(Experiment(), ["fedavg", "fedbf"])


def test_settings_of_privacy_are_for_the_finite_epsilons_of_a_frontier():
    pytest.importorskip("dp_accounting")
    given = Experiment(**{**TINY, "rounds": 1}, privacy_clip=2.0)
    planned = _plan_all(given, (1.0, float("inf")), 2, ["fedavg"], quick=True)
    clips = [
        (one.experiment.privacy_epsilon, one.experiment.privacy_clip) for one in planned.curves
    ]
    assert clips == [(1.0, 2.0), (None, 1.0)]


def test_a_method_of_ones_own_reads_what_its_clients_train_with():
    own = find_method("fedavg")._replace(name="own")
    assert forms_that_read(own, "batch") == ()
    assert forms_that_read(own, "decay") is None


def test_scaling_of_rows_is_refused_where_rows_of_a_client_have_one_weight():
    solved = Experiment(notion="cp", scaling="sample")
    assert "one weight" in without_effect(solved)["scaling"]
    assert not without_effect(replace(solved, outer="paper"))
    assert not without_effect(replace(solved, notion="dp"))
