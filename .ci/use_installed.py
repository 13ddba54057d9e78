"""Use an installed fedfb as its users do; with ``extras`` also what needs the extras.

Runs in a folder of its own, with the interpreter of the environment that is to be tested.
"""

import csv
import os
import random
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

OWN = ("--label", "paid", "--positive", "yes", "--sensitive", "sex")
QUICK = ("--rows", "200", "--rounds", "2", "--local-epochs", "1")


def fedfb(*arguments: str) -> str:
    """Run a command; return what it printed, or end with what it said."""
    command = [str(Path(sys.executable).parent / "fedfb"), *arguments]
    ending = subprocess.run(command, capture_output=True, text=True, check=False)
    if ending.returncode:
        sys.exit(f"fedfb {' '.join(arguments)}: exit code {ending.returncode}\n{ending.stderr}")
    return ending.stdout


def subcommands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of the command and of all below it."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from subcommands(below, (*path, name))


def show_all_help() -> int:
    """Ask for the help of every command; return how many there are."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from fedfb.cli.app import app

    paths = list(subcommands(get_command(app)))
    for path in paths:
        shown = CliRunner().invoke(app, [*path, "--help"], prog_name="fedfb")
        if shown.exit_code or "Usage: fedfb" not in shown.output:
            sys.exit(f"fedfb {' '.join(path)} --help: {shown.output} {shown.exception!r}")
    return len(paths)


def write_rows(folder: Path) -> None:
    """Write the rows of three clients as CSV."""
    draw = random.Random(0)
    folder.mkdir()
    for client in ("east", "north", "south"):
        with (folder / f"{client}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("income", "sex", "paid"))
            for _ in range(100):
                income = draw.gauss(0, 1)
                rows.writerow((income, draw.choice("fm"), "yes" if income > 0 else "no"))


def write_sqlite(rows: Path, path: Path) -> None:
    """Write a CSV file as a table of SQLite."""
    with rows.open(encoding="utf-8", newline="") as file, closing(sqlite3.connect(path)) as table:
        table.execute("create table loans (income real, sex text, paid text)")
        table.executemany("insert into loans values (?, ?, ?)", list(csv.reader(file))[1:])
        table.commit()


def use_study() -> None:
    """Run a study: a server and three clients as processes of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    names, place = ("east", "north", "south"), Path("study")
    trial = ("--trial", "--clients", ",".join(names), "--address", address, "--wait", "120")
    fedfb("study", "init", str(place), *trial, "--like", "clients/*.csv", *OWN, *QUICK[2:4])
    join = ("study", "join", "study/study.toml", "--yes", "--again")
    sides = [
        ("study", "serve", "study/study.toml"),
        *((*join, "--data", f"clients/{c}.csv", "--key", f"study/keys/{c}.key") for c in names),
    ]
    os.environ["FEDFB_STATE"] = "remembered"
    with ThreadPoolExecutor(len(sides)) as pool:
        list(pool.map(lambda side: fedfb(*side), sides))
    fedfb("study", "fetch", "study/keys/north.state", "--to", "north-has")
    fedfb("predict", "north-has", "clients/north.csv")


def use_extras() -> None:
    """Use what comes with the extras export, parquet, privacy, report, sql and study."""
    import duckdb
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    use_study()
    fedfb("report", "own")
    fedfb("audit", "own", "--out", "audited", "--secure")
    for form in ("onnx", "skops", "json"):
        fedfb("export", "own", "--to", form)
    for path in Path("clients").glob("*.csv"):
        parquet.write_table(arrow_csv.read_csv(path), path.with_suffix(".parquet"))
    fedfb("run", "--data", "clients/*.parquet", *OWN, *QUICK[2:])
    with duckdb.connect("rows.duckdb") as connection:
        # Newer versions of DuckDB read yes and no as truth values.
        source = "read_csv('clients/*.csv', types = {'paid': 'VARCHAR'})"
        connection.execute(f"create table rows as from {source}")
    query = ("--query", "select * from rows order by income")
    fedfb("run", "--data", "rows.duckdb", *query, *OWN, *QUICK[2:], "--partition", "group")
    fedfb("run", *QUICK, "--secure")
    fedfb("run", *QUICK, "--privacy-epsilon", "3")
    fedfb("compare", *QUICK, "--algorithms", "fedavg,fedfb", "--plot", "points.png")


def main() -> None:
    """Use the installed package, and say what was done."""
    import numpy as np

    import fedfb as package
    from fedfb.engine.native.library import is_built

    if "site-packages" not in (package.__file__ or ""):
        sys.exit(f"fedfb is imported from {package.__file__}: not what was installed.")
    if not is_built():
        sys.exit("the wheel holds no compiled engine.")
    version, engine = fedfb("--version").splitlines()
    if version != f"fedfb {package.__version__}" or not engine.startswith("engine: native ("):
        sys.exit(f"fedfb --version says {version!r}, {engine!r}.")
    if "fedavg - fedfb" not in fedfb("demo"):
        sys.exit("fedfb demo prints no differences.")
    number = show_all_help()
    write_rows(Path("clients"))
    fedfb("run", "--data", "clients/*.csv", *OWN, *QUICK[2:], "--out", "own")
    fedfb("predict", "own", "clients/east.csv")
    write_sqlite(Path("clients/east.csv"), Path("east.sqlite"))
    if fedfb("predict", "own", "east.sqlite") != fedfb("predict", "own", "clients/east.csv"):
        sys.exit("fedfb predict differs between a CSV file and a table of SQLite.")
    rows = np.random.default_rng(0).normal(size=(200, 2))
    groups = np.arange(200) % 2
    model = package.FedFBClassifier(rounds=2, local_epochs=1)
    model.fit(rows, rows[:, 0] > 0, sensitive_features=groups, client=np.arange(200) % 3)
    if "extras" in sys.argv:
        use_extras()
    print(f"{version}: the demo, the help of {number} commands, own files and the classifier work.")


main()
