"""A whole federation on this machine: a server and four clients, each a process of its own.

Mutual TLS is on, sums are secure, rows are drawn and written as CSV. It is a trial: one command
makes the keys of all. At the end stand the result, its distance to the same run in one process, and
the ledger.

    python examples/federation.py --rounds 5
"""

import argparse
import csv
import random
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

CLIENTS = ("east", "north", "south", "west")
FEDFB = (sys.executable, "-m", "fedfb")


def write_clients(folder: Path, rows: int = 400, seed: int = 0) -> Path:
    """Write a file for each client: four groups (sex and region), unlike in the four clients."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, client in enumerate(CLIENTS):
        rng = np.random.default_rng((seed, number))
        sex = np.where(rng.random(rows) < 0.3 + 0.1 * number, "F", "M")
        region = np.where(rng.random(rows) < 0.7 - 0.1 * number, "rural", "urban")
        ward = rng.choice(["acute", "day", "maternity"], rows)
        age = np.round(rng.normal(50 + 5 * (region == "rural"), 15, rows), 1)
        pulse = np.round(rng.normal(75 + 6 * (sex == "F"), 12, rows), 1)
        logit = 0.06 * (age - 50) + 0.05 * (pulse - 75) + 0.8 * (ward == "acute") - 0.4
        logit += 0.7 * (sex == "M") - 0.5 * (region == "rural")
        urgent = np.where(rng.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no")
        with (folder / f"{client}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "pulse", "ward", "sex", "region", "urgent"])
            columns = (age.tolist(), pulse.tolist(), ward, sex, region, urgent)
            writer.writerows(zip(*columns, strict=True))
    return folder


def free_port() -> int:
    """Return a port that nobody listens on, and none that outgoing connections are given."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise OSError("no free port")


def init(folder: Path, clients: Path, settings: list[str], **options: str | float) -> Path:
    """Make the study; return its file."""
    given = {"address": f"127.0.0.1:{free_port()}", "timeout": 60, "wait": 60, **options}
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    data = ["--label", "urgent", "--positive", "yes", "--sensitive", "sex,region"]
    command = [*FEDFB, "study", "init", str(folder), "--like", f"{clients}/*.csv", *data]
    names = ["--trial", "--clients", ",".join(CLIENTS)]
    subprocess.run([*command, *names, *flags, *settings], check=True, capture_output=True)
    return folder / "study.toml"


def serve(study: Path) -> "subprocess.Popen[str]":
    """Start the server."""
    return _start([*FEDFB, "study", "serve", str(study)], study.parent / "server.out")


def join(study: Path, client: str, clients: Path) -> "subprocess.Popen[str]":
    """Start a client."""
    key, rows = study.parent / "keys" / f"{client}.key", clients / f"{client}.csv"
    flags = ["--key", str(key), "--data", str(rows), "--again", "--yes"]
    return _start([*FEDFB, "study", "join", str(study), *flags], study.parent / f"{client}.out")


def _start(command: list[str], out: Path) -> "subprocess.Popen[str]":
    with out.open("a", encoding="utf-8") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True)


def in_one_process(study: Path, clients: Path, **options):
    """Run the same experiment with --secure in this process; return its outcome."""
    from fedfb.study.study import read_study

    return train_alone(read_study(study), study.parent, clients, **options)


def train_alone(study, folder: Path, clients: Path, **options):
    """Run the experiment of a study with --secure in this process; return its outcome."""
    from fedfb.data.schema_file import write_schema
    from fedfb.experiments.outcome import train

    schema = folder / "schema.toml"
    schema.write_text(write_schema(study.schema), encoding="utf-8")
    return train(replace(study.experiment, data=f"{clients}/*", schema=str(schema)), **options)


def final_state(run: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the model in a folder: of the server or of a client."""
    with np.load(run / "models.npz", allow_pickle=False) as found:
        return {name.partition("/state/")[2]: found[name] for name in found}


def distance(study: Path, clients: Path) -> dict[str, float]:
    """Return how far the final state is from the one in one process, array by array."""
    alone = in_one_process(study, clients).fitted[0].trained.state._asdict()
    there = final_state(study.parent / "run")
    return {
        name: float(np.max(np.abs(np.asarray(value, float) - there[name]), initial=0.0))
        for name, value in alone.items()
    }


def main() -> None:
    """Run the federation, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--algorithm", default="fedfb")
    parser.add_argument("--local-epochs", default="10")
    parser.add_argument("--write", type=Path, help="only write the clients' files, here")
    given = parser.parse_args()
    if given.write:
        write_clients(given.write)
        return
    with tempfile.TemporaryDirectory() as temporary:
        clients = write_clients(Path(temporary) / "clients")
        settings = ["--algorithm", given.algorithm, "--notion", "dp", "--rounds", given.rounds]
        settings += ["--local-epochs", given.local_epochs, "--lr", "0.02"]
        study = init(Path(temporary) / "triage", clients, settings)
        start = time.monotonic()
        processes = [serve(study), *(join(study, client, clients) for client in CLIENTS)]
        try:
            code = processes[0].wait()
        finally:
            for process in processes:
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
        print((study.parent / "server.out").read_text())
        if code:
            sys.exit(code)
        print(f"{time.monotonic() - start:.1f} s, five processes.")
        print("Distance to the run in one process (--secure), by array of the state:")
        for name, far in distance(study, clients).items():
            print(f"  {name:10} {far:g}{'  (the same bits)' if far == 0 else ''}")
        subprocess.run([*FEDFB, "ledger", str(study.parent / "run")], check=True)


if __name__ == "__main__":
    main()
