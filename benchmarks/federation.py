"""Seconds and CPU of a round of a study on loopback, and what they are spent on.

A server and four clients as processes, with mutual TLS and secure sums; then the same messages
handed over in one process, and the same run without messages. A round is what a long run takes more
than a short one, so that starting up is not in it.

    python benchmarks/federation.py
"""

import os
import resource
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

import federation  # noqa: E402

SHORT, LONG = 2, 12
SETTINGS = ["--algorithm", "fedfb", "--notion", "dp", "--local-epochs", "10", "--lr", "0.02"]
SETTINGS += ["--sensitive-at-prediction", "yes", "--solver", "local"]


def cpu(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def open_server(study, folder):
    """Return the study of a folder, the server's keys, the signatures, and the transport."""
    from fedfb.study.disclosure import estimate_request
    from fedfb.study.folder import StudyFolder
    from fedfb.study.transport import GrpcServer

    studied, keys, signatures = StudyFolder(folder).read(study)
    return studied, keys, signatures, GrpcServer(studied, keys, estimate_request(studied))


def federated(folder, rounds):
    """Run with the server in this process; return seconds per round and CPU of both sides."""
    from fedfb.study.server import serve_study

    clients = federation.write_clients(folder / "clients")
    study = federation.init(folder / "study", clients, [*SETTINGS, "--rounds", str(rounds)])
    studied, keys, signatures, transport = open_server(study, study.parent)
    run = study.parent / "run"
    before = cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    processes = [federation.join(study, client, clients) for client in federation.CLIENTS]
    serve_study(studied, keys, signatures, run, transport, lambda text: None)
    for process in processes:
        process.wait()
    used = cpu(resource.RUSAGE_SELF) - before[0], cpu(resource.RUSAGE_CHILDREN) - before[1]
    from fedfb.study.journal import EVENTS, read_events

    ends = [
        datetime.fromisoformat(event["time"])
        for event in read_events(run / EVENTS)
        if event["event"] == "round"
    ]
    apart = [(b - a).total_seconds() for a, b in pairwise(ends)]
    return statistics.median(apart), used


def by_hand(folder):
    """Return seconds per round of the same code: all sides in this process, and without messages.

    In order: messages handed over, one process, one process with --secure.
    """
    from fedfb.experiments.outcome import run
    from fedfb.experiments.spec import Experiment
    from study.by_hand import make, run_by_hand

    took = []
    # The first runs warm up what is loaded and kept.
    for rounds in (SHORT, SHORT, LONG):
        experiment = Experiment(
            rounds=rounds, local_epochs=10, lr=(0.02,), sensitive_at_prediction=True, solver="local"
        )
        made = make(folder / str(len(took)), experiment, rows=400)
        start = time.perf_counter()
        run_by_hand(made)
        took.append(time.perf_counter() - start)
        plain = replace(
            experiment,
            data=f"{made.files}/*.csv",
            label="urgent",
            positive="yes",
            sensitive=("sex", "region"),
        )
        for secure in (False, True):
            start = time.perf_counter()
            with warnings.catch_warnings(action="ignore"):  # few rounds miss the target
                run(replace(plain, secure=secure))
            took.append(time.perf_counter() - start)
    each = LONG - SHORT
    return [(late - early) / each for early, late in zip(took[3:6], took[6:], strict=True)]


def request_seconds(folder):
    """Return the median time of a request that the server answers at once."""
    from fedfb.study.disclosure import estimate_response
    from fedfb.study.journal import Journal, Log
    from fedfb.study.keys import read_private_keys
    from fedfb.study.mailbox import Mailbox
    from fedfb.study.transport import GrpcLink
    from fedfb.study.wire import Request

    clients = federation.write_clients(folder / "clients")
    study = federation.init(folder / "study", clients, [*SETTINGS, "--rounds", "1"])
    studied, _, signatures, transport = open_server(study, study.parent)
    journal = Journal(folder, studied.seal)
    mailbox = Mailbox(studied, journal, signatures, Log(folder / "log", lambda text: None))
    keys = read_private_keys(study.parent / "keys" / "east.key")
    request = Request(bytes.fromhex(studied.seal), studied.code.encode(), "hello", 0)
    link, took = GrpcLink(studied, keys, lambda text: None, estimate_response(studied)), []
    with transport.serve(mailbox):
        for _ in range(200):
            start = time.perf_counter()
            link.ask(request)
            took.append(time.perf_counter() - start)
        link.close()
    journal.close()
    return statistics.median(took)


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["FEDFB_STATE"] = str(folder / "remembered")
        _, early = federated(folder / "short", SHORT)
        wall, late = federated(folder / "long", LONG)
        server, clients = ((b - a) / (LONG - SHORT) for a, b in zip(early, late, strict=True))
        handed, plain, masked = by_hand(folder / "hand")
        request = request_seconds(folder / "request")
    print("FedFB, four clients of 280 training rows, three exchanges of five turns a round")
    print(f"  a round on loopback, wall             {wall:8.3f} s")
    print(f"    CPU of the server                   {server:8.3f} s")
    print(f"    CPU of the four clients together    {clients:8.3f} s")
    print(f"  the same messages handed over         {handed:8.3f} s   (all sides, one process)")
    print(f"  in one process, --secure              {masked:8.3f} s")
    print(f"  in one process                        {plain:8.3f} s")
    print(f"  one request that is answered at once  {1000 * request:8.2f} ms")
    print("  requests of a round: 3 exchanges x 6 x 4 clients = 72, none of them polls")
    print(f"  load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
