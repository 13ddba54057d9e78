"""What is written is read back as it was: studies, keys, messages and the journal."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedfb.data.schema import ColumnSchema, Schema
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.spec import Experiment
from fedfb.study.exchange import accept_broadcast, read_arrays, write_arrays
from fedfb.study.journal import Journal, Message, TotalRecord
from fedfb.study.keys import make_private_keys, read_private_keys, read_public_keys, write_keys
from fedfb.study.study import make_study, study_from_toml, study_to_toml
from fedfb.study.wire import Request, Response, Turn, read_request, read_response, write
from study.by_hand import TERMS

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
texts = st.lists(words, min_size=1, max_size=4, unique=True).map(lambda v: tuple(sorted(v)))
names = (
    st.text("abcdefghäöü0-_ x", min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda name: name and not name.startswith("-"))
)
numbers = st.builds(
    lambda scale: {"kind": "number", "missing": "mean", "scale": scale},
    st.sampled_from(("standard", "robust", "clip")),
)
categories = texts.map(lambda v: {"kind": "category", "categories": v, "missing": "category"})
KEYS = make_private_keys("server", "127.0.0.1").public


@st.composite
def schemas(draw):
    """Draw schemas: features of both kinds, one that is left out, groups by ranges and by names."""
    drawn = draw(st.lists(words, min_size=5, max_size=8, unique=True))
    label, age, sex, left_out, *features = drawn
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


@given(schema=schemas(), name=words, clients=st.sets(names, min_size=3, max_size=6))
def test_a_study_is_read_as_it_was_written(schema, name, clients):
    keys = [msgspec.structs.replace(KEYS, name=client) for client in clients]
    terms = {**TERMS, "name": name, "code": "0"}
    study = make_study(terms, schema, Experiment(rounds=2), KEYS, keys)
    found = study_from_toml(study_to_toml(study), "there")
    assert found == study
    assert found.seal == study.seal
    text = study_to_toml(study).replace("rounds = 2 ", "rounds = 3 ")
    assert study_from_toml(text, "there").seal != study.seal


@given(sent=named)
def test_arrays_arrive_as_they_were_sent(sent):
    found = read_arrays(write_arrays(sent), sent)
    assert found.keys() == sent.keys()
    for name, value in sent.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@given(sent=named, more=st.binary(min_size=1, max_size=9))
def test_arrays_of_another_length_are_refused(sent, more):
    with pytest.raises(ValueError, match="bytes, expected"):
        read_arrays(write_arrays(sent) + more, sent)


def test_a_broadcast_is_accepted_up_to_rounding_only():
    planned = {"params": np.array([1.0, -2e6, 0.0]), "counts": np.array([3])}
    near = {**planned, "params": planned["params"] * (1 + 1e-12)}
    far = {**planned, "params": planned["params"] + 1e-6}
    other = {**planned, "counts": np.array([4])}
    assert accept_broadcast(write_arrays(near), planned) is not None
    assert accept_broadcast(write_arrays(far), planned) is None
    assert accept_broadcast(write_arrays(other), planned) is None
    assert accept_broadcast(b"", planned) is None


turns = st.tuples(*[st.integers(-1, 2**31 - 1)] * 3).map(lambda values: Turn(*values))


@given(
    turn=turns, answer=st.binary(max_size=99), state=st.sampled_from(["waiting", "left", "done"])
)
def test_messages_are_read_as_they_were_written(turn, answer, state):
    request = Request(b"s" * 32, b"code", state, 3, b"", turn, answer)
    assert read_request(write(request)) == request
    response = Response("turn", turn, b"c" * 32, (0, 2), (2,), answer, b"", b"e", {1: b"a"})
    assert read_response(write(response)) == response


def test_keys_are_read_as_they_were_written_and_never_overwritten(tmp_path):
    keys = make_private_keys("north")
    private, public = write_keys(keys, tmp_path)
    assert read_private_keys(private) == keys
    assert read_public_keys(public) == keys.public
    assert private.stat().st_mode & 0o77 == 0
    with pytest.raises(ConfigError, match="never overwritten"):
        write_keys(make_private_keys("north"), tmp_path)
    assert read_private_keys(private) == keys


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a\x1b[2J", "x" * 65, " a", "a,b"])
def test_names_that_cannot_name_a_file_are_refused(name):
    with pytest.raises(ConfigError, match="name"):
        make_private_keys(name).public.check()


TOTAL = TotalRecord(b"c" * 32, (0, 1, 3), (0, 3), b"words")


def test_a_journal_holds_totals_messages_and_memories(tmp_path):
    journal = Journal(tmp_path, "seal")
    journal.write_message(1, Message(0, 2, b"invitation", b"answer"))
    journal.write_message(1, Message(2, 2, b"keys", b"shares"), flush=True)
    again = Journal(tmp_path, "seal")
    assert [m.turn for m in again.messages(1)] == [0, 2]
    assert again.last_attempt() == 1
    again.write_total(0, TOTAL, "line\n", ("run", {"lam": np.array([0.5])}))
    assert again.find_total(0) == TOTAL
    assert again.messages(1) == []
    assert again.find_memory("run")["lam"] == 0.5
    assert again.ledger_lines() == "line\n"
    assert again.count_totals() == 1
    with pytest.raises(ConfigError, match="belongs to another study"):
        Journal(tmp_path, "other")


def test_a_total_that_was_changed_on_the_disk_is_refused(tmp_path):
    journal = Journal(tmp_path, "seal")
    journal.write_total(0, TOTAL, "", None)
    journal._database.execute("UPDATE totals SET survivors = ?", (b"\0\0\0\1",))
    with pytest.raises(DataError, match="has changed since fedfb wrote it"):
        journal.find_total(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"least": 3}, "of 4 clients at least 4 must be in a sum, because sums over different"),
        ({"least": 2, "allow_differences": True}, "of 4 clients at least 3 must be in a sum, or a"),
        ({"address": "nowhere"}, "expected host:port"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"processors": "some"}, "processors"),
        ({"participation": 0.5}, "the differences show values of single clients"),
        ({"leave_out_clients": True}, "with all of its clients"),
        ({"model": "os:system"}, "every client would run it because the study names it"),
        ({"clients": 2}, "the study has 2 clients, and a secure sum needs at least 3"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused(changes, words):
    columns = (
        ColumnSchema("age", "feature", "number", missing="mean"),
        ColumnSchema("sex", "sensitive", "category", ("F", "M")),
        ColumnSchema("paid", "label", "category", ("no", "yes"), positive="yes"),
    )
    settings = {k: v for k, v in changes.items() if hasattr(Experiment, k)}
    terms = {k: v for k, v in changes.items() if k not in settings and k != "clients"}
    keys = [msgspec.structs.replace(KEYS, name=n) for n in "abcd"[: changes.get("clients", 4)]]
    with pytest.raises(ConfigError, match=words):
        make_study(
            {**TERMS, "code": "0", **terms},
            Schema(columns, ("sex",)),
            replace(Experiment(rounds=2), **settings),
            KEYS,
            keys,
        )


def test_a_study_that_was_changed_by_hand_is_refused():
    columns = (
        ColumnSchema("age", "feature", "number", missing="mean"),
        ColumnSchema("sex", "sensitive", "category", ("F", "M")),
        ColumnSchema("paid", "label", "category", ("no", "yes"), positive="yes"),
    )
    keys = [msgspec.structs.replace(KEYS, name=name) for name in "abc"]
    study = make_study(
        {**TERMS, "code": "0"}, Schema(columns, ("sex",)), Experiment(rounds=2), KEYS, keys
    )
    text = study_to_toml(study)
    for changed in (
        text.replace("# the name of the study", "# the name"),
        text + "\n",
        text.replace('name = "by hand"', 'name="by hand"'),
    ):
        with pytest.raises(ConfigError, match="it was changed by hand"):
            study_from_toml(changed, "study.toml")
    assert study_from_toml(text.replace("\n", "\r\n"), "study.toml") == study
