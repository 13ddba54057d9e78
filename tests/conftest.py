import os

# Workers side by side, each with threads of its own for tiny matrices, would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

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


def pytest_terminal_summary(terminalreporter):
    if not os.environ.get("FEDFB_DATA"):
        terminalreporter.write_line(
            "FEDFB_DATA is not set: the tests on Adult, COMPAS and Bank were skipped."
        )
