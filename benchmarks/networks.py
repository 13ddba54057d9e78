"""Networks beside logistic regressions: accuracy and disparity, however rows are dealt.

Usage: python benchmarks/networks.py [--seeds 8100:8105] [--data adult,...] [--solver local]

Prints Markdown for docs/methods.md. Settings are the defaults; nothing is chosen on test rows. The
clients are those of the paper (ACS: states), or 10 clients dealt by Dirichlet(.1), anew for every
seed. Bank, COMPAS and ACS (60,000 rows of all states) split their rows anew for every seed.
"""

import argparse
import csv
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedfb.data.request import draws_rows
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.settings import seeds as read_seeds

DEALS = {"usual": None, "Dirichlet(.1)": "dirichlet:.1,10"}
CATEGORIES = ("COW", "MAR", "RELP", "SEX", "RAC1P")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="8100:8105")
    parser.add_argument("--data", default="adult,bank,compas,acs")
    parser.add_argument("--solver", choices=["local"])
    chosen = parser.parse_args()
    seeds = read_seeds(chosen.seeds)
    print("| data, clients | FedAvg: logistic | mlp | least difference | FedFB: logistic | mlp |")
    print("|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name in chosen.data.split(","):
            base = settings_of(name, Path(folder))
            for deal, partition in DEALS.items():
                more = {**base, **({"partition": partition} if partition else {})}
                show(f"{name}, {deal}", more, seeds, chosen.solver)


def settings_of(name: str, folder: Path) -> dict[str, object]:
    """Return the settings that name the data."""
    if name != "acs":
        return {"data": name, "resplit": name == "compas"}
    path = folder / "acs.csv"
    write_acs(path, rows=60_000)
    own = {"label": "INCOME_OVER_50K", "positive": "yes", "sensitive": ("SEX",)}
    return {"data": str(path), "partition": "column:STATE", **own}


def show(name: str, base: dict[str, object], seeds: tuple[int, ...], solver: str | None) -> None:
    cells, accuracies = [], {}
    for algorithm in ("fedavg", "fedfb"):
        for model in ("logistic", "mlp"):
            more = {"solver": solver} if model == "mlp" else {}
            more |= {"algorithm": algorithm, "model": model, "sensitive_at_prediction": True}
            pairs = np.array([figures({**base, **more}, seed) for seed in seeds])
            accuracies[algorithm, model] = pairs[:, 0]
            cells.append("{:.4f} / {:.4f}".format(*pairs.mean(axis=0)))
    least = (accuracies["fedavg", "mlp"] - accuracies["fedavg", "logistic"]).min()
    print("| " + " | ".join([name, *cells[:2], f"{least:+.4f}", *cells[2:]]) + " |", flush=True)


def figures(settings: dict[str, object], seed: int) -> tuple[float, float]:
    experiment = Experiment(**settings, seeds=(seed,))
    if draws_rows(experiment.request):
        experiment = replace(experiment, split_seed=seed)
    summary = run(experiment, warn=False, watched=False).summary
    return summary.accuracy.mean, summary.disparity["demographic_parity"].mean


def write_acs(path: Path, rows: int) -> None:
    """Write rows of ACS, drawn from all states, as a CSV file that fedfb reads."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(Path(os.environ["FEDFB_DATA"]) / "acs-income-2018.parquet")
    kept = np.sort(np.random.default_rng(0).choice(table.num_rows, rows, replace=False))
    columns = table.take(kept).to_pydict()
    for name in CATEGORIES:
        columns[name] = [f"c{value}" for value in columns[name]]
    columns["OCCP"] = [f"o{value // 200}" for value in columns["OCCP"]]
    columns["POBP"] = ["us" if value < 60 else "other" for value in columns["POBP"]]
    label = columns["INCOME_OVER_50K"]
    columns["INCOME_OVER_50K"] = ["yes" if value else "no" for value in label]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    main()
