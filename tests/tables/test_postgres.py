import re
from urllib.parse import quote

import pyarrow
import pytest
from hypothesis import strategies as st

from fedfb.errors import ConfigError, DataError
from fedfb.tables.read import read_rows
from fedfb.tables.sources import find_files, with_query

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


def texts(cells):
    return {name: column.words.tolist() for name, column in cells.columns.items()}


@pytest.fixture(scope="module")
def loans(postgres):
    """Make tables in a schema of this file, and return a function from a table to its address."""
    postgres.execute(
        "create schema unit",
        "create type unit.mood as enum ('sad', 'ok')",
        "create domain unit.age as integer check (value > 0)",
        """create table unit.fit (id integer primary key, s smallint, b bigint, r real,
        d double precision, n numeric(10, 2), wide numeric, yes boolean, t text, c char(5),
        v varchar(9), day date, at timestamp, zoned timestamptz, hour time, u uuid,
        m unit.mood, age unit.age)""",
        """insert into unit.fit values (2, 2, 9007199254740993, .5, .1, 12.5, 1e-9, true, ' é ',
        'ab', 'x', '2024-01-31', '2024-01-31 10:00', '2024-01-31 10:00+02', '10:00',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 30)""",
        "insert into unit.fit (id) values (1)",
        "insert into unit.fit (id, wide) values (3, 'NaN')",
        """create table unit.unfit (j json, jb jsonb, arr int[], bytes bytea, span interval,
        price money, ip inet, doc xml, far date, number oid)""",
        """insert into unit.unfit values ('{}', '{}', '{1}', 'x', '1 day', 1, '::1', '<a/>',
        'infinity', 4000000000)""",
        'create table unit."Mixed Case""; drop table unit.fit; --" (a int)',
        'insert into unit."Mixed Case""; drop table unit.fit; --" values (1)',
        'create table unit.keyed (a text collate "C", b int, primary key (b, a))',
        "insert into unit.keyed values ('b', 2), ('a', 2), ('B', 2), ('z', 1)",
        "create table unit.heap (a int)",
        "insert into unit.heap select 5 - i from generate_series(1, 4) i",
        "create table unit.void (a int)",
        "create sequence unit.counter",
        "create view unit.seen as select a from unit.heap",
        f"create role poor_{postgres.database} login password 'poor man'",
    )
    yield lambda table: postgres.address(f"?table=unit.{quote(table, '')}")
    postgres.execute("drop schema unit cascade", f"drop role poor_{postgres.database}")


def test_values_of_postgresql_are_those_of_a_csv_file(loans):
    cells = read_rows(loans("fit"))
    values = texts(cells)
    assert values["id"] == ["1", "2", "3"]
    assert {name: column[1] for name, column in values.items()} == {
        "id": "2",
        "s": "2",
        "b": "9007199254740993",
        "r": "0.5",
        "d": "0.1",
        "n": "12.50",
        "wide": "0.000000001",
        "yes": "True",
        "t": "é",
        "c": "ab",
        "v": "x",
        "day": "2024-01-31",
        "at": "2024-01-31T10:00:00",
        "zoned": "2024-01-31T08:00:00+00:00",
        "hour": "10:00:00",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "m": "sad",
        "age": "30",
    }
    assert {column[0] for name, column in values.items() if name != "id"} == {""}
    assert values["wide"][2] == ""
    assert cells.columns["n"].numbers.tolist()[1] == 12.5
    assert pyarrow.types.is_int64(cells.columns["b"].data.type)  # not through text


@pytest.mark.parametrize(
    "column", ["j", "jb", "arr", "bytes", "span", "price", "ip", "doc", "far", "number"]
)
def test_values_that_no_cell_can_hold_are_refused(loans, postgres, column):
    address = with_query(postgres.address(), f"select {column} from unit.unfit")
    with pytest.raises(DataError, match=f"column '{column}': (values of type|a date or time)"):
        read_rows(address)


def test_the_advised_cast_works(loans, postgres):
    query = (
        'select cast("j" as text) j, cast("price" as numeric) p, cast("ip" as text) i, '
        'cast("number" as bigint) n from unit.unfit'
    )
    assert texts(read_rows(with_query(postgres.address(), query))) == {
        "j": ["{}"], "p": ["1.00"], "i": ["::1/128"], "n": ["4000000000"],
    }  # fmt: skip


