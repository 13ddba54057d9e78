"""Commands on databases: the same model as from files, and passwords that nothing repeats."""

import io
import sqlite3
import sys
import traceback
import zipfile
import zlib
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

from cli.asking import refused
from fedfb.cli import main
from fedfb.errors import FedFBError
from postgres import PASSWORD

ROLES = ("--label", "paid", "--positive", "yes", "--sensitive", "sex")
OWN = (*ROLES, "--ignore", "id", "--client-column", "branch")
FAST = ("--rounds", "2", "--local-epochs", "1", "--lr", ".1", "--seeds", "1")


def make_loans(rows=300):
    """Rows with numbers, dates as text, missing cells and letters beyond ASCII."""
    rng = np.random.default_rng(7)
    income = rng.lognormal(8, 1, rows).round(2)
    cells = {
        "id": np.arange(rows),
        "age": rng.integers(18, 80, rows),
        "income": np.where(rng.random(rows) < 0.1, None, income).tolist(),
        "job": rng.choice(["cook", "käse", ""], rows).tolist(),
        "sex": rng.choice(["F", "M"], rows).tolist(),
        "branch": rng.choice(["a", "b", "c"], rows).tolist(),
        "paid": np.where(income + rng.normal(0, 3000, rows) > 3000, "yes", "no").tolist(),
    }
    return pyarrow.table(cells)


@pytest.fixture(scope="module")
def loans():
    return make_loans()


def write_sqlite(table, path):
    connection = sqlite3.connect(path)
    connection.execute(
        "create table loans (id integer primary key, age integer, income real, job text, sex text, "
        "branch text, paid text)"
    )
    marks = ",".join("?" * table.num_columns)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    connection.executemany(f"insert into loans values ({marks})", reversed(list(rows)))
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def server(postgres, loans):
    """Put the rows into a table whose numbers are numeric, in another order than its key's."""
    postgres.ingest("plain", loans.take(list(range(loans.num_rows))[::-1]))
    postgres.execute(
        "create schema bank",
        "create table bank.loans as select id, age::smallint, income::numeric(12, 2), "
        "job::varchar(9), sex::char(3), branch, paid from plain",
        "alter table bank.loans add primary key (id)",
        "drop table plain",
        "create view bank.held as select * from bank.loans order by id limit 60",
    )
    yield postgres
    postgres.execute("drop schema bank cascade")


