"""A table that no weights make fair: base rates far apart, features that hardly tell the label.

Rows lie in one of two places. The large groups live in both; Black lives in one and Other in the
other of them, too few to move what is decided there.
"""

import numpy as np

SHARES = {"White": 0.5, "Asian": 0.2, "Hispanic": 0.2, "Black": 0.05, "Other": 0.05}
BASE_RATES = {"White": 0.5, "Asian": 0.6, "Hispanic": 0.4, "Black": 0.3, "Other": 0.2}


def weak_table(rows: int = 2000, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the columns of rows whose features tell the group better than the label."""
    draw = np.random.default_rng(seed)
    group = draw.choice(list(SHARES), size=rows, p=list(SHARES.values()))
    right = np.where(
        group == "Other", True, np.where(group == "Black", False, draw.random(rows) < 0.5)
    )
    usual = np.array([BASE_RATES[name] for name in group])
    small = np.isin(group, ["Black", "Other"])
    label = draw.random(rows) < usual + np.where(small, 0.0, np.where(right, 0.25, -0.25))
    return {
        "place": (np.where(right, 1.5, -1.5) + draw.normal(scale=0.2, size=rows)).round(4),
        "noise": draw.normal(size=rows).round(4),
        "race": group,
        "office": draw.choice(["north", "south", "west"], size=rows),
        "y": np.where(label, "yes", "no"),
    }


def as_csv(columns: dict[str, np.ndarray]) -> str:
    """Return columns as the text of a CSV file."""
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *lines]) + "\n"
