"""Points on the way to many clients: evaluation, requests a server serves, rounds on a share.

python benchmarks/scale.py
"""

import sys
import tempfile
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

SECONDS = 4.0


def requests_per_second(folder, clients):
    """Return how many requests of so many clients a server in this process answers."""
    import subprocess

    import federation

    from fedfb.study.disclosure import estimate_request, estimate_response
    from fedfb.study.folder import StudyFolder
    from fedfb.study.journal import Journal, Log
    from fedfb.study.keys import read_private_keys
    from fedfb.study.mailbox import Mailbox
    from fedfb.study.transport import GrpcLink, GrpcServer
    from fedfb.study.wire import Request

    rows = federation.write_clients(folder / "clients", rows=40)
    names = [f"c{number:03}" for number in range(clients)]
    command = [*federation.FEDFB, "study", "init", str(folder / "study"), "--trial"]
    command += ["--clients", ",".join(names), "--like", str(rows / "*.csv"), "--label", "urgent"]
    command += ["--positive", "yes", "--sensitive", "sex", "--rounds", "1"]
    command += ["--address", f"127.0.0.1:{federation.free_port()}"]
    subprocess.run(command, check=True, capture_output=True)
    studied, keys, signatures = StudyFolder(folder / "study").read(folder / "study" / "study.toml")
    request = Request(bytes.fromhex(studied.seal), studied.code.encode(), "hello", 0)

    def ask(name):
        own, asked = read_private_keys(folder / "study" / "keys" / f"{name}.key"), 0
        link, end = (
            GrpcLink(studied, own, lambda text: None, estimate_response(studied)),
            time.monotonic() + SECONDS,
        )
        while time.monotonic() < end:
            link.ask(request)
            asked += 1
        link.close()
        return asked

    journal = Journal(folder, studied.seal)
    mailbox = Mailbox(studied, journal, signatures, Log(folder / "log", lambda text: None))
    before = time.process_time()
    with (
        GrpcServer(studied, keys, estimate_request(studied)).serve(mailbox),
        ThreadPoolExecutor(clients) as pool,
    ):
        total = sum(pool.map(ask, names))
    journal.close()
    return total / SECONDS, (time.process_time() - before) / total


def many_clients(number, rows=20_000):
    """Deal the synthetic rows to many clients, at random."""
    from fedfb.core import ClientData
    from fedfb.data import load
    from fedfb.data.request import DataRequest

    drawn = load(
        DataRequest("synthetic", rows=rows, test_rows=10_000, sensitive_at_prediction=True),
        split_seed=0,
    )
    x, y, group = (
        np.concatenate([getattr(client, part) for client in drawn.clients])
        for part in ("x", "y", "group")
    )
    whose = np.random.default_rng(0).permutation(len(y)) % number
    clients = tuple(
        ClientData(id, x[whose == id], y[whose == id], group[whose == id], 2)
        for id in range(number)
    )
    test = drawn.test._replace(client=np.full(len(drawn.test.y), -1))
    names = tuple(f"c{id}" for id in range(number))
    return replace(drawn, clients=clients, client_names=names, test=test)


def sampled(share, secure, clients=1000, rounds=20):
    """Return accuracy, disparity and seconds per round of FedFB on a share of the clients."""
    from fedfb.experiments.outcome import run
    from fedfb.experiments.spec import Experiment

    experiment = Experiment(
        rounds=rounds,
        local_epochs=5,
        lr=(0.02,),
        alpha=(0.5,),
        participation=share,
        secure=secure,
        sensitive_at_prediction=True,
    )
    start = time.perf_counter()
    [record] = run(experiment, federations={0: many_clients(clients)}).runs
    took = (time.perf_counter() - start) / rounds
    return record.accuracy, record.disparity["demographic_parity"], took


def evaluated(clients):
    """Return CPU seconds and MB of evaluating so many clients and of printing their report.

    The rows and the report of training are held before and not counted.
    """
    from msgspec.structs import asdict, replace

    from fedfb.core import Examples, Prediction
    from fedfb.experiments.evaluate import evaluate
    from fedfb.experiments.outcome import run
    from fedfb.experiments.spec import Experiment
    from fedfb.report.text import print_run

    report = run(Experiment(rows=200, test_rows=200, rounds=1, local_epochs=1))
    rng, rows = np.random.default_rng(0), 30 * clients
    score, names = rng.random((1, rows)), [f"c{id}" for id in range(clients)]
    y, group = rng.integers(0, 2, (2, rows))
    test = Examples(np.zeros((rows, 1)), y, group, np.arange(rows) % clients)
    decision = np.round(score)

    def report_on():
        [record] = evaluate(Prediction(score, decision), test, ["0", "1"], names)
        [old] = report.runs
        with redirect_stdout(StringIO()):
            print_run(replace(report, runs=(replace(old, **asdict(record)),)))

    start = time.process_time()
    report_on()
    took = time.process_time() - start
    tracemalloc.start()  # it slows down: memory is measured in a second pass
    report_on()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return took, peak / 2**20


def main():
    print("clients  evaluation and report: CPU s  MB")
    for clients in (10, 100, 1_000, 10_000):
        took, peak = evaluated(clients)
        print(f"{clients:7}  {took:28.2f}  {peak:.0f}")
    print("clients  requests/s  CPU a request, ms (client and server)")
    for clients in (4, 16, 64):
        with tempfile.TemporaryDirectory() as temporary:
            rate, cpu = requests_per_second(Path(temporary), clients)
        print(f"{clients:7}  {rate:10.0f}  {1000 * cpu:8.2f}")
    print("share  asked  secure  accuracy  disparity  s/round")
    for share, secure in ((0.01, False), (0.05, False), (0.2, False), (1.0, False), (0.05, True)):
        accuracy, disparity, took = sampled(share, secure)
        asked = round(1000 * share)
        print(f"{share:5}  {asked:5}  {secure!s:6}  {accuracy:.3f}  {disparity:.3f}  {took:.3f}")


if __name__ == "__main__":
    main()
