"""How often FedFB is a constant or below one on random tables, and whether the report says so.

    python benchmarks/constants.py [--tables 200] [--first-seed 0] [--set cut=half]

Tables are those of target_warnings.py: clients of nearly one group, groups of very different sizes
and base rates, tiny groups, labels that a line separates. A model below the constant is counted on
its test rows, and on 100,000 further rows, which are the truth.
"""

import argparse
import time
from collections import Counter
from dataclasses import replace

import numpy as np
from target_warnings import NOTIONS, TARGETS, draw_table

from fedfb import Experiment, Result, run


def judge(seed: int, settings: dict[str, str]) -> list[str]:
    """Return what one table comes to."""
    rng = np.random.default_rng((2028, seed))
    notion, target = str(rng.choice(NOTIONS)), float(rng.choice(TARGETS))
    table = draw_table(seed)
    experiment = Experiment(notion=notion, target=(target,), **settings)
    result = run(experiment, federations={0: table.federation}, warn=False)
    on_all = replace(table.federation, test=table.population)
    truth = run(experiment, federations={0: on_all}, warn=False)
    kinds = {shortfall.kind for shortfall in result.shortfalls}
    said = "named" if kinds & {"constant", "alike"} else "SILENT"
    outcomes = []
    if is_constant(result):
        outcomes.append(f"constant on test rows, {said}")
    for where, one in (("test", result), ("further", truth)):
        if one.runs[0].accuracy < one.runs[0].majority_accuracy:
            outcomes.append(f"below the constant on {where} rows, {said}")
    gap = truth.runs[0].majority_accuracy - truth.runs[0].accuracy
    if gap > 0 and said == "SILENT":
        print(f"table {seed}: {notion}, target {target}: {gap:.4f} below the constant")
    return outcomes or ["better than the constant"]


def is_constant(result: Result) -> bool:
    """Return whether all test rows are decided alike."""
    [one] = result.runs[:1]
    positive = sum(group.n * (group.positive_rate or 0.0) for group in one.groups) / one.rows
    return positive < 0.01 or positive > 0.99


def main() -> None:
    """Print how often each outcome happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    settings = dict(one.split("=", 1) for one in arguments.set)
    start, outcomes = time.process_time(), Counter()
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.tables):
        outcomes.update(judge(seed, settings))
    for outcome, number in sorted(outcomes.items()):
        print(f"{number:5d}  {outcome}")
    print(f"{arguments.tables} tables, {time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
