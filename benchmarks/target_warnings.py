"""How often the warning of a missed target is right, on random tables.

    python benchmarks/target_warnings.py [--tables 200] [--first-seed 0]

Tables are small and hard: clients of nearly one group, groups of very different sizes and base
rates, tiny groups, labels that a line separates. The truth is the disparity of the same model on
100,000 further rows.
"""

import argparse
import time
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedfb import Experiment, run
from fedfb.core import ClientData, Examples
from fedfb.data.federation import Federation
from fedfb.experiments.outcome import load_federations

POPULATION = 100_000
NOTIONS = ("dp", "eo", "eod")
TARGETS = (0.0, 0.02, 0.05, 0.1)


class Table(NamedTuple):
    """A random table: the federation, and further rows of the same population."""

    federation: Federation
    population: Examples


def draw_table(seed: int) -> Table:
    """Return a random table."""
    rng = np.random.default_rng((2026, seed))
    groups, clients, width = rng.integers(2, 13), rng.integers(1, 11), rng.integers(2, 6)
    rows, tested = rng.integers(300, 3_000, 2)
    # Tiny groups: the least share of a group is a few rows of a table.
    shares = rng.dirichlet(np.full(groups, rng.choice([0.5, 5.0]))) + 12 / min(rows, tested)
    shares /= shares.sum()
    base = rng.uniform(0.05, 0.95, groups)
    direction, moved = rng.standard_normal(width), 0.5 * rng.standard_normal((groups, width))
    steepness = rng.choice([0.5, 2.0, 50.0])  # labels that a line separates at the largest

    def draw(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = rng.choice(groups, p=shares, size=number)
        x = rng.standard_normal((number, width)) + moved[group]
        logit = steepness * (x @ direction) + np.log(base / (1 - base))[group]
        y = (rng.random(number) < 1 / (1 + np.exp(-np.clip(logit, -30, 30)))).astype(np.int64)
        return x, y, group

    x, y, group = draw(int(rows))
    of_group = rng.dirichlet(np.full(clients, rng.choice([0.1, 10.0])), size=groups)
    owner = np.array([rng.choice(clients, p=of_group[place]) for place in group])
    owner[:clients] = np.arange(clients)
    data = tuple(
        ClientData(place, *(part[owner == place] for part in (x, y, group)), int(groups))
        for place in range(int(clients))
    )
    nobody = [np.full(number, -1) for number in (int(tested), POPULATION)]
    test, population = (Examples(*draw(len(client)), client) for client in nobody)
    federation = replace(
        load_federations(Experiment(rows=200, test_rows=200))[0],
        clients=data,
        test=test,
        group_names=tuple(f"group {place}" for place in range(groups)),
        client_names=tuple(f"client {place}" for place in range(clients)),
        feature_names=tuple(f"x{place}" for place in range(width)),
    )
    return Table(federation, population)


def judge(seed: int) -> str:
    """Return what the warning of one table comes to."""
    rng = np.random.default_rng((2027, seed))
    notion, target = str(rng.choice(NOTIONS)), float(rng.choice(TARGETS))
    table = draw_table(seed)
    experiment = Experiment(
        algorithm="fedfb", notion=notion, target=(target,), rounds=12, local_epochs=10, lr=(0.01,)
    )
    result = run(experiment, federations={0: table.federation}, warn=False)
    on_all = replace(table.federation, test=table.population)
    truth = run(experiment, federations={0: on_all}, warn=False).runs[0].disparity[result.notion]
    interval = result.runs[0].interval[result.notion]
    warns = any(shortfall.kind == "target" for shortfall in result.shortfalls)
    if interval is None or truth is None:
        return "not estimable"
    said = "warns" if warns else "silent"
    shown = "excludes" if interval[0] > target else "contains"
    return f"{said}, interval {shown} the target, truth {'above' if truth > target else 'within'}"


def main() -> None:
    """Print how often each outcome happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    start, outcomes = time.process_time(), Counter()
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.tables):
        outcomes[judge(seed)] += 1
    for outcome, number in sorted(outcomes.items()):
        print(f"{number:5d}  {outcome}")
    print(f"{arguments.tables} tables, {time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
