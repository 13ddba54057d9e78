"""Seconds per round of a federation on loopback, and what they are spent on.

A server and four clients as processes, TLS and node authentication on, secure sums; then the
same messages handed over in one process, and the same run without messages. CPU of a round is that
of a long run less that of a short one, so that starting up is not in it.

    python benchmarks/federation.py
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

import federation  # noqa: E402

SHORT, LONG = 2, 6
SETTINGS = ["--algorithm", "fedfb", "--notion", "dp", "--local-epochs", "10", "--lr", "0.02"]
SETTINGS += ["--sensitive-at-prediction", "yes"]


def cpu(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def federated(folder, rounds):
    """Run with the server in this process; return seconds per round and CPU of both sides."""
    from fedfb.study.keys import read_server_secrets
    from fedfb.study.transport.server import serve_study

    clients = federation.write_clients(folder / "clients")
    study = federation.init(folder / "study", clients, [*SETTINGS, "--rounds", str(rounds)])
    planned, secrets = read_server_secrets(study)
    before = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    processes = [federation.join(study, client, clients) for client in federation.CLIENTS]
    serve_study(planned, secrets, study.parent, lambda text: None)
    for process in processes:
        process.wait()
    used = cpu(resource.RUSAGE_SELF) - before[0], cpu(resource.RUSAGE_CHILDREN) - before[1]
    lines = (study.parent / "run" / "events.jsonl").read_text().splitlines()
    ends = [
        datetime.fromisoformat(event["time"])
        for event in map(json.loads, lines)
        if event["event"] == "round"
    ]
    apart = [(b - a).total_seconds() for a, b in pairwise(ends)]
    return statistics.median(apart), used


def by_hand(folder):
    """Return seconds per round of the same code, all parties in this process, no network."""
    from flower.by_hand import make, run_by_hand

    from fedfb.experiments.spec import Experiment

    took = []
    for rounds in (SHORT, LONG):
        experiment = Experiment(
            rounds=rounds, local_epochs=10, lr=(0.02,), sensitive_at_prediction=True
        )
        study, clients = make(folder / str(rounds), experiment, rows=400)
        start = time.perf_counter()
        run_by_hand(study, clients)
        took.append(time.perf_counter() - start)
        alone = [0.0, 0.0]
        for secure in (0, 1):
            from dataclasses import replace

            from fedfb.experiments.outcome import run

            plain = replace(experiment, data=f"{clients}/*.csv", label="urgent", positive="yes",
                            sensitive=("sex", "region"), secure=bool(secure))  # fmt: skip
            start = time.perf_counter()
            run(plain)
            alone[secure] = time.perf_counter() - start
        took += alone
    each = LONG - SHORT
    return [(late - early) / each for early, late in zip(took[:3], took[3:], strict=True)]


def request_seconds(folder):
    """Return the time of one request to the server that finds no message."""
    from flwr.proto.fleet_pb2 import PullMessagesRequest

    from fedfb.study.keys import read_bundle, read_server_secrets
    from fedfb.study.transport.client import activate_node, open_fleet_client
    from fedfb.study.transport.server import open_superlink

    clients = federation.write_clients(folder / "clients")
    study = federation.init(folder / "study", clients, [*SETTINGS, "--rounds", "1"])
    planned, secrets = read_server_secrets(study)
    bundle = read_bundle(study.parent / "bundles" / "east.bundle")
    with (
        open_superlink(planned, secrets, study.parent / "secrets"),
        open_fleet_client(bundle) as client,
    ):
        node = activate_node(bundle, client, folder, lambda text: None)
        request, took = PullMessagesRequest(node=node), []
        for _ in range(200):
            start = time.perf_counter()
            client.PullMessages(request)
            took.append(time.perf_counter() - start)
    return statistics.median(took)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _, early = federated(folder / "short", SHORT)
        wall, late = federated(folder / "long", LONG)
        server, clients = ((b - a) / (LONG - SHORT) for a, b in zip(early, late, strict=True))
        handed, plain, masked = by_hand(folder / "hand")
        request = request_seconds(folder / "request")
    print("FedFB, four clients of 280 training rows, three questions of five turns a round")
    print(f"  a round on loopback, wall             {wall:8.3f} s")
    print(f"    CPU of the server              {server:8.3f} s")
    print(f"    CPU of the four clients together      {clients:8.3f} s")
    print(f"  the same messages handed over         {handed:8.3f} s   (all parties, one core)")
    print(f"  in one process, --secure              {masked:8.3f} s")
    print(f"  in one process                        {plain:8.3f} s")
    print(f"  one request that finds no message     {1000 * request:8.2f} ms")
    print("  requests that carry a round: 15 turns x 4 clients x 8 = 480; with polls more")


if __name__ == "__main__":
    main()
