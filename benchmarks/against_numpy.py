"""(a) The native engine against the numpy engine: whole federated training, grid and single run."""

import sys
from pathlib import Path

from measure import HERE, MissingError, factor, in_turns, said, spread
from page import Section, table
from train_fedfb import engines

from tables import encoded

TITLE = "Native engine against numpy"
ROUNDS = {"synthetic": 10, "adult": 1}
NAMES = {"logistic": "logistic regression", "mlp": "MLP(4)"}


def section(work: Path, quick: bool) -> Section:
    if "native" not in engines():
        raise MissingError("the native engine was not built")
    rows = []
    for data, rounds in ROUNDS.items():
        folder = encoded(work / data, data)
        for model in ("mlp",) if quick else NAMES:
            for runs in (24, 1):
                rows.append(_row(folder, data, rounds, model, runs, 1 if quick else 3))
    head = ["data", "model", "runs", "native, CPU s", "numpy, CPU s", "numpy / native"]
    text = "FedFB, rounds of 30 local epochs: 10 on synthetic, 1 on Adult. Training only, float32."
    return Section(TITLE, f"{text}\n\n{table(head, rows)}")


def _row(folder: Path, data: str, rounds: int, model: str, runs: int, repeats: int) -> list[str]:
    script = [sys.executable, HERE / "train_fedfb.py", folder]
    options = ["--rounds", str(rounds), "--model", model, "--runs", str(runs)]
    samples = in_turns(
        {name: [*script, *options, "--engine", name] for name in ("native", "numpy")}, repeats
    )
    native, numpy = (said(samples[name], "train_cpu_s") for name in ("native", "numpy"))
    found = [spread(native), spread(numpy), str(factor(numpy, native))]
    return [data, NAMES[model], str(runs), *found]
