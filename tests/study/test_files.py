"""What is written is read back as it was: studies, messages, memories and the journal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedfb.data.schema import ColumnSchema, Schema
from fedfb.errors import DataError
from fedfb.experiments.spec import Experiment
from fedfb.study.client import load_memory, save_memory
from fedfb.study.journal import ExchangeTotal, Journal, pack_message, unpack_message
from fedfb.study.study import make_study, study_from_toml, study_to_toml

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
texts = st.lists(words, min_size=1, max_size=4, unique=True).map(lambda v: tuple(sorted(v)))
numbers = st.builds(
    lambda scale: {"kind": "number", "missing": "mean", "scale": scale},
    st.sampled_from(("standard", "robust", "clip")),
)
categories = texts.map(lambda v: {"kind": "category", "categories": v, "missing": "category"})


@st.composite
def schemas(draw):
    """Draw schemas: features of both kinds, one that is left out, groups by ranges and by names."""
    names = draw(st.lists(words, min_size=5, max_size=8, unique=True))
    label, age, sex, left_out, *features = names
    [*edges] = draw(st.sets(st.floats(-1e6, 1e6), min_size=1, max_size=3))
    values = draw(texts)
    merge = ((draw(words), values[:2]),) if draw(st.booleans()) else ()
    columns = (
        ColumnSchema(label, "label", "category", values, positive=values[0]),
        ColumnSchema(age, "sensitive", "number", bins=tuple(sorted(edges))),
        ColumnSchema(sex, "sensitive", "category", values, merge=merge),
        ColumnSchema(left_out, "ignored", "category", why=draw(words)),
        *(ColumnSchema(f, "feature", **draw(st.one_of(numbers, categories))) for f in features),
    )
    return Schema(columns, (sex, age))


values = arrays.arrays(
    dtype=st.sampled_from([np.float64, np.float32, np.int64]),
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
named = st.dictionaries(st.text("abcdefgh_/", min_size=1, max_size=8), values, max_size=4)


@given(schema=schemas(), name=words, clients=st.sets(words, min_size=3, max_size=6))
def test_a_study_is_read_as_it_was_written(schema, name, clients):
    study = make_study(name, "here:1", tuple(clients), schema, Experiment(rounds=2))
    assert study_from_toml(study_to_toml(study), "there") == study


@given(sent=named)
def test_arrays_arrive_as_they_were_sent(sent):
    found = unpack_message(pack_message(sent))
    assert found.keys() == sent.keys()
    for name, value in sent.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@given(total=named, counted=st.lists(st.integers(0, 9), unique=True))
def test_an_answer_is_found_as_it_was_written(total, counted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, "owner", "run", 3)
    assert journal.find(1) is None
    journal.write(1, ExchangeTotal(total, tuple(counted)))
    found = Journal(folder, "owner", "run", 3).find(1)
    assert found.clients == tuple(counted)
    assert pack_message(found.arrays) == pack_message(total)
    Journal(folder, "owner", "run", 4).forget_earlier()
    assert journal.find(1) is None


def test_a_memory_is_that_after_the_last_answer_that_counted(tmp_path):
    first = {"lam": np.array([0.5])}
    assert load_memory(tmp_path, "", first) is first
    for round in (1, 2, 3):
        for question in (0, 1):
            told = {"lam": np.array([round + question / 10])}
            save_memory(tmp_path, (round, question), told, saved="1-1" if round > 1 else "")
    assert load_memory(tmp_path, "2-0", first)["lam"] == 2.0
    assert load_memory(tmp_path, "1-1", first)["lam"] == 1.1
    with pytest.raises(DataError, match="after round and exchange 1-0"):
        load_memory(tmp_path, "1-0", first)
