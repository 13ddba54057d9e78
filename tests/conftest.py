import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

# Workers side by side, each with threads of its own for tiny matrices, would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from postgres import PASSWORD, USER, find_binaries, start_once

if os.environ.get("FEDFB_CHECK_SHAPES"):
    # Before anything of fedfb is imported: the shapes in its annotations are checked at every call.
    # It makes whole runs up to nine times slower, so the tests of parts are run with it, those of
    # whole methods and commands without.
    install_import_hook("fedfb", "beartype.beartype")

for profile, examples in {"fast": 25, "ci": 200}.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.fixture(scope="session", autouse=True)
def store_of_its_own(tmp_path_factory):
    """Keep records of tests out of the user's store, and the user's records out of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDFB_STORE", str(tmp_path_factory.mktemp("store")))
        patch.setenv("FEDFB_STATE", str(tmp_path_factory.mktemp("state")))
        yield


class Server(NamedTuple):
    """A PostgreSQL server with a database of this worker's own."""

    host: str
    database: str

    def address(self, rest: str = "", database: str = "", password: str = PASSWORD) -> str:
        """Return an address as a user types it, with the password."""
        login = f"{USER}:{quote(password, '')}"
        return f"postgresql://{login}@{self.host}/{database or self.database}{rest}"

    def shown(self, rest: str = "") -> str:
        """Return the address as everything shows it."""
        return f"postgresql://{USER}@{self.host}/{self.database}{rest}"

    def execute(self, *statements: str, database: str = "") -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address(database=database), autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)

    def ingest(self, name: str, table: Any) -> None:
        """Make a table of one of Arrow."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address()) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")
            connection.commit()


@pytest.fixture(scope="session")
def postgres() -> Server:
    """Return the session's own PostgreSQL server; without PostgreSQL the test is skipped."""
    pytest.importorskip("adbc_driver_postgresql", reason=WITHOUT_POSTGRES)
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(WITHOUT_POSTGRES)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    port = start_once(binaries, os.getppid() if worker else os.getpid())
    server = Server(f"127.0.0.1:{port}", f"bank_{worker or 'alone'}")
    server.execute(f"create database {server.database}", database="postgres")
    return server


WITHOUT_POSTGRES = "PostgreSQL or its driver is not installed: apt-get install postgresql"


def pytest_terminal_summary(terminalreporter):
    if not os.environ.get("FEDFB_DATA"):
        terminalreporter.write_line(
            "FEDFB_DATA is not set: the tests on Adult, COMPAS and Bank were skipped."
        )


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of text or bytes into a fresh folder and return its path."""

    def write_file(content: str | bytes, name: str = "rows.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
