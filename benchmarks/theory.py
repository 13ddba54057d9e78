"""What the population-level solvers cost, in CPU time, against their budgets.

Usage: python benchmarks/theory.py [--repeat 3]

The best of some repeats: the machine may be shared. Clients are Gaussian, drawn anew for each row.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from fedfb import theory
from fedfb.core import generator

LEVELS = np.linspace(0.0, 0.6, 20)


def drawn(clients: int) -> theory.Population:
    rng = generator((5, clients))
    means, sds = rng.uniform(-2, 3, (clients, 2)), rng.uniform(0.5, 2.0, (clients, 2))
    return theory.population(
        [
            theory.client(q, *(theory.Gaussian(m, s) for m, s in zip(mean, sd, strict=True)))
            for mean, sd, q in zip(means, sds, rng.uniform(0.2, 0.8, clients), strict=True)
        ]
    )


def cpu_seconds(job: Callable[[], object], repeat: int) -> float:
    spent = []
    for _ in range(repeat):
        start = time.process_time()
        job()
        spent.append(time.process_time() - start)
    return min(spent)


def panel(population: theory.Population) -> None:
    theory.cfl_curve(population, LEVELS)
    theory.lft_ensemble_curve(population, LEVELS)
    theory.lft_fedavg_curve(population, LEVELS)


def jobs() -> list[tuple[str, float, Callable[[], object]]]:
    rows: list[tuple[str, float, Callable[[], object]]] = []
    for clients, budgets in ((2, (0.05, 0.05, 0.05)), (10, ()), (100, ()), (1000, (1.0, 1.0, 2.0))):
        population = drawn(clients)
        limit = dict(enumerate(budgets))
        for number, (name, job) in enumerate(
            {
                "CFL(0.05)": lambda p=population: theory.cfl(p, 0.05),
                "delta of LFT+Ensemble": lambda p=population: theory.ensemble_range(p),
                "LFT+FedAvg(0.05)": lambda p=population: theory.lft_fedavg(p, 0.05),
            }.items()
        ):
            rows.append((f"{name}, {clients} clients", limit.get(number, np.nan), job))
    for qs in theory.FIG2_PANELS:
        job = partial(panel, theory.setting("fig2", *qs))
        rows.append((f"Figure 2, q = {qs}, 20 levels", 3.0, job))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print(f"{'what':40} {'CPU s':>8} {'limit':>8}")
    with threadpool_limits(limits=1):
        for name, limit, job in jobs():
            print(f"{name:40} {cpu_seconds(job, repeat):8.3f} {limit:8.3f}")


if __name__ == "__main__":
    main()
