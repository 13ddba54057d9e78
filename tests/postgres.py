"""A PostgreSQL server of its own for a session of tests: started once, stopped with the session.

The workers of a session share one server. A process beside them, which this file is as a program,
stops it and removes its files as soon as the session has ended, however it ended.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

USER, PASSWORD = "tester", "f0r tests: @/?#%&=+'\"\\ only"
"""A password with each character that has a meaning in an address."""


def find_binaries() -> Path | None:
    """Return the folder of initdb and postgres; None if PostgreSQL is not installed."""
    path = shutil.which("initdb")
    folders = [Path(path).resolve().parent] if path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def as_user() -> dict[str, object]:
    """Return how a program is started that refuses to run as root."""
    if os.getuid() != 0:
        return {}
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in names else "nobody"
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def start_once(binaries: Path, session: int) -> str:
    """Return the port of the session's server; the first worker that asks starts it.

    Args:
        binaries: folder of the programs.
        session: process whose end ends the server.
    """
    place = Path(tempfile.gettempdir()) / f"fedfb-postgres-{session}"
    with place.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        port = file.read()
        if not port:
            port = _start(binaries, session, place)
            file.write(port)
    return port


def _start(binaries: Path, session: int, place: Path) -> str:
    folder = Path(tempfile.mkdtemp(prefix="fedfb-pg-"))
    if os.getuid() == 0:
        shutil.chown(folder, as_user()["user"])
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    subprocess.run(
        [
            *(binaries / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256"),
            *(f"--pwfile={folder}/password", "--no-sync", "-E", "UTF8", "--locale=C"),
        ],
        **as_user(), check=True, capture_output=True, cwd=folder,
    )  # fmt: skip
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    command = [sys.executable, __file__, str(session), str(folder), str(place), str(binaries), port]
    subprocess.run(
        command,
        check=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
            return port
        time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()}")


def serve(session: int, folder: Path, place: Path, binaries: Path, port: str) -> None:
    """Run the server until a session of tests has ended, then remove its files."""
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(binaries / "postgres", "-D", folder / "data", "-F", "-p", port, "-k", folder),
                *("-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"),
            ],
            **as_user(), stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
        try:
            while server.poll() is None and Path(f"/proc/{session}").exists():
                time.sleep(0.1)
        finally:
            with suppress(ProcessLookupError):
                server.send_signal(signal.SIGQUIT)
            server.wait(timeout=20)
            shutil.rmtree(folder, ignore_errors=True)
            place.unlink(missing_ok=True)


if __name__ == "__main__":
    if os.fork():  # whoever started this program need not wait for it
        os._exit(0)
    serve(int(sys.argv[1]), *map(Path, sys.argv[2:5]), sys.argv[5])
