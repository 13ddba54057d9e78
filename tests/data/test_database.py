import re
import sqlite3
from pathlib import Path
from urllib.parse import quote

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfb.data.address import hide, read_address
from fedfb.data.database import check_query, databases_of
from fedfb.data.read import read_rows
from fedfb.data.sources import find_files, with_query
from fedfb.errors import ConfigError, DataError

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


def texts(cells):
    return {name: column.words.tolist() for name, column in cells.columns.items()}


# Addresses.


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


# Queries.


@pytest.mark.parametrize(
    "query",
    [
        "delete from t",
        "/* select */ drop table t",
        "-- select\nupdate t set a = 1",
        "attach 'x' as y",
        "copy t to '/tmp/x'",
        "pragma writable_schema = 1",
        "",
    ],
)
def test_what_does_not_read_rows_is_refused(query):
    with pytest.raises(ConfigError, match="expected one SELECT"):
        check_query(query)


def test_one_statement_is_read():
    with pytest.raises(ConfigError, match="holds several"):
        check_query("select 1; drop table t")
    assert check_query("select ';' as a; -- the end;\n") == "select ';' as a"
    assert check_query("select $$;$$, $a$;'$a$") == "select $$;$$, $a$;'$a$"


# SQLite.


@pytest.fixture
def sqlite(tmp_path, monkeypatch):
    """Make a SQLite file from statements."""
    monkeypatch.chdir(tmp_path)

    def make(*statements, name="loans.sqlite"):
        connection = sqlite3.connect(name)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return name

    return make


def test_values_of_sqlite_are_those_of_a_csv_file(sqlite):
    # A column of SQLite may hold values of any type: a wrong cell stays what it is.
    path = sqlite(
        "create table t (id integer primary key, a, b real, c text, big integer)",
        "insert into t values (2, 1, 2.0, 'x ', 9007199254740993)",
        "insert into t values (1, 'one', null, '?', null)",
        "insert into t values (3, 2.5, 0.1, 'é', -9223372036854775808)",
    )
    cells = read_rows(path)
    assert cells.source == "loans.sqlite, table t"
    assert texts(cells) == {
        "id": ["1", "2", "3"],
        "a": ["one", "1", "2.5"],
        "b": ["", "2", "0.1"],
        "c": ["", "x", "é"],
        "big": ["", "9007199254740993", "-9223372036854775808"],
    }
    assert cells.notes == ()


def test_batches_of_different_types_are_joined(sqlite, monkeypatch):
    monkeypatch.setattr("fedfb.data.drivers._BATCH", 2)
    path = sqlite(
        "create table t (a, b, c)",
        "insert into t values (1, null, 1), (2, null, 1.5), (2.5, 1, 'x'), (3.0, 2, null), "
        "(null, 3, 7)",
    )
    cells = read_rows(path)
    assert texts(cells) == {
        "a": ["1", "2", "2.5", "3", ""],
        "b": ["", "", "1", "2", "3"],
        "c": ["1", "1.5", "x", "", "7"],
    }
    assert cells.columns["a"].numbers.tolist()[:4] == [1, 2, 2.5, 3]
    assert cells.columns["c"].numbers is None


def test_a_table_is_read_in_the_order_of_its_key(sqlite):
    path = sqlite(
        "create table t (b text collate nocase, a integer, primary key (b, a)) without rowid",
        "insert into t values ('b', 1), ('a', 2), ('B', 3), ('a', 1)",
    )
    assert texts(read_rows(path)) == {"b": ["B", "a", "a", "b"], "a": ["3", "1", "2", "1"]}
    path = sqlite(
        "create table t (rowid text, a integer)",
        "insert into t values ('z', 1), ('a', 2)",
        name="r.db",
    )
    assert texts(read_rows(path))["a"] == ["1", "2"]


def test_a_file_is_a_database_by_its_first_bytes(sqlite):
    path = sqlite("create table t (a)", "insert into t values (1)", name="rows.csv")
    assert texts(read_rows(path)) == {"a": ["1"]}
    Path("fake.db").write_text("a,b\n1,2\n")
    with pytest.raises(
        DataError, match=r"fake\.db: file is not a database\. Expected a SQLite file"
    ):
        read_rows("fake.db")


def test_several_tables_need_a_name(sqlite):
    sqlite('create table "b ""x" (a)', "create view v as select 1 as a", "create table c (a)")
    with pytest.raises(ConfigError, match=r"loans\.sqlite has 3 tables: b \"x, c, v\. Name one"):
        read_rows("loans.sqlite")
    with pytest.raises(ConfigError, match=r"no table 'd'\. It has: b \"x, c, v"):
        read_rows("sqlite:///loans.sqlite?table=d")
    with pytest.raises(DataError, match="has columns but no rows"):
        read_rows("sqlite:///loans.sqlite?table=b%20%22x")
    assert texts(read_rows("sqlite:///loans.sqlite?table=V")) == {"a": ["1"]}
    assert "no primary key" in read_rows("sqlite:///loans.sqlite?table=v").notes[0]


