import numpy as np
import pandas as pd
import pytest
import sklearn

from cli.conftest import fedfb as fedfb_command  # noqa: F401

BRANCHES, SEXES, JOBS = ("east", "north", "west"), ("f", "m"), ("clerk", "farmer", "smith")


@pytest.fixture
def loans() -> pd.DataFrame:
    """Loan decisions of three branches: numbers and categories, some missing, by two groups."""
    return make_loans(rows=240, seed=0)


@pytest.fixture
def new_loans() -> pd.DataFrame:
    """Rows that are not trained on; one has a job that no other row has."""
    rows = make_loans(rows=90, seed=1)
    rows.loc[3, "job"] = "astronaut"
    return rows


@pytest.fixture
def routing():
    """Let scikit-learn hand groups and clients through, as its users must ask for."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def make_loans(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex, job = rng.choice(SEXES, rows), rng.choice(JOBS, rows).astype(object)
    income = rng.normal(30, 8, rows) + 6 * (sex == "m")
    age = rng.integers(18, 70, rows)
    repaid = income + 3 * (job == "smith") + rng.normal(0, 5, rows) > 33
    income[rng.random(rows) < 0.1] = np.nan
    job[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "income": income,
            "job": job,
            "age": age,
            "sex": sex,
            "branch": rng.choice(BRANCHES, rows),
            "repaid": np.where(repaid, "yes", "no"),
        }
    )
