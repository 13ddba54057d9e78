"""A server and four clients as separate processes, TLS and node authentication on.

FedAvg with a large model, and a forwarder between the clients and the server that counts bytes.
FedFB: tests/study/test_deploy_page.py.
"""

import json
import socket
import threading

import httpx
import pytest

from fedfb.runtime.ledger import read_ledger
from study.by_hand import CLIENTS, federation
from study.processes import Federation
from study.replay import assert_same_bits

PER_CONNECTION = 64_000


class Forwarder:
    """Passes connections on to a port, and counts what goes through in both directions."""

    def __init__(self, port):
        self.port, self.bytes, self.connections = port, 0, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def own_port(self):
        return self.listening.getsockname()[1]

    def _accept(self):
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                near.close()
                continue
            self.connections += 1
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source, target):
        with source, target:
            try:
                while data := source.recv(65536):
                    with self.lock:
                        self.bytes += len(data)
                    target.sendall(data)
            except OSError:
                return


@pytest.mark.slow
def test_five_processes_have_the_bits_of_one_and_the_bytes_of_the_ledger(tmp_path):
    """One test, since one federation serves all of it, whichever worker takes it."""
    settings = ["--algorithm", "fedavg", "--rounds", "1", "--model", "mlp", "--hidden", "20000"]
    with Federation(tmp_path, settings) as there:
        port = int(there.study.read_text().split('address = "127.0.0.1:')[1].split('"')[0])
        forwarder = Forwarder(port)
        for client in CLIENTS:
            path = there.study.parent / "bundles" / f"{client}.bundle"
            bundle = json.loads(path.read_text())
            bundle["study"] = bundle["study"].replace(f":{port}", f":{forwarder.own_port}")
            path.write_text(json.dumps(bundle))
        there.start()
        there.wait_for("row counts")
        only_nodes_are_served(port)
        assert there.finish() == 0, there.out("server")
        for client in CLIENTS:
            assert there.running[client].wait(timeout=60) == 0, there.out(client)
        forwarder.listening.close()
    alone = federation.in_one_process(there.study, there.clients)
    state = federation.final_state(there.study)
    assert_same_bits(state, alone.fitted[0].trained.state._asdict())
    report = json.loads((there.study.parent / "run" / "result.json").read_text())
    assert report["runs"][0]["accuracy"] == pytest.approx(alone.by_seed[0][0].accuracy)
    the_ledger_tells_the_bytes(there.study.parent / "run" / "ledger.jsonl", forwarder)


def only_nodes_are_served(port):
    for route in ("/v1/control/start-run", "/v1/runtime/get-nodes", "/docs", "/health"):
        got = httpx.post(f"https://127.0.0.1:{port}{route}", verify=False)
        assert got.status_code in (404, 415), route  # nothing there, or not even a look


def the_ledger_tells_the_bytes(ledger, forwarder):
    accounts = read_ledger(ledger)
    assert [account.phase for account in accounts] == ["data", "run"]
    assert {entry.seen for a in accounts for entry in a.entries} == {"masked", "public"}
    told = sum(e.bytes * len(e.clients) for account in accounts for e in account.entries)
    assert told > 10_000_000
    allowed = forwarder.connections * PER_CONNECTION
    assert told <= forwarder.bytes <= 1.2 * told + allowed, (told, forwarder.bytes, allowed)
