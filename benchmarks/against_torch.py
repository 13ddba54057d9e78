"""(b) Against plain PyTorch as a researcher would write it, and against pfl's FedAvg.

Both are measured over at least 2,000 steps and scaled to the 10 rounds of 30 epochs that fedfb
does. fedfb trains FedFB, which is FedAvg and its fairness exchanges; the others train FedAvg.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import (
    HERE,
    PEERS_PYTHON,
    Factor,
    Sample,
    cpu,
    factor,
    in_turns,
    peer_versions,
    said,
    spread,
)
from page import Claim, Section, table
from train_fedfb import engines

from tables import encoded

ROUNDS, EPOCHS, BATCH, LEAST_STEPS = 10, 30, 128, 2000
PEERS = {"plain PyTorch": "plain_torch.py", "pfl": "pfl_fedavg.py"}
GRID = 24
TITLE = "Against PyTorch and pfl"


def section(work: Path, quick: bool) -> Section:
    peers = peer_versions("torch", "pfl")
    parts, claims = [], []
    for data in ("synthetic", "adult"):
        for model in ("mlp",) if quick else ("mlp", "logistic"):
            text, found = _contest(encoded(work / data, data), data, model, 1 if quick else 3)
            parts.append(text)
            claims += found
    return Section(TITLE, "\n\n".join([f"{peers}. {_intro()}", *parts]), tuple(claims))


def _intro() -> str:
    return (
        "The same encoded rows from the same files, minibatches of 128, Adam, 10 rounds of 30 "
        "local epochs. Plain PyTorch is `nn.Sequential`, a shuffling `DataLoader`, a cross-entropy "
        "weighted by row; pfl cuts its minibatches in file order, without shuffling. They are "
        f"**measured over at least {LEAST_STEPS:,} steps and scaled** to the whole; a grid costs "
        "them 24 times a run, with one start of the process. fedfb's 24 runs are one call, "
        f"{_our_rounds('synthetic')} rounds measured on synthetic and {_our_rounds('adult')} on "
        "Adult. They train FedAvg with a softmax of two outputs; fedfb trains FedFB, which adds "
        "its fairness exchanges, with one logit. "
        "*Training* leaves out start, imports and reading; *whole process* is all of it, cold."
    )


def _contest(folder: Path, data: str, model: str, repeats: int) -> tuple[str, list[Claim]]:
    sizes = np.load(folder / "sizes.npy")
    steps_an_epoch = sum(math.ceil(size / BATCH) for size in sizes)
    rounds, epochs = _enough(steps_an_epoch)
    hidden = "4" if model == "mlp" else "0"
    theirs = ["--rounds", str(rounds), "--epochs", str(epochs), "--hidden", hidden]
    ours = ["--model", model, "--rounds", str(_our_rounds(data))]
    commands = {
        f"fedfb {runs}": [
            *(sys.executable, HERE / "train_fedfb.py", folder),
            *(*ours, "--runs", str(runs)),
        ]
        for runs in (GRID, 1)
    }
    commands |= {
        name: [PEERS_PYTHON, HERE / "peers" / script, folder, *theirs]
        for name, script in PEERS.items()
    }
    samples = in_turns(commands, repeats)
    scale = ROUNDS / _our_rounds(data)
    whole_steps = ROUNDS * EPOCHS * steps_an_epoch
    rows, claims = [], []
    for runs in (GRID, 1):
        own = _scaled(samples[f"fedfb {runs}"], [scale] * repeats)
        rows.append([str(runs), "fedfb", "", spread(own[0]), "", spread(own[1]), ""])
        for name in PEERS:
            measured = said(samples[name], "steps")
            peer = _scaled(samples[name], [runs * whole_steps / steps for steps in measured])
            training, cold = (factor(a, b) for a, b in zip(peer, own, strict=True))
            speed = [
                s / t for s, t in zip(measured, said(samples[name], "train_cpu_s"), strict=True)
            ]
            found = [spread(peer[0]), str(training), spread(peer[1]), str(cold)]
            rows.append([str(runs), name, spread(speed), *found])
            if name == "plain PyTorch" and data == "adult" and model == "mlp":
                claims.append(_claim(runs, training))
    head = ["runs", "", "steps/s", "training, CPU s", "factor", "whole process, CPU s", "factor"]
    accuracies = ", ".join(f"{n} {s[0].said['accuracy']:.3f}" for n, s in samples.items())
    title = f"**{data}, {'MLP(4)' if model == 'mlp' else 'logistic regression'}**"
    note = f"{whole_steps:,} steps a run, {int(measured[0]):,} measured. Accuracy on rows seen (a "
    note += f"check that all of them learn): {accuracies}."
    return f"{title}\n\n{table(head, rows)}\n\n{note}", claims


def _enough(steps_an_epoch: int) -> tuple[int, int]:
    """Return rounds and epochs that come to enough steps: whole rounds if one is not enough."""
    if steps_an_epoch * EPOCHS < LEAST_STEPS:
        return math.ceil(LEAST_STEPS / (steps_an_epoch * EPOCHS)), EPOCHS
    return 1, math.ceil(LEAST_STEPS / steps_an_epoch)


def _our_rounds(data: str) -> int:
    return 1 if data == "adult" and "native" not in engines() else ROUNDS


def _scaled(samples: Sequence[Sample], scales: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the CPU seconds of training and of the whole process, for the whole task."""
    measured = said(samples, "train_cpu_s")
    training = [taken * scale for taken, scale in zip(measured, scales, strict=True)]
    rest = [whole - part for whole, part in zip(cpu(samples), measured, strict=True)]
    return training, [a + b for a, b in zip(training, rest, strict=True)]


def _claim(runs: int, found: Factor) -> Claim:
    least = 300 if runs == GRID else 100
    what = f"times faster than plain PyTorch, {'a grid of 24 runs' if runs > 1 else 'one run'}"
    return Claim(f"{what} (Adult, MLP(4), training)", f"{least}", str(found), found.median >= least)
