"""What the paper printed, typed in once, by its table's label."""

import tomllib
from importlib.resources import files
from typing import Any

from fedfb.experiments.spec import Experiment

PAPERS_OWN = (
    *("partition", "clients", "groups", "heterogeneity", "rows", "test_rows"),
    *("sensitive_at_prediction", "hidden", "rounds", "local_epochs", "batch", "bits"),
)
"""Settings that are the paper's by default, but for one: the paper gives the group to the model."""

TABLES = {"mlp": "tab:dp_mlp", "logistic": "tab:dp_lg"}


def published(experiment: Experiment) -> dict[str, Any] | None:
    """Return the paper's figure for an experiment, None where it has none.

    Only the paper's own setting counts: its data, clients and models, demographic parity, its
    rounds and epochs.
    """
    usual = Experiment(sensitive_at_prediction=True)
    if any(getattr(experiment, name) != getattr(usual, name) for name in PAPERS_OWN):
        return None
    if experiment.notion not in ("dp", "demographic_parity"):
        return None
    return printed(TABLES.get(experiment.model), experiment.algorithm, experiment.data)


def printed(label: str | None, row: str, column: str) -> dict[str, Any] | None:
    """Return what a table of the paper has in a cell, None where it has nothing.

    >>> printed("tab:dp_dh", "fedfb", "high")["disparity"]
    {'mean': 0.013, 'std': 0.008}
    """
    found = _tables().get(label or "", {}).get(row, {}).get(column)
    if found is None:
        return None
    # One table prints no spreads.
    both = found if len(found) == 4 else (found[0], None, found[1], None)
    accuracy, accuracy_std, disparity, disparity_std = both
    return {
        "table": label,
        "accuracy": {"mean": accuracy, "std": accuracy_std},
        "disparity": {"mean": disparity, "std": disparity_std},
    }


def _tables() -> dict[str, Any]:
    text = files("fedfb.experiments").joinpath("paper/published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
