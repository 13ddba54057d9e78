"""What the paper printed, typed in once, by its table's label."""

import tomllib
from importlib.resources import files
from typing import Any

from fedfb.experiments.spec import Experiment

PAPERS_OWN = (
    *("partition", "clients", "groups", "heterogeneity", "rows", "test_rows"),
    *("sensitive_at_prediction", "hidden", "rounds", "local_epochs", "batch", "bits"),
)
"""Settings whose defaults are the paper's."""

TABLES = {"mlp": "tab:dp_mlp", "logistic": "tab:dp_lg"}


def published(experiment: Experiment) -> dict[str, Any] | None:
    """Return the paper's figure for an experiment, None where it has none.

    Only the paper's own setting counts: its data, clients and models, demographic parity, its
    rounds and epochs.
    """
    usual = Experiment()
    if any(getattr(experiment, name) != getattr(usual, name) for name in PAPERS_OWN):
        return None
    if experiment.notion not in ("dp", "demographic_parity"):
        return None
    label = TABLES[experiment.model]
    row = _tables()[label].get(experiment.algorithm, {}).get(experiment.data)
    if row is None:
        return None
    accuracy, accuracy_std, disparity, disparity_std = row
    return {
        "table": label,
        "accuracy": {"mean": accuracy, "std": accuracy_std},
        "disparity": {"mean": disparity, "std": disparity_std},
    }


def _tables() -> dict[str, Any]:
    text = files("fedfb.experiments").joinpath("paper/published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
