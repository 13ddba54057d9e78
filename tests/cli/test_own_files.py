"""Own files on the command line: unquoted patterns, folders, pipes, dialects; in every command."""

import gzip
import os
from pathlib import Path

import pytest

from cli.asking import refused

OWN = ("--label", "paid", "--positive", "yes", "--sensitive", "sex")
FAST = ("--rounds", 1, "--local-epochs", 1, "--lr", 0.1)


def rows(separator: str = ",", decimal: str = ".", start: int = 0) -> str:
    lines = [separator.join(("income", "job", "sex", "paid"))]
    for i in range(start, start + 40):
        income = f"{1000 + i * 37 % 101 / 4:.2f}".replace(".", decimal)
        cells = (income, "Näher" if i % 3 else "cook", "FM"[i // 2 % 2], "yes" if i % 2 else "no")
        lines.append(separator.join(cells))
    return "\n".join(lines) + "\n"


@pytest.fixture
def clients(write, tmp_path):
    write(rows(), "clients/north.csv")
    write(rows(start=40), "clients/south.csv")
    (tmp_path / "clients/west.csv").write_bytes(rows(";", ",", 80).encode("cp1252"))
    return ("clients/north.csv", "clients/south.csv", "clients/west.csv")


@pytest.mark.slow
def test_an_unquoted_pattern_two_patterns_and_a_folder_are_the_same_run(fedfb, clients, write):
    runs = [
        fedfb("run", "--data", *data, *OWN, *FAST, "--json").json
        for data in (clients, ("clients/[ns]*.csv", "--data", "clients/west.csv"), ("clients",))
    ]
    assert runs[0]["runs"] == runs[1]["runs"] == runs[2]["runs"]
    assert "clients/west.csv: decimal comma, detected in column income" in runs[0]["notes"]
    assert any("read as cp1252" in note for note in runs[0]["notes"])
    write('data = ["clients/[ns]*.csv", "clients/west.csv"]\nlabel = "paid"\npositive = "yes"\n'
          'sensitive = ["sex"]\n', "own.toml")  # fmt: skip
    file = fedfb("run", "own.toml", *FAST, "--json").json
    last = fedfb("run", "--data", *clients, *OWN, *FAST, "--json", "own.toml").json
    assert runs[0]["runs"] == file["runs"] == last["runs"]


@pytest.mark.slow
def test_every_command_takes_several_files(fedfb, clients):
    fedfb("schema", "infer", *clients, *OWN, "--out", "schema.toml")
    check = fedfb("schema", "check", "schema.toml", *clients)
    assert check.out == "".join(f"{client}: fits\n" for client in clients)
    fedfb("run", "--data", *clients, *OWN, *FAST, "--out", "model")
    assert fedfb("audit", "--data", *clients, "model", "--json").code == 0
    fedfb("predict", "model", "clients/west.csv", "--out", "west.csv")
    assert fedfb("frontier", "--data", *clients, *OWN, *FAST, "--algorithms", "fedavg", "--seeds",
                 1, "--json").code == 0  # fmt: skip


@pytest.mark.slow
def test_a_declared_dialect_is_read_by_every_command(fedfb, clients, write, tmp_path):
    whole = rows(";").replace(".", "").replace("Näher", "cook")
    lines = [line.replace("1", "1.", 1) if line[0] == "1" else line for line in whole.splitlines()]
    # 1.00050: three digits behind the point in no cell, so say that points are thousands
    lines = [line[:5] + line[7:] if line[0] == "1" else line for line in lines]
    write("\n".join(lines) + "\n", "new.csv")
    message = "new.csv, line 2, column 'income': '1.000' is 1.000 or 1000"
    refused(fedfb("run", "--data", "new.csv", *OWN), message, "--thousands '.'")
    refused(fedfb("schema", "infer", "new.csv", *OWN), message)
    fedfb("run", "--data", *clients, *OWN, *FAST, "--out", "model")
    refused(fedfb("predict", "model", "new.csv"), message)
    refused(fedfb("audit", "model", "--data", "new.csv"), message)
    for words in (
        ("run", "--data", "new.csv", *OWN, *FAST),
        ("schema", "infer", "new.csv", *OWN),
        ("predict", "model", "new.csv"),
        ("audit", "model", "--data", "new.csv"),
    ):
        assert fedfb(*words, "--thousands", ".", "--separator", ";").code == 0
        refused(fedfb(*words, "--decimal", "x"), "--decimal is 'x', expected '.' or ','")
    refused(fedfb("run", "--decimal", ","), "decimal (--decimal) does not apply to 'synthetic'")


def test_what_schema_infer_leaves_out_is_said_in_capitals(fedfb, write):
    text = "".join(f"{line},{i}-x\n" for i, line in enumerate(rows().splitlines()))
    write(text.replace("0-x", "code", 1), "rows.csv")
    said = fedfb("schema", "infer", "rows.csv", *OWN)
    assert "LEFT OUT: rows.csv: column 'code' looks like an identifier" in said.err
    assert "give it a role and a type in the schema" in " ".join(said.err.split())


def test_a_pipe_is_one_file_whatever_its_seeds(fedfb, clients):
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(Path("clients/north.csv").read_bytes()))
    os.close(writing)
    flags = (*OWN, *FAST, "--seeds", 2, "--json")
    piped = fedfb("run", "--data", f"/dev/fd/{reading}", *flags).json
    os.close(reading)
    file = fedfb("run", "--data", "clients/north.csv", *flags).json
    for one, other in zip(piped["runs"], file["runs"], strict=True):
        assert one["groups"] == other["groups"]


def test_what_is_in_a_folder_beside_tables_is_named(fedfb, clients, write, tmp_path):
    write("see the tables", "clients/README")
    notes = fedfb("run", "--data", "clients", *OWN, *FAST, "--json").json["notes"]
    assert "clients: not read, since they are no tables: README" in notes
    (tmp_path / "empty").mkdir()
    refused(fedfb("run", "--data", "empty", *OWN), "the folder empty has no tables")
