"""What a help text says of a default is what the code takes."""

import re
from dataclasses import fields

import pytest
import typer

from fedfb.algorithms import METHODS, find_method
from fedfb.cli.app import app
from fedfb.cli.options import make_option
from fedfb.experiments.outcome import run
from fedfb.experiments.resolve import picks_rate, resolve
from fedfb.experiments.spec import Experiment
from fedfb.settings import kind_of, read_word
from fedfb.tables.dialect import FLAGS
from fedfb.theory.achievable import ACHIEVABLE_LEVELS

STATED = re.compile(r"\(([^()]*\bdefault\b[^()]*)\)")


def parameters(command=None, path=()):
    command = command or typer.main.get_command(app)
    for below_name, below in getattr(command, "commands", {}).items():
        yield from parameters(below, (*path, below_name))
    for parameter in command.params:
        for words in STATED.findall(getattr(parameter, "help", None) or ""):
            yield path, parameter, words


SETTINGS = {field.name: field for field in fields(Experiment)}


def is_setting(parameter):
    """Return True if a parameter is a setting of the experiment, as the experiment declares it."""
    field = SETTINGS.get(parameter.name)
    if field is None:
        return False
    return parameter.help == make_option(field).annotation.__metadata__[0].help


def agrees(stated, parameter):
    """Return True if a default, typed as it is stated, is the code's."""
    if is_setting(parameter):
        field = SETTINGS[parameter.name]
        return read_word(stated, kind_of(field)) == field.default
    default = parameter.default
    return (
        type(default)(stated) == default
        if isinstance(default, int | float)
        else (stated == str(default))
    )


# What follows from the rest of what is typed, or from files. Each is looked at by a test below,
# or by the tests of its command.
FOLLOWS = {
    "algorithms": "fedavg,fedfb,cfl",  # test_compare: the methods that are compared
    "alpha": "fedfb and cfl .5",
    "bind": "the study's port everywhere",
    "client_column": "a client is a file",
    "clients": "as in the keys",
    "cut": "common",
    **dict.fromkeys(("separator", "decimal", "thousands", "encoding"), "detected"),
    "jobs": "all cores",
    "least": "two thirds",
    "levels": ",".join(f"{level:g}".removeprefix("0") or "0" for level in ACHIEVABLE_LEVELS),
    "lr": "chosen on validation rows",
    "name": "FOLDER's",
    "out": "",
    "outer": "solve",
    "pins": "that of --key",
    "rounds": "10",
    "rows": "ten million",  # MOST_ROWS
    "seed": "the run's first",
    "seeds": "5",
    "separator": "detected",
    "setting": "0",
    "signal_loss": "zero_one",
    "solver": "newton or lbfgs where nothing asks for local training",
    "silo_column": "a client is a file",
    "split_seed": "0",
    "state": "CLIENT.state by --key",
    "target": "0",
    "test": "30% of each client",
    "thousands": "detected",
    "threshold": ".5",
    "data": "the run's own test rows",
    **dict.fromkeys(FLAGS, "detected"),  # tests/tables/test_dialect
}


@pytest.mark.parametrize(
    ("parameter", "words"),
    [pytest.param(p, w, id=" ".join((*path, p.name))) for path, p, w in parameters()],
)
def test_a_default_in_a_help_text_is_the_codes(parameter, words):
    stated = re.search(r"\bdefault\b:? ?(.*)", words)[1]
    if words == "the default":
        return
    default = SETTINGS[parameter.name].default if is_setting(parameter) else parameter.default
    if default in (None, (), ""):
        assert parameter.name in FOLLOWS, f"{parameter.name}: nothing looks at {words!r}"
        assert stated.startswith(FOLLOWS[parameter.name])
    else:
        assert agrees(re.split(r"; | with ", stated)[0], parameter)


def test_help_texts_state_defaults():
    assert len(list(parameters())) > 60


def test_methods_that_a_help_text_names_are_those_it_is_about():
    helps = {f.name: f.metadata["setting"].help for f in fields(Experiment)}
    aims = [name for name, method in METHODS.items() if "target" in method.knobs]
    steps = [name for name, method in METHODS.items() if len(method.outer_rules) > 1]
    by_sums = [
        name
        for name, method in METHODS.items()
        if not picks_rate(Experiment(algorithm=name, notion=method.notions[0], model="mlp"))
    ]
    assert helps["target"].split(":")[0].split(", ") == aims
    assert helps["outer"].split(":")[0].split(", ") == steps
    assert "default: chosen on validation rows;" in helps["lr"]
    assert by_sums == [name for name, method in METHODS.items() if "solver" in method.reads]


def test_the_usual_steps_rounds_and_targets_are_as_the_help_says():
    for name in ("fedfb", "cfl"):
        assert resolve(Experiment(algorithm=name)).target == (0.0,)
        assert resolve(Experiment(algorithm=name)).outer == "solve"
        assert resolve(Experiment(algorithm=name, alpha=(1.0,))).outer == "step"
        assert resolve(Experiment(algorithm=name, outer="step")).alpha == (0.5,)
        assert resolve(Experiment(algorithm=name, outer="step", notion="cp")).alpha == (2.0,)
        assert find_method(name).rounds == 10


def test_the_usual_solver_is_as_the_help_says():
    """Fits by sums where there are some; what is given for local training asks for it."""
    assert resolve(Experiment()).solver == "newton"
    assert resolve(Experiment(model="mlp")).solver == "lbfgs"
    for asks in (
        {"lr": (0.01,)},
        {"local_epochs": 5},
        {"batch": 16},
        {"optimiser": "sgd"},
        {"scaling": "sample"},
        {"model": "mlp", "participation": 0.5},
        {"model": "nets:build"},
        {"outer": "paper"},
        {"alpha": (1.0,)},
        {"timing": "piggyback"},
        {"tune": True},
        {"privacy_epsilon": 1.0},
    ):
        assert resolve(Experiment(**asks)).solver == "local", asks
    assert resolve(Experiment(algorithm="ditto", notion="cp")).solver is None
    assert resolve(Experiment(algorithm="fedavg")).rounds == 1
    assert resolve(Experiment(algorithm="fedavg", solver="local")).rounds == 10


def test_rows_and_clients_follow_the_seed_where_the_help_says_so():
    assert Experiment(data="adult").split_of(3) == 0
    assert Experiment(data="adult", resplit=True).split_of(3) == 3
    assert Experiment(data="synthetic").split_of(3) == 3


TINY = {"rows": 200, "test_rows": 100, "rounds": 3, "local_epochs": 2, "lr": (0.05,)}


@pytest.mark.parametrize(
    ("settings", "usual"),
    [
        ({}, "zero_one"),
        ({"algorithm": "cfl"}, "zero_one"),
        ({"alpha": (0.5,)}, "prob"),
        ({"outer": "step"}, "prob"),
        ({"algorithm": "lft-fedavg", "alpha": (1.0,), "local_epochs": 15}, "prob"),
        ({"outer": "paper"}, "ce"),
        ({"notion": "cp", "outer": "step"}, "ce"),
    ],
)
def test_the_usual_loss_of_the_signal_is_the_one_that_the_help_names(settings, usual):
    def result(loss):
        report = run(Experiment(**{**TINY, **settings}, signal_loss=loss))
        return [(r.accuracy, r.rounds) for r in report.runs]

    left_open = result(None)
    assert left_open == result(usual)
    for other in {"zero_one", "prob", "ce"} - {usual}:
        assert left_open != result(other)