def test_names_of_tables_are_quoted(loans, postgres):
    assert texts(read_rows(loans('Mixed Case"; drop table unit.fit; --'))) == {"a": ["1"]}
    for name in (
        "fit; drop table unit.fit",
        "fit--",
        "fit' or 1=1",
        'fit"; drop table unit.fit; --',
    ):
        with pytest.raises(ConfigError, match="has no table"):
            read_rows(loans(name))
    assert read_rows(loans("fit")).rows == 3
    with pytest.raises(ConfigError, match=r"tables: .*unit\.fit"):
        read_rows(postgres.address())


def test_rows_come_in_the_order_of_the_key(loans):
    cells = read_rows(loans("keyed"))
    assert (texts(cells)["a"], cells.notes) == (["z", "B", "a", "b"], ())
    for table in ("heap", "seen"):
        cells = read_rows(loans(table))
        assert texts(cells)["a"] == ["4", "3", "2", "1"]
        assert "no primary key" in cells.notes[0]
    with pytest.raises(DataError, match="has columns but no rows"):
        read_rows(loans("void"))


@pytest.mark.parametrize(
    "query",
    [
        "with x as (delete from unit.heap returning a) select a from x",
        "select a into unit.copy from unit.heap",
        "select a from unit.heap for update",
        "select set_config('transaction_read_only', 'off', false), nextval('unit.counter')",
        "select 1) to stdout; delete from unit.heap; --",
    ],
)
def test_a_query_changes_nothing(loans, postgres, query):
    with pytest.raises((ConfigError, DataError)) as error:
        read_rows(with_query(postgres.address(), query))
    assert re.search("read-only transaction|several|before any query", str(error.value))
    assert read_rows(loans("heap")).rows == 4


def test_errors_of_a_server_say_what_to_do(loans, postgres):
    def said(address):
        with pytest.raises(DataError) as error:
            read_rows(address)
        assert "\n" not in str(error.value)
        return str(error.value)

    ask = lambda query: said(with_query(postgres.address(), query))  # noqa: E731
    assert 'relation "nope" does not exist. Check the names of tables' in ask("select * from nope")
    assert 'column "nope" does not exist. Check the names of col' in ask(
        "select nope from unit.fit"
    )
    assert 'syntax error at or near "frm"' in ask("select * frm unit.fit")
    assert "division by zero" in ask("select 1 / (a - 1) from unit.heap")
    wrong = said(postgres.address("?table=unit.fit", password="wr@ng pass"))
    assert "password authentication failed" in wrong
    assert "PGPASSWORD" in wrong
    assert "wr@ng" not in wrong
    assert '"nodb" does not exist' in said(postgres.address(database="nodb"))
    assert "refused" in said("postgresql://ann:pw@127.0.0.1:1/db")
    assert 'invalid URI query parameter: "tok"' in said(postgres.address("?tok=secret"))
    poor = f"postgresql://poor_{postgres.database}:poor%20man@{postgres.host}/{postgres.database}"
    denied = said(with_query(poor, "select * from unit.fit"))
    assert "permission denied for schema unit. Ask for the right" in denied


def test_a_connection_that_is_cut_ends_in_a_sentence(loans, postgres):
    query = (
        "select case when i = 30000 then pg_terminate_backend(pg_backend_pid()) end, "
        "repeat('x', 100) as t from generate_series(1, 60000) i"
    )
    with pytest.raises(DataError, match=r"run the command again"):
        read_rows(with_query(postgres.address(), query))


def test_text_of_a_server_in_another_encoding_is_text(postgres):
    latin = f"latin_{postgres.database}"
    postgres.execute(f"create database {latin} encoding 'LATIN1' template template0")
    try:
        postgres.execute(
            "create table t (a text primary key)",
            "insert into t values (E'\\u00e9')",
            database=latin,
        )
        assert texts(read_rows(postgres.address(database=latin))) == {"a": ["é"]}
    finally:
        postgres.execute(f"drop database {latin}")


def test_tables_of_a_server_are_clients(loans, postgres):
    paths = find_files(postgres.address("?table=unit.heap&table=unit.keyed")).paths
    assert [path.stem for path in paths] == ["unit.heap", "unit.keyed"]
    assert [read_rows(path).rows for path in paths] == [4, 4]
    with pytest.raises(ConfigError, match="the same table"):
        find_files(postgres.address("?table=a"), postgres.address("?table=a"))