@pytest.mark.parametrize("name", ["c; drop table c", 'c"; drop table c; --', "c' or '1'='1", "c--"])
def test_no_name_of_a_table_is_a_statement(sqlite, name):
    path = sqlite("create table c (a)", "insert into c values (1)")
    with pytest.raises(ConfigError, match="has no table"):
        read_rows(f"sqlite:///{path}?table={quote(name, '')}")
    assert texts(read_rows(path)) == {"a": ["1"]}


def test_nothing_is_written_into_a_file(sqlite):
    path = sqlite("create table c (a)", "insert into c values (1)")
    before = Path(path).read_bytes()
    query = "with x as (select 1) insert into c select 2"
    with pytest.raises(DataError, match="nothing was changed"):
        read_rows(with_query(path, query))
    assert Path(path).read_bytes() == before
    assert sorted(file.name for file in Path().iterdir()) == [path]


def test_a_query_chooses_rows_and_their_order(sqlite):
    path = sqlite("create table t (a, b)", "insert into t values (1, 2), (3, 4)")
    cells = read_rows(with_query(path, "select a + b as s from t order by s desc;"))
    assert (texts(cells), cells.notes) == ({"s": ["7", "3"]}, ())
    cells = read_rows(with_query(path, "select a from (select * from t order by b)"))
    assert "no ORDER BY" in cells.notes[0]


def test_blobs_and_equal_names_are_refused(sqlite):
    path = sqlite("create table t (a, photo)", "insert into t values (1, 'x'), (2, x'00')")
    with pytest.raises(DataError, match="column 'photo': values of type binary"):
        read_rows(path)
    with pytest.raises(DataError, match="two columns are named 'a'"):
        read_rows(with_query(path, "select a, a from t order by a"))
    with pytest.raises(DataError, match=r"no such column: nope\. Check the names"):
        read_rows(with_query(path, "select nope from t"))


def test_several_files_and_tables_are_several_clients(sqlite):
    for name in ("north", "south"):
        sqlite("create table t (a)", "create table u (a)", f"insert into t values ('{name}')",
               name=f"{name}.sqlite")  # fmt: skip
    paths = find_files("sqlite:///*.sqlite?table=t").paths
    assert [path.stem for path in paths] == ["north", "south"]
    assert [texts(read_rows(path))["a"] for path in paths] == [["north"], ["south"]]
    assert [path.stem for path in find_files("sqlite:///north.sqlite?table=t&table=u").paths] == [
        "t",
        "u",
    ]
    with pytest.raises(DataError, match=r"no file 'east\*'"):
        find_files("sqlite:///east*?table=t")


# DuckDB.


@pytest.fixture
def duck(tmp_path, monkeypatch):
    """Make a DuckDB file from statements."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)

    def make(*statements):
        with duckdb.connect("loans.duckdb") as connection:
            for statement in statements:
                connection.execute(statement)
        return "loans.duckdb"

    return make


def test_values_of_duckdb_are_those_of_a_csv_file(duck):
    path = duck(
        "create type mood as enum ('sad', 'ok')",
        "create table t (id integer primary key, m mood, d decimal(10, 2), h hugeint, u uuid, "
        "day date, moment timestamp, b boolean, x varchar, f float)",
        "insert into t values (2, 'sad', 1.5, 123456789012345678901234567890, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-01-31', '2024-01-31 10:00', true, 'é ', .5)",
        "insert into t (id) values (1)",
    )
    assert {name: values[1] for name, values in texts(read_rows(path)).items()} == {
        "id": "2",
        "m": "sad",
        "d": "1.50",
        "h": "123456789012345678901234567890",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "day": "2024-01-31",
        "moment": "2024-01-31T10:00:00",
        "b": "True",
        "x": "é",
        "f": "0.5",
    }
    assert {values[0] for values in list(texts(read_rows(path)).values())[1:]} == {""}


def test_duckdb_reads_its_own_file_only(duck):
    path = duck("create table t as select 3 - i as a, [i] as l from range(3) r(i)")
    before = Path(path).read_bytes()
    assert texts(read_rows(with_query(path, "select a from t order by a"))) == {
        "a": ["1", "2", "3"]
    }
    assert texts(read_rows(with_query(path, "from t select a")))["a"] == ["3", "2", "1"]
    with pytest.raises(DataError, match="column 'l': values of type list"):
        read_rows(path)
    with pytest.raises(DataError, match="two columns are named 'a'"):
        read_rows(with_query(path, "select 1 as a, 2 as a"))
    for query in (
        "with x as (select 1) insert into t select 1, [1]",
        "from read_text('/etc/hosts')",
    ):
        with pytest.raises(DataError):
            read_rows(with_query(path, query))
    assert Path(path).read_bytes() == before
    Path("bad.duckdb").write_bytes(b"\0" * 8 + b"DUCK" + b"x" * 5000)
    with pytest.raises(DataError, match=r"bad\.duckdb"):
        read_rows("bad.duckdb")


# PostgreSQL.


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


def test_an_empty_password_is_none():
    assert hide("postgresql://ann:@host/db") == "postgresql://ann@host/db"
