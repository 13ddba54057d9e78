"""A consortium of bank branches: one CSV file each, one model for all, fair to every age.

The Bank Marketing rows are written as the files that branches would keep, one for every way to
reach customers. Who subscribes to a deposit differs with age; each model below is judged on rows
that nobody trained on. The same from the command line:

    fedfb run --data 'clients/*.csv' --label y --positive yes --sensitive age \
        --bins 'age: 30,45,60' --ignore day,month,duration --sensitive-at-prediction yes

    FEDFB_DATA=folder/with/bank-full.csv python examples/bank_consortium.py        (--quick)
"""

import csv
import os
import sys
import tempfile
from pathlib import Path

import fedfb

BRANCH = "contact"


def write_branches(bank: Path, folder: Path) -> None:
    """Write one file for every branch, without the column that names it."""
    with bank.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    columns = [name for name in rows[0] if name != BRANCH]
    for branch in sorted({row[BRANCH] for row in rows}):
        with (folder / f"{branch}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(row for row in rows if row[BRANCH] == branch)


def main() -> None:
    bank = Path(os.environ.get("FEDFB_DATA", "")) / "bank-full.csv"
    if not os.environ.get("FEDFB_DATA") or not bank.exists():
        print("Skipped: FEDFB_DATA does not name a folder with bank-full.csv.")
        return
    quick = {"rounds": 2, "local_epochs": 1, "lr": (0.01,)} if "--quick" in sys.argv else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_branches(bank, folder)
        print(f"{'':18}{'accuracy':>10}{'disparity':>11}   positive rate by age")
        for algorithm in ("fedavg", "fedfb", "fedfb-thresholds"):
            result = fedfb.run(
                fedfb.Experiment(
                    data=str(folder / "*.csv"),
                    label="y",
                    positive="yes",
                    sensitive=("age",),
                    bins=("age: 30,45,60",),
                    ignore=("day", "month", "duration"),  # known only after the call
                    algorithm=algorithm,
                    # Thresholds by age decide by age. Whether they may is for people to judge.
                    sensitive_at_prediction=True,
                    notion="dp",
                    **quick,
                )
            )
            [run] = result.runs
            gap = run.disparity["demographic_parity"]
            rates = ", ".join(f"{g.name}: {g.positive_rate:.3f}" for g in run.groups)
            print(f"{algorithm:18}{run.accuracy:>10.3f}{gap:>11.3f}   {rates}")
        print(f"\nBranches: {', '.join(client.name for client in run.clients)}.")


if __name__ == "__main__":
    main()
