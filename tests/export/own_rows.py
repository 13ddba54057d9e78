"""Rows with all that a table can have: numbers, categories, gaps, merged and binned groups."""

import csv
from pathlib import Path

import numpy as np

SEXES, RACES = ("f", "m"), ("Asian", "Black", "Other", "White")


def write_rows(path: Path, rows: int = 300, seed: int = 0, unseen: bool = False) -> Path:
    """Write rows to a CSV file; those to predict for also have values that training lacks."""
    rng = np.random.default_rng(seed)
    columns = ["income", "years at job", "town", "öffentlich", "sex", "race", "age", "paid"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for number in range(rows):
            sex, race = rng.choice(SEXES), rng.choice(RACES)
            income = rng.normal(30 + 5 * (sex == "m"), 8)
            towns = ["ham", "york", "Zürich", "?"] + (["elsewhere"] if unseen else [])
            writer.writerow(
                [
                    "NA" if rng.random() < 0.1 else repr(float(income)),
                    "" if unseen and number == 0 else int(rng.integers(0, 30)),
                    rng.choice(towns),
                    rng.choice(["ja", "nein"]),
                    sex,
                    race,
                    int(rng.integers(18, 80)),
                    "repaid" if income + rng.normal(0, 6) > 32 else "lost",
                ]
            )
    return path


SETTINGS = {
    "label": "paid",
    "positive": "repaid",
    "sensitive": ("sex", "race", "age"),
    "bins": ("age: 30,50",),
    "merge": ("race: Asian+Black+Other=other",),
    "sensitive_at_prediction": True,
}
