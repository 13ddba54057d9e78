"""The commands and the code of docs/own-data.md are run, in their order, on rows made up here."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas
import pytest

from fedfb.data.schema_file import read_schema

PAGE = (Path(__file__).parents[1] / "docs/own-data.md").read_text(encoding="utf-8")
SMALL = " --rounds 1 --local-epochs 1"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def applicants(rows, seed):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "customer_id": rng.permutation(90_000)[:rows],
            "opened": pandas.date_range("2021-03-01", periods=rows).strftime("%Y-%m-%d"),
            "income": rng.lognormal(10, 1, rows).round(),
            "job": rng.choice(["clerk", "cook", "nurse"], rows),
            "age": rng.integers(18, 90, rows),
            "sex": rng.choice(["F", "M"], rows),
            "race": rng.choice(["Asian", "Black", "Other", "White"], rows, p=(0.1, 0.3, 0.1, 0.5)),
            "approved": rng.choice(["yes", "no"], rows),
        }
    )


@pytest.mark.slow
def test_the_page_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "clients").mkdir()
    clients = {name: applicants(300, n) for n, name in enumerate(("north", "south", "west"))}
    clients["south"].to_parquet("clients/south.parquet", index=False)
    for name in ("north", "west"):
        clients[name].to_csv(f"clients/{name}.csv", index=False)
    clients["north"].drop(columns="approved").to_csv("new.csv", index=False)
    rows = pandas.concat([rows.assign(branch=name) for name, rows in clients.items()])
    rows.to_csv("rows.csv", index=False)
    with closing(sqlite3.connect("loans.sqlite")) as connection:
        rows.to_sql("loans", connection, index=False)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 17
    for line in lines:
        trains = line.startswith(("fedfb run", "fedfb frontier"))
        command = line.replace("fedfb", f"{sys.executable} -m fedfb", 1) + SMALL * trains
        ended = subprocess.run(
            command, shell=True, capture_output=True, text=True, env=dict(os.environ)
        )
        diagnoses = line.startswith("fedfb doctor")
        assert ended.returncode == int(diagnoses), (line, ended.stderr)
    assert len((tmp_path / "decisions.csv").read_text().splitlines()) == 301
    assert len((tmp_path / "decisions-of-loans.csv").read_text().splitlines()) == 901

    [code] = blocks("python")
    exec(compile(code, "own-data.md", "exec"), {})


def test_the_schema_shown_is_one(tmp_path):
    shown = "\n".join(blocks("toml"))
    (tmp_path / "schema.toml").write_text(shown)
    schema = read_schema(tmp_path / "schema.toml")
    assert [column.name for column in schema.of("feature")] == ["income", "age", "job", "opened"]
    assert schema.named["race"].group_values == ("rest", "Black", "White")
