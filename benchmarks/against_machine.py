"""(c) Against the machine itself: how near training comes to the FMAs that one core can do."""

import shutil
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from measure import HERE, MissingError, in_turns, middle, said, short, spread
from page import Claim, Section, table
from train_fedfb import engines

from tables import encoded

EPOCHS, RUNS, HIDDEN = 30, 24, 4
TITLE = "Against the machine's limit"


def fmas(rows: int, sizes: tuple[int, ...]) -> int:
    """Count the multiply-adds of one epoch of one run: rows, and layer sizes from input to logit.

    Forward and weight gradient cost i * o each in a layer from i to o; the gradient towards its
    input costs i * o once more, save in the first layer, whose input is data.

    >>> fmas(1, (108, 4, 1)) == 2 * 108 * 4 + 3 * 4
    True
    """
    layers = [fan_in * fan_out for fan_in, fan_out in pairwise(sizes)]
    return rows * (3 * sum(layers) - layers[0])


def section(work: Path, quick: bool) -> Section:
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("there is no C compiler (cc) to measure the machine's peak with")
    peak = work / "peak"
    flags = ["-O3", "-mavx2", "-mfma"]
    subprocess.run([compiler, *flags, HERE / "peak.c", "-o", peak], check=True)
    dense = encoded(work / "adult-dense", "adult", dense=True)
    script = [sys.executable, HERE / "train_fedfb.py"]
    options = ["--only", "train", "--runs", str(RUNS), "--epochs", str(EPOCHS)]
    commands = {"peak": [peak]} | {
        f"{form} {engine}": [*script, folder, *options, "--engine", engine]
        for form, folder in (("dense", dense), ("one-hot", encoded(work / "adult", "adult")))
        for engine in engines()
    }
    samples = in_turns(commands, 1 if quick else 5)
    speeds, widths = (said(samples["peak"], name) for name in ("fma_per_s", "bytes_per_s"))
    shape = np.load(dense / "x.npy", mmap_mode="r").shape
    needed = EPOCHS * RUNS * fmas(shape[0], (shape[1], HIDDEN, 1))
    rows, claims = [], []
    taken = {
        name: said(sample, "train_cpu_s") for name, sample in samples.items() if name != "peak"
    }
    for name, seconds in taken.items():
        times = middle([s * speed / needed for s, speed in zip(seconds, speeds, strict=True)])
        rows.append([name, spread(seconds), str(times)])
        if name == "dense native":
            what = "times the FMA limit, Adult-shaped grid of 24 runs, dense"
            claims.append(Claim(what, "at most 2.5", str(times), times.median <= 2.5))
    if "native" in engines():
        both = zip(taken["dense native"], taken["one-hot native"], strict=True)
        gain = middle([dense / sparse for dense, sparse in both])
        what = "times faster on one-hot rows (CSR) than dense, the same grid"
        claims.append(Claim(what, "at least 2", str(gain), gain.median >= 2))
    text = _text(shape, needed, statistics.median(speeds), statistics.median(widths))
    head = ["rows and engine", "training, CPU s", "times the FMA limit"]
    return Section(TITLE, f"{text}\n\n{table(head, rows)}", tuple(claims))


def _text(shape: tuple[int, int], needed: int, speed: float, width: float) -> str:
    rows, d = shape
    passes = EPOCHS * rows * d * 4
    return (
        f"One core did {speed / 1e9:.1f}e9 fused multiply-adds a second (AVX2, float32, measured "
        f"in the same turns) and moved {width / 1e9:.1f}e9 bytes a second (STREAM triad, arrays of "
        "128 MB). One round of the grid needs rows x epochs x runs x (2dh + 3h) = "
        f"{rows:,} x {EPOCHS} x {RUNS} x (2 x {d} x {HIDDEN} + 3 x {HIDDEN}) = "
        f"{needed / 1e9:.1f}e9 multiply-adds: forward and weight gradients of both layers, and the "
        f"gradient through the second. That is {short(needed / speed)} s; reading the rows once an "
        f"epoch is {passes / 1e9:.1f}e9 bytes or {short(passes / width)} s, so arithmetic is the "
        "limit. It leaves out the losses and Adam. *Dense* is Adult with its zeros moved off zero, "
        "*one-hot* is Adult itself; the limit of both is the dense one."
    )