def test_the_same_rows_give_the_same_bits_from_every_source(fedfb, loans, server, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    csv.write_csv(loans, "loans.csv")
    parquet.write_table(loans, "loans.parquet")
    write_sqlite(loans, "loans.sqlite")
    with duckdb.connect("loans.duckdb") as connection:
        connection.register("rows", loans)
        connection.execute("create table loans as select * from rows")
    query = ("--query", "select * from loans order by id")
    sources = {
        "csv": ("loans.csv",),
        "parquet": ("loans.parquet",),
        "sqlite": ("loans.sqlite",),
        "sqlite query": ("loans.sqlite", *query),
        "duckdb": ("loans.duckdb",),
        "postgresql": (server.address("?table=bank.loans"),),
        "query": (server.address(), "--query", "select * from bank.loans order by id"),
    }
    models = {}
    for name, source in sources.items():
        said = fedfb("run", "--data", *source, *OWN, *FAST, "--out", name)
        assert said.code == 0, said.err
        with np.load(tmp_path / name / "models.npz") as arrays:
            models[name] = {key: arrays[key].tobytes() for key in arrays.files}
        encoder = (tmp_path / name / "preprocessing.json").read_text()
        assert encoder == (tmp_path / "csv" / "preprocessing.json").read_text(), name
    assert len(models) == 7
    assert all(model == models["csv"] for model in models.values())


def read_all(folder):
    """Return the content of all files, and of the parts of compressed ones."""
    parts = []
    for path in Path(folder).rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        parts.append((str(path), str(path).encode() + content))
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                parts += [(f"{path}: {name}", archive.read(name)) for name in archive.namelist()]
        if content[:2] == b"\x1f\x8b":
            parts.append((f"{path}: unpacked", zlib.decompress(content, wbits=31)))
    return parts


SECRETS = {form for text in (PASSWORD, "an0ther s/ecret") for form in (text, quote(text, ""))}


def assert_hidden(place, content):
    content = content if isinstance(content, bytes) else content.encode()
    for secret in SECRETS:
        assert secret.encode() not in content, place


@pytest.mark.slow
def test_no_output_repeats_a_password(fedfb, server, loans, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFB_STORE", str(tmp_path / "store"))
    table = server.address("?table=bank.loans")
    more = server.address("?table=bank.loans&sslpassword=an0ther%20s%2Fecret")
    wrong = server.address("?table=bank.loans", password="an0ther s/ecret")
    raw = f"postgresql://tester:{PASSWORD}@{server.host}/{server.database}?table=bank.loans"
    sides = ("--data", table, *OWN, *FAST)
    Path("own.toml").write_text(f'data = "{table}"\nlabel = "paid"\npositive = "yes"\nsex = 1\n')
    Path("scores.toml").write_text(f'data = "{table}"\nlabel = "paid"\npositive = 3\n')
    held = more.replace("loans", "held")
    good = f'data = "{table}"\ntest = "{held}"\nlabel = "paid"\npositive = "yes"\n'
    rest = 'sensitive = ["sex"]\nignore = ["id", "branch"]\nrounds = 1\nlr = [0.1]\n'
    Path("good.toml").write_text(good + rest)
    Path("inline.toml").write_text(f'data = {{ a = "{table}" }}\n')
    Path("list.toml").write_text(good.replace(f'"{table}"', f'["{table}", "{table}"]') + rest)
    Path("branches").mkdir()
    write_sqlite(loans, "branches/east.sqlite")
    commands = {
        0: [
            ("run", "good.toml", "--seeds", "1", "--out", "filed"),
            ("run", *sides, "--out", "run"),
            ("run", "--data", more, *OWN, *FAST, "--json"),
            ("run", "--data", raw, *OWN, *FAST),
            ("compare", *sides, "--algorithms", "fedavg,fedfb", "--out", "both", "--csv", "c.csv"),
            ("compare", *sides, "--algorithms", "fedavg,fedfb", "--json"),
            ("frontier", *sides, "--algorithms", "fedavg", "--out", "front"),
            ("schema", "infer", table, *ROLES, "--out", "schema.toml"),
            ("schema", "check", "schema.toml", table),
            ("predict", "run", server.address(), "--query", "select * from bank.loans"),
            ("audit", "run", "--data", more, "--sensitive", "branch", "--out", "audit"),
            ("run", "list.toml", "--seeds", "1", "--out", "list"),
            ("run", "--data", table, "branches", *OWN, *FAST, "--out", "joined"),
            ("run", "--data", f"'{more}' branches", *OWN, *FAST, "--json"),
            ("doctor", table, "branches", *ROLES, "--ignore", "id", "--fix", "fixed.toml"),
            ("run", "--data", table, "branches", "--schema", "fixed.toml", *FAST),
            ("report", "run"),
            ("ledger", "run"),
        ],
        1: [
            ("schema", "check", "schema.toml", wrong),
            ("schema", "check", "schema.toml", wrong.replace("tester", "nobody"), table),
            ("doctor", wrong, *ROLES),
            ("doctor", wrong, *ROLES, "--json"),
        ],
        2: [
            ("run", table),
            ("run", "own.toml"),
            ("run", "scores.toml"),
            ("run", "inline.toml"),
            ("schema", "check", "schema.toml", f"'{more}' '{table}x'"),
            ("run", "--data", table, "branches", "--query", "select 1", *OWN),
            ("run", "--date", table),
            ("run", f"--data={wrong}", *OWN, *FAST, "--out", "none"),
            ("run", "--data", table + "nope", *OWN, *FAST),
            ("run", "--data", table, "--label", "nope", "--positive", "y", "--sensitive", "sex"),
            ("run", "--data", table, "--query", "select 1", *OWN),
            ("run", "--data", server.address(), "--query", "selec", *OWN),
            ("run", "--data", table.replace("postgresql", "mysql"), *OWN),
            ("run", "--data", table.replace("127.0.0.1", "no host"), *OWN),
            ("run", "--data", f"host=x password='{PASSWORD.replace(chr(39), '')}'", *OWN),
            ("run", "--seeds", table),
            ("run", "--data", "synthetic", "--label", table),
            ("predict", "run", wrong),
            ("predict", table, table),
            ("audit", "run", "--data", wrong),
            ("audit", "--scores", table, "--score", "age", *ROLES),
            ("schema", "infer", table),
            ("compare", "--data", table, "--algorithms", table),
        ],
    }
    for code, lines in commands.items():
        for line in lines:
            said = fedfb(*line)
            assert said.code == code, (line, said)
            assert "Traceback" not in said.err
            assert_hidden(line, said.out + said.err)
    for line in commands[2]:
        monkeypatch.setattr(sys, "argv", ["fedfb", "--debug", *line])
        with pytest.raises((FedFBError, SystemExit, OSError)) as error:
            main()
        trace = traceback.format_exception(error.type, error.value, error.tb)
        assert_hidden(line, "".join(trace))
    for typed in ("good", "inline", "list", "own", "scores"):
        Path(f"{typed}.toml").unlink()
    files = read_all(tmp_path)
    assert {"experiment.toml", "report.html", "audit.json", "result.json"} <= {
        Path(place).name for place, _ in files
    }
    for place, content in files:
        assert_hidden(place, content)
    shown = server.shown("?table=bank.loans").encode()
    assert shown in (tmp_path / "run/experiment.toml").read_bytes()


@pytest.mark.slow
def test_a_client_joins_a_study_with_a_table(fedfb, server, monkeypatch):
    table, rest = server.address("?table=bank.loans"), ("--ignore", "id,branch")
    clients = ("--trial", "--clients", "east,north,south,west")
    assert fedfb("study", "init", "s", "--like", table, *ROLES, *rest, *clients).code == 0
    join = ("study", "join", "s/study.toml", "--key", "s/keys/north.key", "--data")
    monkeypatch.setenv("FEDFB_STATE", "remembered")
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    said = fedfb(*join, table)
    assert said.code == 1, said.err
    assert server.shown("?table=bank.loans") in said.out
    assert "rows to train on" in said.out
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    said = fedfb(*join, server.address(), "--query", "select * from bank.loans")
    assert "no ORDER BY" in said.err
    wrong = server.address("?table=bank.loans", password="an0ther s/ecret")
    refused(fedfb(*join, wrong), "password authentication failed")
    for place, content in [("said", said.out + said.err), *read_all(".")]:
        assert_hidden(place, content)


def test_a_run_on_a_query_is_repeated_by_its_file(fedfb, loans, tmp_path):
    write_sqlite(loans, "loans.sqlite")
    query = "select age, sex, branch, paid from loans where age > 30"
    said = fedfb("run", "--data", "loans.sqlite", "--query", query, *ROLES, "--client-column",
                 "branch", *FAST, "--out", "a")  # fmt: skip
    assert "no ORDER BY" in " ".join(said.out.split())
    assert f'query = "{query}"' in (tmp_path / "a/experiment.toml").read_text()
    again = fedfb("run", "a/experiment.toml", "--out", "b")
    assert again.code == 0, again.err
    assert (tmp_path / "a/models.npz").read_bytes() == (tmp_path / "b/models.npz").read_bytes()
    assert fedfb("audit", "a").code == 0
    assert fedfb("audit", "a", "--data", "loans.sqlite", "--query", query).code == 0


def test_rows_of_a_database_are_decided_in_parts(fedfb, loans, server, monkeypatch, tmp_path):
    """They are those of a file, and a copied column has one type, whatever its first rows hold."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr("fedfb.tables.drivers._BATCH", 32)
    csv.write_csv(loans, "loans.csv")
    assert fedfb("run", "--data", "loans.csv", *OWN, *FAST, "--out", "run").code == 0
    write_sqlite(loans, "loans.sqlite")
    with sqlite3.connect("loans.sqlite") as connection:
        connection.execute("alter table loans add column code")
        connection.execute("update loans set code = case when id >= 200 then 'x' "
                           "when id >= 100 then 7 end")  # fmt: skip
    connection.close()
    with duckdb.connect("loans.duckdb") as connection:
        connection.execute("create table loans as select * from 'loans.csv'")
    expected = fedfb("predict", "run", "loans.csv", "--keep", "id,income").out
    for source in ("loans.sqlite", "loans.duckdb", server.address("?table=bank.loans")):
        said = fedfb("predict", "run", source, "--keep", "id")
        assert said.code == 0, said.err
        ids, decided = zip(*(line.split(",", 1) for line in said.out.splitlines()), strict=True)
        assert ids == ("id", *map(str, range(300)))
        assert [*decided] == [line.split(",", 2)[2] for line in expected.splitlines()]
    said = fedfb("predict", "run", "loans.sqlite", "--keep", "code,id", "--out", "decided.parquet")
    assert said.code == 0, said.err
    table = parquet.read_table("decided.parquet")
    assert table["code"].to_pylist() == [None] * 100 + ["7"] * 100 + ["x"] * 100
    assert table.schema.field("id").type == pyarrow.int64()


def test_a_query_belongs_to_a_database(fedfb, write):
    write("a,b\n1,2\n", "rows.csv")
    refused(fedfb("run", "--data", "rows.csv", "--query", "select 1", *ROLES), "'rows.csv' is none")
    refused(fedfb("run", "--query", "select 1"), "query (--query) does not apply to 'synthetic'")
    refused(fedfb("audit", "x", "--query", "select 1"), "name it with --data")
    refused(fedfb("run", "--data", "mysql://h/d", *ROLES), "mysql:// is not read")


def test_a_driver_that_is_not_installed_is_named(fedfb, monkeypatch, write):
    monkeypatch.setattr("fedfb.extras.find_spec", lambda name: None)
    address = "postgresql://ann:pw@127.0.0.1:1/db"
    refused(fedfb("run", "--data", address, *ROLES), "adbc-driver-postgresql", "fedfb[sql]")
    write(b"\0" * 8 + b"DUCK", "loans.duckdb")
    refused(fedfb("run", "--data", "loans.duckdb", *ROLES), "needs duckdb", "fedfb[sql]")
