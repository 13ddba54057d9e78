"""Draw the pictures of docs/methods.md.

Usage: python benchmarks/methods_pictures.py [--out docs/methods]

Seed 0 of the synthetic data, logistic regression, demographic parity; about a minute.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedfb.algorithms.fedfb.fedfb import fedfb
from fedfb.algorithms.fedfb.outer import Outer
from fedfb.core import LocalSolver
from fedfb.data import load
from fedfb.engine import choose_engine
from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.models import make_model
from fedfb.notions import make_notion
from fedfb.report.figures import save_figure
from fedfb.runtime import make_ask

ROOT = Path(__file__).resolve().parents[1]
STYLES = ("-", "--", ":", "-.")
LAST = 10
SIGNALS = {"zero_one": "decisions", "prob": "scores |y - p|", "ce": "cross-entropy"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "methods")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for draw in (gap_against_lambda, paths, periods, convergence):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="0.93", linewidth=0.8)
        name = draw.__name__.replace("_", "-")
        save_figure(figure, out / f"{name}.svg")


def gap_against_lambda(figure: Figure) -> None:
    """Hold lambda, train, and look at the gap: many lambdas are the runs of one grid."""
    federation = load(Experiment(sensitive_at_prediction=True).request, 0)
    engine = choose_engine("auto", make_model("logistic", federation.test.x.shape[1]), np.float32)
    clients = [c._replace(x=c.x.astype(np.float32)) for c in federation.clients]
    notion = make_notion("dp", 2)
    axes = figure.subplots()
    for style, surrogate in zip(STYLES, SIGNALS, strict=False):
        shares = np.linspace(-0.98, 0.98, 41)
        still = Outer(alpha=np.zeros(len(shares)), surrogate=surrogate)
        solver = LocalSolver(learning_rate=np.full(len(shares), 0.005))
        algorithm = fedfb(engine, solver, notion, still)
        memories = {client.id: {} for client in clients}
        start = np.repeat(engine.model.init(0)[None], len(shares), axis=0)
        state = algorithm.setup(start, make_ask(clients, memories, 0, 0))
        first = state.lam[0, 1]
        moved = np.stack(
            [state.lam[:, 0] - shares * min(state.lam[0]), first + shares * min(state.lam[0])], 1
        )
        state = state._replace(lam=moved)
        for number in (1, 2, 3):
            state, info = algorithm.round(state, make_ask(clients, memories, 0, number))
        axes.plot(moved[:, 1], info.signal[:, 1], style, color="0.1", label=SIGNALS[surrogate])
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.axvline(first, color="0.6", linewidth=0.8)
    axes.annotate(
        "all weights 1",
        (first, axes.get_ylim()[0]),
        xytext=(4, 4),
        fontsize=8,
        textcoords="offset points",
        color="0.4",
    )
    axes.set_xlabel(r"$\lambda_1$ ($\lambda_0+\lambda_1=1$)")
    axes.set_ylabel("$F_1$, group 1 less group 0")
    axes.legend(frameon=False, fontsize=9)


def paths(figure: Figure) -> None:
    """Show how the three rules move lambda, and what the gap does."""
    base = Experiment(lr=(0.005,), rounds=LAST, sensitive_at_prediction=True)
    rules = {
        "solve": base,
        "step, alpha .5": replace(base, alpha=(0.5,)),
        "paper, alpha .2": replace(base, outer="paper", alpha=(0.2,)),
    }
    lam, gap = figure.subplots(1, 2)
    for style, (name, experiment) in zip(STYLES, rules.items(), strict=False):
        rounds = run(experiment).runs[0].rounds
        at = [row.round for row in rounds]
        lam.plot(at, [row.lam[1] for row in rounds], style, color="0.1", label=name)
        gap.plot(at, [row.disparity for row in rounds], style, color="0.1", label=name)
    lam.set_ylabel(r"$\lambda_1$")
    gap.set_ylabel("training disparity")
    gap.axhline(0.01, color="0.6", linewidth=0.8)
    for axes in (lam, gap):
        axes.set_xlabel("round")
    gap.legend(frameon=False, fontsize=9)


def periods(figure: Figure) -> None:
    """Move lambda ten times, every k rounds of 30/k epochs: the same 300 epochs in all."""
    accuracy, gap = figure.subplots(1, 2)
    for style, k in zip(STYLES, (1, 2, 5, 10), strict=True):
        experiment = Experiment(
            lr=(0.005,), rounds=10 * k, local_epochs=30 // k, period=k, sensitive_at_prediction=True
        )
        rounds = run(experiment).runs[0].rounds
        at = [row.round * 30 / k for row in rounds]
        accuracy.plot(at, [row.accuracy for row in rounds], style, color="0.1", label=f"k = {k}")
        gap.plot(at, [row.disparity for row in rounds], style, color="0.1", label=f"k = {k}")
    accuracy.set_ylabel("training accuracy")
    gap.set_ylabel("training disparity")
    for axes in (accuracy, gap):
        axes.set_xlabel("local epochs so far")
    gap.legend(frameon=False, fontsize=9)


def convergence(figure: Figure) -> None:
    """Draw the theorem: the distance to lambda*, inner problem solved exactly, and its bound."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "notions")]
    from test_convergence import RULES, bound, problem_of, root, stays_inside, walk

    problem, best = next(
        (problem, best)
        for seed in range(100)
        for problem in [problem_of("dp", seed)]
        if (best := root(problem)) is not None
        and abs(best[0, 1] - problem.start[0, 1]) > 0.1
        and all(stays_inside(problem, rule) for rule in RULES.values())
    )
    axes = figure.subplots()
    at = np.arange(1, 401)
    for shade, (name, rule) in zip(("0.1", "0.5"), RULES.items(), strict=True):
        far = np.array([abs(lam[0, 1] - best[0, 1]) for lam in walk(problem, rule, 0.1, 400)])
        # It jumps to and fro across the root: what counts is how far it ever gets again.
        furthest = np.maximum.accumulate(far[::-1])[::-1]
        axes.plot(at, furthest, color=shade, label=f"{name}: largest from T on")
        limits = [bound(problem, best, rule, 0.1, steps) for steps in at]
        axes.plot(at, limits, "--", color=shade, label=f"{name}: bound")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("step T")
    axes.set_ylabel(r"$|\lambda_T-\lambda^\star|$")
    axes.legend(frameon=False, fontsize=9)


if __name__ == "__main__":
    main()
