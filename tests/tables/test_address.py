"""Addresses of databases: what is shown of them, and what stays in memory."""

from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.errors import ConfigError
from fedfb.tables.address import databases_of, hide, read_address
from fedfb.tables.sources import (
    describe_data,
    find_files,
    join_patterns,
    split_patterns,
    with_query,
)

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


@given(user=names, password=words, database=names)
def test_a_password_is_hidden_and_kept_for_the_connection(user, password, database):
    text = f"postgresql://{user}:{quote(password, '')}@host:5433/{database}?table=loans"
    shown = hide(text)
    assert shown == f"postgresql://{user}@host:5433/{database}?table=loans"
    assert read_address(shown).secrets["password"] == password
    assert hide(shown) == shown


@given(password=st.text("abz019/?#@:&%+ '", min_size=1, max_size=12))
def test_a_password_that_is_not_encoded_is_hidden_too(password):
    shown = hide(f"postgresql://ann:{password}@bank.example/db?table=loans")
    assert shown == "postgresql://ann@bank.example/db?table=loans"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://ann:pw@h/db", "postgresql://ann@h/db"),
        ("postgresql+psycopg2://ann:pw@h/db", "postgresql://ann@h/db"),
        ("POSTGRESQL://ann:pw@h/db", "postgresql://ann@h/db"),
        ("postgresql://h/db?user=ann&password=pw&table=x", "postgresql://ann@h/db?table=x"),
        ("postgresql://h/db?sslpassword=pw&sslmode=require", "postgresql://h/db?sslmode=require"),
        ("postgresql://h/db?token=pw", "postgresql://h/db"),
        ("postgresql://tok3n0f1234567890abcdefgh:x@h/db", "postgresql://h/db"),
        ("postgresql:///db?host=/run/pg&password=pw", "postgresql:///db?host=/run/pg"),
        ("postgresql://a:pw@h1:1,h2:2/db", "postgresql://a@h1:1,h2:2/db"),
        ("postgresql://a:pw@[::1]:5432/db", "postgresql://a@[::1]:5432/db"),
        ("--data=postgresql://a:pw@h/db", "--data=postgresql://a@h/db"),
        ("postgresql://a:pw@h/x postgresql://a:pw@h/y", "postgresql://a@h/x postgresql://a@h/y"),
        ("select a from t where password = 'x'", "select a from t where password = 'x'"),
        ("mysql://ann:pw@h/db", "mysql://ann@h/db"),
        ("host=h user=ann password='p w' dbname=d", "host=h user=ann password=*** dbname=d"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("select 'postgresql://x' from t", "select 'postgresql://x' from t"),
        ("sqlite:///loans.db?table=a", "sqlite:///loans.db?table=a"),
    ],
)
def test_what_is_shown_of_an_address(text, shown):
    assert hide(text) == shown


def test_a_message_of_a_driver_loses_the_password_in_every_spelling():
    address = read_address("postgresql://ann:p%40s%2Fs@host/db")
    said = 'bad "p@s/s" in postgresql://ann:p%40s%2Fs@host/db and p%40s/s'
    assert "p@s" not in address.redact(said)
    assert "p%40s" not in address.redact(said)


def test_an_address_of_another_database_is_refused():
    with pytest.raises(ConfigError, match=r"mysql:// is not read\. Expected postgresql://"):
        read_address("mysql://host/db")
    with pytest.raises(ConfigError, match="three slashes"):
        read_address("sqlite://loans.db")
    with pytest.raises(ConfigError, match="parameter 'mode'"):
        read_address("sqlite:///loans.db?mode=rw")


def test_a_query_is_for_databases_and_stands_alone():
    with pytest.raises(ConfigError, match=r"'rows.csv' is none"):
        with_query("rows.csv", "select 1")
    with pytest.raises(ConfigError, match="both given"):
        with_query("postgresql://h/db?table=a", "select 1")
    query = "select 'a&b=c%d' as \"x?\" -- é"
    assert databases_of(with_query("postgresql://h/db", query))[0].address.query == query
    assert databases_of(with_query("postgresql://h/db", query))[0].stem == "db"


def test_an_empty_password_is_none():
    assert hide("postgresql://ann:@host/db") == "postgresql://ann@host/db"


# Several values.

paths = st.lists(st.text("abz /*'\"$@?=", min_size=1, max_size=8), max_size=2)


@given(password=words, before=paths, after=paths)
def test_a_password_is_hidden_among_several_values(password, before, after):
    address = f"postgresql://ann:{quote(password, '')}@several/db?table=my loans&table=b"
    shown = "postgresql://ann@several/db?table=my%20loans&table=b"
    joined = join_patterns([*before, address, *after, address])
    assert split_patterns(joined) == [*before, shown, *after, shown]
    assert hide(joined) == joined
    assert read_address(shown).secrets["password"] == password


@given(password=st.text("abz019/?#@:&%+ '\"\\", min_size=1, max_size=12), after=paths)
def test_a_password_in_quotes_is_hidden(password, after):
    address = f"postgresql://ann:{password}@quoted.example/db?table=loans"
    word = "'" + address.replace("'", "'\"'\"'") + "'"
    shown = "'postgresql://ann@quoted.example/db?table=loans'"
    assert hide(" ".join([word, *after])) == " ".join([shown, *after])
    assert read_address(shown.strip("'")).secrets["password"] == unquote(password)
    assert hide(f"--data={word}") == f"--data={shown}"
    escaped = address.replace("\\", "\\\\").replace('"', '\\"')
    assert hide(f'["{escaped}", "b"]') == f'["{shown[1:-1]}", "b"]'


def test_a_password_without_quotes_ends_before_the_next_value():
    text = "postgresql://ann:p w@h/db rows.csv 'postgresql://bob:x@h2/db?table=t' b.csv"
    shown = "postgresql://ann@h/db rows.csv 'postgresql://bob@h2/db?table=t' b.csv"
    assert hide(text) == shown
    assert read_address("postgresql://ann@h/db").secrets == {"password": "p w"}
    assert "x@" not in describe_data(text)


def test_a_query_asks_one_of_several_sources():
    with pytest.raises(ConfigError, match="2 sources are named"):
        with_query(join_patterns(["a.sqlite", "postgresql://h/db"]), "select 1")


def test_an_address_with_spaces_is_one_if_its_file_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my folder").mkdir()
    Path("my folder/a.db").write_bytes(b"SQLite format 3\0")
    address = "sqlite:///my folder/a.db?table=my table"
    assert split_patterns(address) == [address]
    assert split_patterns("sqlite:///a.db b.csv") == ["sqlite:///a.db", "b.csv"]
    Path("my folder/b.csv").write_text("a\n1\n")
    Path("my folder/Thumbs.db").write_bytes(b"no database")
    paths, notes = find_files("'my folder' 'sqlite:///my folder/../my folder/a.db?table=t' "
                              "'sqlite:///my folder/a.db?table=t'")  # fmt: skip
    assert [path.name for path in paths] == ["a", "a.db", "b.csv"]
    assert notes == (
        "my folder: not read, since they are no tables: Thumbs.db",
        "my folder/a.db, table t is the same as my folder/../my folder/a.db, table t, and is read "
        "once",
    )
    with pytest.raises(ConfigError, match="name the same table"):
        find_files("sqlite:///my%20folder/a.db?table=t&table=u", "sqlite:///my folder/a.db?table=t")
