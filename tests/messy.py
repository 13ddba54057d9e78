"""Files as five banks send them: each with faults of its own, of which the test knows the lines."""

from pathlib import Path

import numpy as np
import pandas


def bank(seed: int, rows: int = 120) -> pandas.DataFrame:
    """Return rows of one bank, without a fault but an identifier and a date."""
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "customer_id": seed * 100_000 + rng.permutation(rows * 3)[:rows],
            "opened": pandas.date_range("2021-03-01", periods=rows).strftime("%Y-%m-%d"),
            "income": rng.lognormal(10, 0.5, rows).round(2),
            "age": rng.integers(18, 90, rows),
            "job": rng.choice(["clerk", "cook", "nurse", "Bäcker"], rows),
            "sex": rng.choice(["female", "male"], rows),
            "approved": rng.choice(["ja", "nein"], rows),
        }
    )
    lean = frame["income"] / 3e4 + rng.normal(0, 0.3, rows) > 0.8
    return frame.assign(approved=np.where(lean, "ja", "nein"))


def write_banks(folder: Path) -> None:
    """Write five messy files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = {name: bank(seed) for seed, name in enumerate("abcde", start=1)}
    # a is clean, but for the identifier and the date that all banks have.
    frames["a"].to_csv(folder / "bank_a.csv", index=False)
    # b: semicolons, decimal commas, and cp1252 in place of UTF-8.
    frames["b"].to_csv(folder / "bank_b.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    # c: other capital letters in the header, and in some labels.
    frame = frames["c"].rename(columns={"income": "Income"})
    frame.loc[[10, 20, 30], "approved"] = "Ja"
    frame.to_csv(folder / "bank_c.csv", index=False)
    # d: a missing column, missing groups and a missing label.
    frame = frames["d"].drop(columns="job").astype({"sex": object})
    frame.loc[[4, 40], "sex"] = None
    frame.loc[7, "approved"] = None
    frame.to_csv(folder / "bank_d.csv", index=False)
    # e: a column more, and a group of one row.
    frame = frames["e"].assign(branch=np.random.default_rng(9).choice(["x", "y"], 120))
    frame.loc[5, "sex"] = "diverse"
    frame.to_csv(folder / "bank_e.csv", index=False)
