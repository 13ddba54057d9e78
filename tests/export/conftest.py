from pathlib import Path

import pytest

import fedfb
from cli.conftest import fedfb as fedfb_command  # noqa: F401
from estimator.conftest import loans, new_loans  # noqa: F401
from fedfb.experiments.spec import Experiment


@pytest.fixture
def trained(tmp_path):
    """Train and keep a small run; return its outcome and its folder."""

    def train(**settings):
        small = {"rounds": 2, "local_epochs": 2, **settings}
        outcome = fedfb.train(Experiment(**small))
        folder = Path(tmp_path) / f"run{len(list(tmp_path.glob('run*')))}"
        fedfb.save(outcome, folder)
        return outcome, folder

    return train
