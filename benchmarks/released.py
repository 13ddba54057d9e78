"""The digits that the variant `released` gives beside those that are printed, as Markdown.

    FEDFB_DATA=... python benchmarks/released.py [--only WORD] [--many 25]

Without --many the seeds are the paper's, 0 to 4; with it, FedFB on synthetic and Adult runs more.
"""

import argparse
import time
from typing import NamedTuple

from fedfb.experiments.evaluate import summarise
from fedfb.experiments.seed_result import Quality
from fedfb.paper.released import run_released


class Case(NamedTuple):
    printed: str
    data: str
    method: str = "fedfb"
    lr: float = 0.005
    alpha: float = 0.2
    flags: tuple[tuple[str, str], ...] = ()
    seeds: int = 5
    model: str = "mlp"


RIGHT = (("averaging", "weighted"),)
SUMS = (("bound", "own-group"), ("constant", "once"), ("signal", "zero-one"))
CASES = (
    Case(".725 (.012) / .051 (.018)", "synthetic"),
    Case(".804 (.001) / .028 (.001)", "adult", alpha=0.05),
    Case(".606 (.019) / .086 (.029)", "compas", alpha=0.1),
    Case(".883 (.000) / .000 (.000)", "bank", lr=0.01),
    Case(".669 (.040) / .058 (.042)", "synthetic-low", lr=0.001),
    Case(".703 (.012) / .013 (.008)", "synthetic-high", lr=0.01),
    Case(".703 (.012) / .013 (.008)", "synthetic-high-slip", lr=0.01),
    Case(".679 (.007) / .047 (.012)", "synthetic-2"),
    Case(".705 (.004) / .005 (.003)", "synthetic-4"),
    Case(".886 (.003) / .406 (.009)", "synthetic", "fedavg", lr=0.01),
    Case(".829 (.012) / .153 (.022)", "adult", "fedavg"),
    Case(".655 (.009) / .167 (.037)", "compas", "fedavg"),
    Case(".898 (.001) / .026 (.003)", "bank", "fedavg"),
    Case(".713 (.005) / .006 (.006) (replica)", "synthetic", flags=RIGHT),
    Case(".815 (.004) / .008 (.001) (replica)", "adult", alpha=0.05, flags=RIGHT, seeds=3),
    Case(".726 (.061) / .078 (.072) (replica)", "synthetic", "fedfb-2022"),
    Case(".713 (.003) / .006 (.003) (replica)", "synthetic", "fedfb-2022", flags=RIGHT + SUMS),
    Case(".642 (.018) / .016 (.014) (replica)", "synthetic", "fedfb-2022", 0.01, 0.1, RIGHT),
    Case(".850 / .126 (replica)", "adult", "fedavg", flags=RIGHT, seeds=1),
    Case(".671 / .200 (replica)", "compas", "fedavg", flags=RIGHT, seeds=1),
    Case(".593 / .085 (replica)", "compas", "fedfb-2022", alpha=0.1, seeds=1),
)
HEAD = ("data", "method", "lr", "alpha", "switched", "seeds", "printed", "released", "CPU s a run")


def row(case: Case) -> list[str]:
    start = time.process_time()
    records = run_released(
        case.data,
        case.method,
        model=case.model,
        seeds=tuple(range(case.seeds)),
        lr=case.lr,
        alpha=case.alpha,
        flags=dict(case.flags),
    )
    seconds = (time.process_time() - start) / case.seeds
    summary = summarise(
        [Quality(accuracy=one["accuracy"], disparity=one["disparity"]) for one in records]
    )
    found = (summary.accuracy, summary.disparity["demographic_parity"])
    digits = " / ".join(f"{f.mean:.4f} ({f.std or 0:.4f})" for f in found)
    switched = ", ".join("=".join(flag) for flag in case.flags)
    alpha = "" if case.method == "fedavg" else f"{case.alpha:g}"
    setting = [case.data, case.method, f"{case.lr:g}", alpha, switched, str(case.seeds)]
    return [*setting, case.printed, digits, f"{seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="run only rows that contain this word")
    parser.add_argument("--many", type=int, default=0, help="seeds of FedFB on synthetic and Adult")
    options = parser.parse_args()
    cases = [case._replace(seeds=options.many) for case in CASES[:2]] if options.many else CASES
    print(_line(HEAD), _line(["---"] * len(HEAD)), sep="\n")
    for case in cases:
        if options.only in f"{case.data} {case.method}":
            print(_line(row(case)), flush=True)


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
