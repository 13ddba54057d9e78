"""A cold start: a Python process that imports fedfb, trains 24 synthetic runs and evaluates."""

import statistics
import sys
from pathlib import Path

from measure import cpu, in_turns, run, spread
from page import Claim, Section, table
from train_fedfb import ALPHAS, RATES, engines

TITLE = "Cold start"

PROGRAM = """
import fedfb
grid = dict(alpha={alphas}, lr={rates}, sensitive_at_prediction=True)
outcome = fedfb.run(fedfb.Experiment(model={model!r}, engine={engine!r}, **grid))
assert len(outcome.runs) == 24
"""


def section(work: Path, quick: bool) -> Section:
    programs = {
        (model, engine): PROGRAM.format(model=model, alphas=ALPHAS, rates=RATES, engine=engine)
        for model in ("logistic", "mlp")
        for engine in engines()
    }
    commands = {
        f"{model}, {engine}": [sys.executable, "-c", program]
        for (model, engine), program in programs.items()
    }
    imports = {"import fedfb": "import fedfb; fedfb.run", "import numpy": "import numpy"}
    commands |= {f"{name} alone": [sys.executable, "-c", it] for name, it in imports.items()}
    run(commands["import fedfb alone"])  # keeps the bytecode, as an installed package has it
    samples = in_turns(commands, 1 if quick else 7)
    rows = [[name, spread(cpu(own))] for name, own in samples.items()]
    claims = [
        Claim(
            f"CPU s for 24 synthetic runs, cold ({model})",
            "under 0.5",
            spread(cpu(samples[f"{model}, native"])),
            statistics.median(cpu(samples[f"{model}, native"])) < 0.5,
        )
        for model in ("logistic", "mlp")
        if "native" in engines()
    ]
    text = (
        "`fedfb.run` of the paper's grid (8 alphas x 3 learning rates, 10 rounds of 30 epochs) on "
        "synthetic data, with test metrics and their intervals for all 24; the whole process."
    )
    head = ["model, engine", "CPU s"]
    return Section(TITLE, f"{text}\n\n{table(head, rows)}", tuple(claims))
