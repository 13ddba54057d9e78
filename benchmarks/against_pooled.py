"""FedFB against the pooled oracle at equal disparity, and its common cut against the cut at 1/2.

    python benchmarks/against_pooled.py [--seeds 5000:5010] [--data adult,bank,compas,synthetic]
        [--given yes|no] [--published]

Every seed draws rows, clients and test rows anew (``--published``: the files as published, where
seeds draw nothing but synthetic data). The oracle is ``hardt``: the same model trained on all rows
in one place, with thresholds by group for a grid of targets. Its mean accuracy at FedFB's mean
disparity is read off its frontier. Nothing is chosen on test rows: they are looked at once.
"""

import argparse
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedfb import Experiment, run
from fedfb.experiments.outcome import load_federations
from fedfb.experiments.seed_result import SeedResult
from fedfb.notions import long_name
from fedfb.settings import seeds as read_seeds

TARGETS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)


class Points(NamedTuple):
    """Accuracy and disparity on test rows, by seed."""

    accuracy: np.ndarray
    disparity: np.ndarray

    @property
    def mean(self) -> tuple[float, float]:
        """The means over seeds."""
        return float(self.accuracy.mean()), float(self.disparity.mean())

    def minus(self, other: "Points") -> list[tuple[float, float]]:
        """Return the paired differences of accuracy and disparity, with their standard errors."""
        pairs = ((self.accuracy, other.accuracy), (self.disparity, other.disparity))
        return [
            (float((one - two).mean()), float((one - two).std(ddof=1) / len(one) ** 0.5))
            if len(one) > 1
            else (float((one - two).mean()), 0.0)
            for one, two in pairs
        ]


def points_of(runs: list[SeedResult], notion: str) -> Points:
    """Return the points of some runs."""
    disparity = [run.disparity[notion] for run in runs]
    return Points(np.array([run.accuracy for run in runs]), np.array(disparity))


def read_off(oracle: dict[float, Points], disparity: float) -> float:
    """Return the oracle's accuracy at a disparity: the frontier of its means, with straight lines.

    Below its least disparity it is the accuracy there.
    """
    means = sorted((points.mean for points in oracle.values()), key=lambda point: point[1])
    accuracy, at = np.array(means).T
    return float(np.interp(disparity, at, np.maximum.accumulate(accuracy)))


def main() -> None:
    """Print a line for each data set and notion."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="5000:5010")
    parser.add_argument("--data", default="adult,bank,compas,synthetic")
    parser.add_argument("--notions", default="dp,eo,eod")
    parser.add_argument("--given", default="yes", choices=("yes", "no"))
    parser.add_argument("--published", action="store_true")
    arguments = parser.parse_args()
    start = time.process_time()
    print("data       notion  cut: acc / disp    half: acc / disp   change (se)"
          "                   oracle  short by")  # fmt: skip
    for data in arguments.data.split(","):
        base = Experiment(
            data=data,
            seeds=read_seeds(arguments.seeds),
            resplit=data != "synthetic" and not arguments.published,
            sensitive_at_prediction=arguments.given == "yes",
        )
        federations = load_federations(base)
        for short in arguments.notions.split(","):
            judge(replace(base, notion=short), federations)
    print(f"{time.process_time() - start:.0f} s of CPU")


def judge(experiment: Experiment, federations: dict) -> None:
    """Print the line of one data set and notion."""
    notion = long_name(experiment.notion)

    def points(algorithm: str, target: tuple[float, ...], **more: object) -> dict[float, Points]:
        chosen = replace(experiment, algorithm=algorithm, target=target, **more)
        result = run(chosen, federations=federations, watched=False, warn=False)
        by_target: dict[float, list[SeedResult]] = {}
        for one in result.runs:
            by_target.setdefault(one.settings["target"], []).append(one)
        return {at: points_of(runs, notion) for at, runs in by_target.items() if at < 1}

    cut = points("fedfb", (0.0,))[0.0]
    half = points("fedfb", (0.0,), cut="half")[0.0]
    oracle = points("hardt", TARGETS, sensitive_at_prediction=True)
    accuracy = read_off(oracle, cut.mean[1])
    (more, more_se), (wider, wider_se) = cut.minus(half)
    print(
        f"{experiment.data:10} {experiment.notion:4}  {cut.mean[0]:.4f} / {cut.mean[1]:.4f}"
        f"   {half.mean[0]:.4f} / {half.mean[1]:.4f}"
        f"   {more:+.4f} ({more_se:.4f}) / {wider:+.4f} ({wider_se:.4f})"
        f"   {accuracy:.4f}  {accuracy - cut.mean[0]:+.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
