"""What the run axis buys: CPU time of 24 runs of one seed together, against one run alone.

Usage: FEDFB_DATA=... python benchmarks/run_axis.py [--data adult] [--repeat 3]

The two are measured in turns in one process (the machine may be shared), whole runs of the paper's
budget: 10 rounds x 30 local epochs, MLP. CPU time of training only, data loaded beforehand.
"""

import argparse
import statistics
import time

from threadpoolctl import threadpool_limits

from fedfb.data import load
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import fit

ALPHAS = (0.001, 0.05, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0)
RATES = (0.001, 0.005, 0.01)


def cpu_seconds(experiment: Experiment, federation, settings) -> float:
    start = time.process_time()
    fit(experiment, federation, settings, seed=0)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="adult")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    experiment = Experiment(
        data=arguments.data, model="mlp", alpha=ALPHAS, lr=RATES, sensitive_at_prediction=True
    )
    federation = load(experiment.request, 0)
    grid = [{"alpha": alpha, "lr": lr} for alpha in ALPHAS for lr in RATES]
    ratios, alone, together = [], [], []
    with threadpool_limits(limits=1):
        for _ in range(arguments.repeat):
            alone.append(cpu_seconds(experiment, federation, grid[:1]))
            together.append(cpu_seconds(experiment, federation, grid))
            ratios.append(together[-1] / alone[-1])
    print(f"{arguments.data}, mlp, 10 x 30: one run {statistics.median(alone):.1f} s CPU, ", end="")
    print(f"{len(grid)} runs {statistics.median(together):.1f} s CPU; ", end="")
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
