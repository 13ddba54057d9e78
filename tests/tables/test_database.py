import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import strategies as st

from fedfb.errors import ConfigError, DataError
from fedfb.tables.database import check_query
from fedfb.tables.read import read_rows
from fedfb.tables.sources import find_files, with_query

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)
names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


def texts(cells):
    return {name: column.words.tolist() for name, column in cells.columns.items()}


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
    assert cells.source == "loans.sqlite"
    assert texts(cells) == {
        "id": ["1", "2", "3"],
        "a": ["one", "1", "2.5"],
        "b": ["", "2", "0.1"],
        "c": ["", "x", "é"],
        "big": ["", "9007199254740993", "-9223372036854775808"],
    }
    assert cells.notes == ()


def test_batches_of_different_types_are_joined(sqlite, monkeypatch):
    monkeypatch.setattr("fedfb.tables.drivers._BATCH", 2)
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


@pytest.fixture
def locked_folder():
    """A folder in which this process may make no files, while it is ``locked``; also as root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    user = os.geteuid()

    @contextmanager
    def locked():
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(user)
            folder.chmod(0o755)

    yield folder, locked
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no such users")
def test_a_file_in_wal_mode_is_read_where_no_file_can_be_made(locked_folder):
    folder, locked = locked_folder
    path = folder / "loans.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (a)")
        connection.execute("insert into t values (1)")
        connection.commit()
    with locked():
        assert texts(read_rows(path)) == {"a": ["1"]}
    assert [file.name for file in folder.iterdir()] == ["loans.sqlite"]
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("insert into t values (2)")
        writer.commit()
        with locked():
            assert texts(read_rows(path)) == {"a": ["1", "2"]}
        log = (folder / "loans.sqlite-wal").read_bytes()
        content = path.read_bytes()
    # A copy in which the program that wrote last had no time to put its rows into the file.
    path.write_bytes(content)
    (folder / "loans.sqlite-wal").write_bytes(log)
    with locked(), pytest.raises(DataError, match=r"last rows are in loans\.sqlite-wal.*Copy both"):
        read_rows(path)


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
