"""fedfb's side of every comparison: a process that reads a table, trains a grid and says its time.

Usage: python benchmarks/train_fedfb.py TABLE [--engine native] [--model mlp] [--runs 24] ...

``--only fit`` leaves the evaluation out; ``--only train`` also the federated rounds around the
engine's training calls.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

START = time.process_time()

from measure import peak_mb  # noqa: E402  (the time of importing is measured)

from fedfb.core import LocalSolver  # noqa: E402
from fedfb.engine.native import is_built  # noqa: E402
from fedfb.experiments.evaluate import evaluate  # noqa: E402
from fedfb.experiments.spec import Experiment  # noqa: E402
from fedfb.experiments.train import fit, make_engine  # noqa: E402
from tables import read  # noqa: E402

ALPHAS = (0.001, 0.05, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0)
RATES = (0.001, 0.005, 0.01)


def engines() -> tuple[str, ...]:
    """Return the engines of this installation, the fastest first."""
    return ("native", "numpy") if is_built() else ("numpy",)


def grid(runs: int) -> list[dict[str, float]]:
    """Return that many settings of the paper's grid of 24, from its start again where it ends."""
    return [
        {"alpha": ALPHAS[run % len(ALPHAS)], "lr": RATES[run // len(ALPHAS) % len(RATES)]}
        for run in range(runs)
    ]


def timed(work: Callable[[], object], at_least_s: float) -> tuple[float, object]:
    """Repeat work until it has taken so long; return the median CPU time of one, and its result."""
    taken: list[float] = []
    while not taken or sum(taken) < at_least_s:
        start = time.process_time()
        result = work()
        taken.append(time.process_time() - start)
    return statistics.median(taken), result


def training_calls(experiment: Experiment, federation, settings) -> Callable[[], None]:
    import numpy as np

    engine = make_engine(experiment, federation.clients[0].x.shape[1])
    params = np.repeat(engine.model.init(0)[None], len(settings), axis=0)
    weights = np.ones((len(settings), 2, len(federation.group_names)))
    rates = np.array([setting["lr"] for setting in settings])
    solver = LocalSolver(rates, experiment.local_epochs, experiment.batch)

    def work() -> None:
        for client in federation.clients:
            engine.train(params, client, weights, solver, (0, 1, 0, client.id))

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--engine", choices=("native", "numpy"), default=engines()[0])
    parser.add_argument("--model", choices=("logistic", "mlp"), default="mlp")
    parser.add_argument("--hidden", type=int, default=4)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--only", choices=("fit", "train"), help="leave out what is not asked")
    parser.add_argument("--at-least", type=float, default=0.0, help="repeat for so many CPU s")
    chosen = parser.parse_args()
    imported = time.process_time()
    federation = read(chosen.table)
    experiment = Experiment(
        model=chosen.model,
        hidden=(chosen.hidden,),
        rounds=chosen.rounds,
        local_epochs=chosen.epochs,
        engine=chosen.engine,
        alpha=ALPHAS,  # with alphas named, lambda moves by the paper's step; each run has its own
        lr=RATES,
    )
    settings = grid(chosen.runs)
    loaded = time.process_time()
    said = {"import_cpu_s": imported, "load_cpu_s": loaded - imported}
    if chosen.only == "train":
        taken, _ = timed(training_calls(experiment, federation, settings), chosen.at_least)
        print(json.dumps({**said, "train_cpu_s": taken, "peak_mb": peak_mb()}))
        return
    taken, fitted = timed(lambda: fit(experiment, federation, settings, 0), chosen.at_least)
    said |= {"train_cpu_s": taken, "peak_mb": peak_mb()}
    if chosen.only == "fit":
        print(json.dumps(said))
        return
    start, test = time.process_time(), federation.test
    names = federation.group_names, federation.client_names
    records = evaluate(fitted.predict(test), test, *names)
    said |= {"evaluate_cpu_s": time.process_time() - start, "accuracy": records[0]["accuracy"]}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
