"""Machines of a network that only this test has: namespaces, and one wire that delays all frames.

A namespace has its own addresses, routes and ports. The wire is a switch in Python, because not
every kernel can delay packets. All addresses are those of the namespaces.
"""

import heapq
import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

LATENCY_S = 0.05
"""How long the wire holds every frame, in each direction."""

SOL_PACKET, IGNORE_OUTGOING, VNET_HEADER, HEADER_BYTES = 263, 23, 15, 10
LARGEST_FRAME = 1 << 17


def find_obstacle():
    """Return why no namespaces can be made here; None if they can."""
    if shutil.which("ip") is None:
        return "there is no ip (package iproute2)"
    probe = f"fedfb-{os.getpid()}-probe"
    made = _ip("netns", "add", probe)
    if made.returncode:
        return f"no network namespace can be made: {made.stderr.strip()}"
    linked = _ip("link", "add", "wire", "netns", probe, "type", "veth", "peer", "other")
    _ip("netns", "del", probe)
    return f"no veth can be made: {linked.stderr.strip()}" if linked.returncode else None


def _ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)


def _do(*arguments):
    done = _ip(*arguments)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


class Machines:
    """Machines with a folder each, joined by a wire; all of it is gone when the context ends.

    Args:
        folder: the folder of all machines.
        names: the names of the machines.
        hosts: further names of machines: name by machine.
    """

    def __init__(self, folder, names, hosts):
        self.folder, self.names = folder, names
        self._space = {name: f"fedfb-{os.getpid()}-{name}" for name in (*names, "wire")}
        self._addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
        lines = [f"{self._addresses[machine]} {name}" for machine, name in hosts.items()]
        self._hosts = folder / "hosts"
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        self._running = []

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
        for space in self._space.values():
            _ip("netns", "del", space)

    def _build(self):
        for space in self._space.values():
            _do("netns", "add", space)
            _do("-n", space, "link", "set", "lo", "up")
        for name in self.names:
            space, wire = self._space[name], self._space["wire"]
            self.place(name).mkdir()
            _do("link", "add", "eth0", "netns", space, "type", "veth", "peer", name, "netns", wire)
            _do("-n", space, "address", "add", f"{self._addresses[name]}/24", "dev", "eth0")
            _do("-n", space, "link", "set", "eth0", "up")
            _do("-n", wire, "link", "set", name, "up")
        command = ["ip", "netns", "exec", self._space["wire"], sys.executable, __file__]
        self._running.append(
            subprocess.Popen([*command, *self.names], start_new_session=True, close_fds=True)
        )

    def place(self, name):
        """Return the folder of a machine."""
        return self.folder / name

    def start(self, name, script, answer=""):
        """Run a script on a machine, in its folder; return the process.

        Args:
            name: the machine.
            script: lines for bash.
            answer: what its user types.
        """
        # `ip netns exec` has mounts of its own: nobody else sees these names of machines.
        before = f"mount --bind {shlex.quote(str(self._hosts))} /etc/hosts\n"
        home = self.place(name)
        with (home / "out").open("a") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._space[name], "bash", "-euc", before + script],
                cwd=home,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                    "FEDFB_STATE": str(home / "remembered"),
                },
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._running.append(process)
        process.stdin.write(answer)
        process.stdin.close()
        return process

    def finish(self, processes, timeout_s):
        """Wait for processes by machine; all must end well."""
        end = time.monotonic() + timeout_s
        for name, process in processes.items():
            try:
                code = process.wait(timeout=max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                code = f"none after {timeout_s} s"
            assert code == 0, f"{name}: exit code {code}\n{self.read(name)}"

    def read(self, name):
        """Return all that the scripts of a machine have printed."""
        return (self.place(name) / "out").read_text()


def carry(ports):
    """Carry frames between ports, each after the latency, until this process is killed."""
    sockets, homes, ready, number = {}, {}, [], count()
    waiting = selectors.DefaultSelector()
    for name in ports:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        port.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
        # Checksums are completed by the last card: the header says which are still open.
        port.setsockopt(SOL_PACKET, VNET_HEADER, 1)
        port.bind((name, 0))
        sockets[name] = port
        waiting.register(port, selectors.EVENT_READ, name)
    while True:
        pause = max(ready[0][0] - time.monotonic(), 0.0) if ready else None
        for key, _ in waiting.select(pause):
            frame = key.fileobj.recv(LARGEST_FRAME)
            heapq.heappush(ready, (time.monotonic() + LATENCY_S, next(number), key.data, frame))
        while ready and ready[0][0] <= time.monotonic():
            _, _, origin, frame = heapq.heappop(ready)
            target, source = frame[HEADER_BYTES:][:6], frame[HEADER_BYTES + 6 :][:6]
            homes[source] = origin
            for name in [homes[target]] if target in homes else sockets:
                if name != origin:
                    sockets[name].send(frame)


if __name__ == "__main__":
    carry(sys.argv[1:])
