"""The ledger against the line: a forwarder between the silos and the coordinator counts bytes."""

import json
import socket
import threading

import pytest

from fedfb.runtime.ledger import read_ledger
from flower.by_hand import SILOS
from flower.processes import Federation

pytestmark = pytest.mark.slow

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


def test_the_ledger_tells_the_bytes_on_the_line(tmp_path):
    settings = ["--algorithm", "fedavg", "--rounds", "1", "--model", "mlp", "--hidden", "20000"]
    with Federation(tmp_path, settings) as there:
        port = int(there.study.read_text().split('address = "127.0.0.1:')[1].split('"')[0])
        forwarder = Forwarder(port)
        for silo in SILOS:
            path = there.study.parent / "bundles" / f"{silo}.bundle"
            bundle = json.loads(path.read_text())
            bundle["study"] = bundle["study"].replace(f":{port}", f":{forwarder.own_port}")
            path.write_text(json.dumps(bundle))
        there.start()
        assert there.finish() == 0, there.out("coordinator")
        forwarder.listening.close()
    accounts = read_ledger(there.study.parent / "run" / "ledger.jsonl")
    told = sum(e.bytes * len(e.clients) for account in accounts for e in account.entries)
    assert told > 10_000_000
    allowed = forwarder.connections * PER_CONNECTION
    assert told <= forwarder.bytes <= 1.2 * told + allowed, (told, forwarder.bytes, allowed)
