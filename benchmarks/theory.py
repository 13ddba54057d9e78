"""What the population-level solvers cost, in CPU time, against their limits.

Usage: python benchmarks/theory.py [--repeat 5]

Prints the table of docs/theory.md: medians over repeats, all jobs once in every repeat, so that a
busy spell of the machine falls on all of them. Clients are Gaussian, drawn anew for each number.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from threadpoolctl import threadpool_limits

from fedfb import theory
from fedfb.core import generator
from fedfb.theory.achievable import PICTURE_POINTS, achievable, picture_levels

Job = Callable[[], object]
LIMITS = {2: (0.05, 0.05, 0.05), 1000: (1.0, 1.0, 2.0)}
"""Seconds for CFL, delta and LFT+FedAvg, by the number of clients."""

PANEL_LIMIT = 3.0


def drawn(clients: int) -> theory.Population:
    rng = generator((5, clients))
    means, sds = rng.uniform(-2, 3, (clients, 2)), rng.uniform(0.5, 2.0, (clients, 2))
    return theory.population(
        [
            theory.client(q, *(theory.Gaussian(m, s) for m, s in zip(mean, sd, strict=True)))
            for mean, sd, q in zip(means, sds, rng.uniform(0.2, 0.8, clients), strict=True)
        ]
    )


def panel(population: theory.Population) -> None:
    achievable(population, picture_levels(population))


def jobs() -> dict[str, tuple[float | None, Job]]:
    """Return the limit, if there is one, and the job of every row."""
    rows: dict[str, tuple[float | None, Job]] = {}
    for clients in (2, 10, 100, 1000):
        population = drawn(clients)
        limits = LIMITS.get(clients, (None, None, None))
        rows[f"CFL(.05), {clients} clients"] = limits[0], partial(theory.cfl, population, 0.05)
        rows[f"delta, {clients} clients"] = limits[1], partial(theory.ensemble_range, population)
        name = f"LFT+FedAvg(.05), {clients} clients"
        rows[name] = limits[2], partial(theory.lft_fedavg, population, 0.05)
    for qs in theory.FIG2_PANELS:
        job = partial(panel, theory.setting("fig2", *qs))
        rows[f"panel of Fig. 2, q = {qs[0]}, {qs[1]}"] = PANEL_LIMIT, job
    return rows


def cpu_seconds(job: Job) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    every = jobs()
    with threadpool_limits(limits=1):
        spent = [
            {name: cpu_seconds(job) for name, (_, job) in every.items()} for _ in range(repeat)
        ]
    print(f"A panel: three curves, {PICTURE_POINTS} levels. Medians of {repeat}.\n")
    print("| what | CPU s | limit |\n|---|---:|---:|")
    for name, (limit, _) in every.items():
        seconds = median(one[name] for one in spent)
        print(f"| {name} | {seconds:.4f} | {'' if limit is None else limit} |")


if __name__ == "__main__":
    main()
