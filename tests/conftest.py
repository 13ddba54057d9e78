import os
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
        yield


class Server(NamedTuple):
    """A PostgreSQL server: its address, without and with a password."""

    host: str
    user: str = USER
    password: str = PASSWORD

    def address(
        self, rest: str = "", database: str = "postgres", password: str | None = None
    ) -> str:
        login = f"{self.user}:{quote(password or self.password, '')}"
        return f"postgresql://{login}@{self.host}/{database}{rest}"

    def shown(self, rest: str = "", database: str = "postgres") -> str:
        return f"postgresql://{self.user}@{self.host}/{database}{rest}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address(database=database), autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)

    def ingest(self, name: str, table: Any) -> None:
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
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    return Server(f"127.0.0.1:{start_once(binaries, os.getppid() if in_worker else os.getpid())}")


WITHOUT_POSTGRES = "PostgreSQL or its driver is not installed: apt-get install postgresql"


def pytest_terminal_summary(terminalreporter):
    if not os.environ.get("FEDFB_DATA"):
        terminalreporter.write_line(
            "FEDFB_DATA is not set: the tests on Adult, COMPAS and Bank were skipped."
        )
