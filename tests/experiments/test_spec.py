"""An experiment reads and writes TOML without loss, and its hash names all but the seeds."""

import subprocess
import sys
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.errors import ConfigError
from fedfb.experiments.spec import Experiment
from fedfb.experiments.spec_file import from_values, read_settings, to_toml
from fedfb.settings import kind_of


def values_of(field) -> st.SearchStrategy:
    """Any value that a setting takes."""
    kind = kind_of(field)
    low, high = kind.range.ge, kind.range.le
    item = {
        str: st.sampled_from(kind.choices) if kind.choices else st.text(),
        int: st.integers(low or 0, high or 10**6),
        float: st.floats(
            low or 0.0,
            high,
            exclude_min=kind.range.gt is not None,
            allow_nan=False,
            allow_infinity=False,
        ),
        bool: st.booleans(),
    }[kind.base]
    if kind.form:
        unique = kind.form.differ
        return st.lists(item, min_size=kind.least, max_size=3, unique=unique).map(tuple)
    return st.none() | item if kind.optional else item


# As dictionaries: beartype draws random numbers, which a strategy may not.
SETTINGS = st.fixed_dictionaries(
    {}, optional={field.name: values_of(field) for field in fields(Experiment)}
)


@given(SETTINGS)
def test_an_experiment_survives_toml(tmp_path_factory, settings):
    experiment = Experiment(**settings)
    path = tmp_path_factory.getbasetemp() / "experiment.toml"
    path.write_text(to_toml(experiment), encoding="utf-8")
    back = from_values(read_settings(path))
    assert back == experiment
    assert back.hash == experiment.hash


@given(SETTINGS, st.lists(st.integers(0, 99), min_size=1, unique=True))
def test_the_hash_ignores_the_seeds(settings, seeds):
    experiment = Experiment(**settings)
    assert replace(experiment, seeds=tuple(seeds)).hash == experiment.hash


OTHER = {str: "other", int: 31, float: 0.75}


@pytest.mark.parametrize("field", [f for f in fields(Experiment) if f.name != "seeds"])
def test_the_hash_tells_any_other_setting_apart(field):
    kind = kind_of(field)
    if kind.base is bool:
        value = not field.default
    elif kind.choices:
        value = next(choice for choice in kind.choices if choice != field.default)
    else:
        value = kind.range.le if kind.base is int and kind.range.le else OTHER[kind.base]
    values = (value,) if kind.form else value
    assert Experiment(**{field.name: values}).hash != Experiment().hash


def test_the_hash_is_the_same_in_another_process():
    experiment = Experiment(alpha=(0.1, 3.0), sensitive=("sex", "Größe"), hidden=(3, 2))
    code = (  # there nothing checks types, and whole numbers may stand for decimal ones
        "from fedfb.experiments.spec import Experiment; "
        "given = dict(alpha=(0.1, 3), weight_decay=0, sensitive=('sex', 'Größe'), hidden=(3, 2)); "
        "print(Experiment(**given).hash)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == experiment.hash


def test_whole_and_decimal_numbers_are_the_same_setting():
    assert from_values({"alpha": [1]}) == from_values({"alpha": "1"}) == from_values({"alpha": 1})


def test_single_values_and_lists_both_do():
    assert from_values({"seeds": 3}).seeds == from_values({"seeds": [0, 1, 2]}).seeds == (0, 1, 2)
    assert from_values({"sensitive": "sex, race"}).sensitive == ("sex", "race")
    assert from_values({"tune": True}).tune is from_values({"tune": "yes"}).tune is True


def test_a_name_that_is_not_utf8_is_refused():
    with pytest.raises(ConfigError, match=r"--data: .* is not UTF-8"):
        Experiment(data="caf\udce9.csv")


def test_rows_and_clients_follow_the_split_seed():
    assert Experiment().split_of(7) == 7
    assert Experiment(split_seed=0).split_of(7) == 0
    assert Experiment(data="adult").split_of(7) == 0
    assert Experiment(data="adult", split_seed=3).split_of(7) == 3


def test_a_request_carries_every_setting_of_the_data():
    values = asdict(Experiment(data="bank", partition="group", sensitive_at_prediction=False))
    for name, value in asdict(Experiment(**values).request).items():
        assert value == values[name]


def test_the_level_of_privacy_may_be_called_as_before():
    before = {"privacy_epsilon": 1.0, "privacy_level": "silo"}
    assert from_values(before) == from_values({**before, "privacy_level": "client"})
