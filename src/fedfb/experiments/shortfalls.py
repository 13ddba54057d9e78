"""Promises that a result does not keep, each in a sentence: every report begins with these."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Record = Mapping[str, Any]


ALIKE = 0.99
"""From this share of equal decisions on a model is said to decide all rows alike."""

RARER = 0.1
"""So is a model whose rarer decision is this much rarer than the rarer label."""

SURE = 1.96
"""Standard errors beyond which a difference is more than chance."""

CONSTANT = "constant"


class Shortfall(NamedTuple):
    """A promise that a result does not keep.

    ``kind`` is one of target, cost, privacy, less_fair, alike, loss, copies; ``sentence`` says what
    is the matter and what to do, ``values`` are the figures in it, by name.
    """

    kind: str
    sentence: str
    values: Mapping[str, Any]


def shortfalls(report: Record) -> Iterator[Shortfall]:
    """Yield what a report has to say first: one shortfall of a kind, of the worst setting."""
    number = len(report["summaries"])
    for kind in KINDS:
        found = []
        for place, summary in enumerate(report["summaries"]):
            runs = [run for run in report["runs"][place::number] if not run.get("diverged")]
            one = kind(report, summary, runs) if runs else None
            if one is not None:
                found.append((summary["settings"], one))
        if found:
            yield _worst(found, number)


def _worst(found: Sequence[tuple[Record, tuple[float, Shortfall]]], settings: int) -> Shortfall:
    """Return the largest of the shortfalls of a grid, and say at which settings the others are."""
    at, (_, worst) = max(found, key=lambda one: one[1][0])
    values = {**worst.values, "settings": [dict(setting) for setting, _ in found]}
    sentence = worst.sentence
    if settings > 1:
        many = len(found) - 1
        others = f"; {many} other setting{'s' if many > 1 else ''} likewise" if many else ""
        sentence = f"{sentence} (At {_words(at)}{others}.)"
    return Shortfall(worst.kind, sentence, values)


def as_records(found: Iterator[Shortfall]) -> list[dict[str, Any]]:
    """Return shortfalls as JSON has them."""
    return [one._asdict() for one in found]


def first_sentences(reports: Sequence[Record]) -> list[str]:
    """Return what reports say first; of several, with the methods that it is said of.

    >>> one, other = ({"algorithm": a, "shortfalls": [{"sentence": "It."}]} for a in "ab")
    >>> first_sentences([one]), first_sentences([one, other])
    (['It.'], ['It.'])
    >>> first_sentences([one, {"algorithm": "c", "shortfalls": []}])
    ['a: It.']
    """
    names: dict[str, list[str]] = {}
    for report in reports:
        for one in report.get("shortfalls", ()):
            names.setdefault(one["sentence"], []).append(str(report["algorithm"]))
    return [
        sentence if len(own) == len(reports) else f"{', '.join(own)}: {sentence}"
        for sentence, own in names.items()
    ]


def other_notes(report: Record) -> list[str]:
    """Return the notes of a report that are not among what it says first."""
    first = {one["sentence"] for one in report.get("shortfalls", ())}
    return [note for note in report["notes"] if note not in first]


def _target(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    missed = [run for run in runs if (run.get("training") or {}).get("missed")]
    if not missed:
        return None
    reached = float(np.mean([run["training"]["disparity"] for run in missed]))
    target = missed[0]["training"]["target"]
    names = list(dict.fromkeys(str(n) for run in missed for n in run["told"].get("at_bound", ())))
    bound = f"Weights of {_and(names)} are at their bound. " if names else ""
    sentence = (
        f"Target missed{_on_seeds(missed, runs)}: training disparity {_figure(reached)}, target "
        f"{_plain(target)}. {bound}{_ways_on(report, bool(names))}"
    )
    values = {"target": target, "disparity": reached, "at_bound": names, "seeds": _seeds(missed)}
    return reached - target, Shortfall("target", sentence, values)


def _ways_on(report: Record, at_bound: bool) -> str:
    """Say what may reach the target: the group as an input, thresholds, or more rounds."""
    by_group = report["notion"] != "client_parity"
    ways = [] if at_bound else ["train for more rounds"]
    if report["algorithm"] == "fedfb-thresholds":
        mixed = "mixed" in (report["settings"]["variant"] or "")
        ways = ["raise the target" if mixed else "let thresholds be mixed (--variant mixed)"]
    elif by_group:
        given = report["settings"]["sensitive_at_prediction"]
        ways += [] if given else ["give the group to the model"]
        ways += ["use thresholds"]
    elif at_bound:
        ways += ["raise the target"]
    *first, last = ways
    sentence = f"{', '.join(first)}, or {last}" if first else last
    return f"{sentence[0].upper()}{sentence[1:]}."


def _cost(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    bound, cost = report["settings"].get("cost"), summary.get("cost", {}).get("mean")
    if bound is None or cost is None:
        return None
    rows = np.mean([sum(group["n"] for group in run["groups"]) for run in runs])
    accuracies = (summary["accuracy"]["mean"], summary["free"]["accuracy"]["mean"])
    variance = sum(accuracy * (1 - accuracy) for accuracy in accuracies)
    if cost <= bound + SURE * float(np.sqrt(variance / rows / len(runs))):
        return None
    sentence = (
        f"Cost exceeded: fairness costs {100 * cost:.1f} points of accuracy on test rows, and "
        f"--cost allows {100 * bound:.1f}. The target was chosen on validation rows. Lower --cost, "
        "or give a target."
    )
    return cost - bound, Shortfall("cost", sentence, {"cost": cost, "bound": bound})


def _privacy(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    privacy = report.get("privacy")
    if not privacy or privacy["most"] <= privacy["epsilon"] * (1 + 1e-9):
        return None
    spent, budget = privacy["most"], privacy["epsilon"]
    sentence = (
        f"Privacy budget exceeded: a client spent epsilon {spent:.4g}, and --privacy-epsilon "
        f"allows {budget:.4g}. Do not publish this model."
    )
    return spent - budget, Shortfall("privacy", sentence, {"spent": spent, "epsilon": budget})


def _less_fair(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    notion = report["notion"]
    plain = summary.get("free", {}).get("disparity", {}).get(notion, {}).get("mean")
    low = [run["interval"][notion][0] for run in runs if run["interval"][notion] is not None]
    if plain is None or not low or np.mean(low) <= plain:
        return None
    reached = summary["disparity"][notion]["mean"]
    sentence = (
        f"Less fair than plain training: disparity {_figure(reached)} on test rows, and "
        f"{_figure(plain)} without fairness. Use the plain model, or thresholds."
    )
    values = {"disparity": reached, "plain": plain}
    return reached - plain, Shortfall("less_fair", sentence, values)


def _alike(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    rates = [_positive_share(run) for run in runs]
    labels = float(np.mean([1 - run["majority_accuracy"] for run in runs]))
    shares = [max(rate, 1 - rate) for rate in rates]
    share = float(np.mean(shares))
    # Labels that are nearly all alike call for decisions that are.
    if share < min(ALIKE, 1 - RARER * labels) or labels < 2 * (1 - ALIKE):
        return None
    which = "positively" if np.mean(rates) > 0.5 else "negatively"
    sentence = (
        f"The model decides nearly all rows alike: {_percent(share)} of the test rows {which}, and "
        f"{_percent(1 - labels)} of the labels are alike. Its disparity says little. Train for "
        "more rounds, change the learning rate, or raise the target."
    )
    return share, Shortfall("alike", sentence, {"share": share, "labels": 1 - labels})


def _loss(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    known = [run for run in runs if run.get("constant_loss") is not None]
    if not known:
        return None
    loss, constant, error = (
        float(np.mean([run[name] for run in known]))
        for name in ("loss", "constant_loss", "loss_error")
    )
    if loss - constant <= SURE * error:
        return None
    sentence = (
        f"The model's scores are worse than none: mean loss {_figure(loss)} on test rows, and "
        f"{_figure(constant)} if every row gets the training share of positive labels. Train for "
        "more rounds, change the learning rate, or raise the target."
    )
    return loss - constant, Shortfall("loss", sentence, {"loss": loss, CONSTANT: constant})


def _copies(
    report: Record, summary: Record, runs: Sequence[Record]
) -> tuple[float, Shortfall] | None:
    shares = [run["copied"] for run in runs if run.get("copied") is not None]
    if not shares:
        return None
    share = float(np.mean(shares))
    sentence = (
        f"Repeated rows: {_percent(share)} of the test rows have an exact copy among the training "
        "rows, more than chance explains. Figures are too good and intervals too short. Remove "
        "the copies, or keep them on one side of the split."
    )
    return share, Shortfall("copies", sentence, {"share": share})


KINDS: tuple[Callable[[Record, Record, Sequence[Record]], tuple[float, Shortfall] | None], ...] = (
    _target,
    _cost,
    _privacy,
    _less_fair,
    _alike,
    _loss,
    _copies,
)
"""What is looked for, the most important first: each returns how far off a setting is."""


def _positive_share(run: Record) -> float:
    groups = [group for group in run["groups"] if group["n"]]
    positives = sum(group["n"] * group["positive_rate"] for group in groups)
    return float(positives / max(sum(group["n"] for group in groups), 1))


def _seeds(runs: Sequence[Record]) -> list[int]:
    return [run["seed"] for run in runs]


def _on_seeds(some: Sequence[Record], runs: Sequence[Record]) -> str:
    return "" if len(some) == len(runs) else f" on {len(some)} of {len(runs)} seeds"


def _and(names: Sequence[str]) -> str:
    """Join names in words.

    >>> _and(["a"]), _and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _words(setting: Record) -> str:
    return ", ".join(f"{knob} {_plain(value)}" for knob, value in setting.items())


def _figure(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def _plain(value: float) -> str:
    """Write a number that was given.

    >>> _plain(0.02), _plain(0.0), _plain(1.5)
    ('.02', '0', '1.5')
    """
    text = f"{value:g}"
    return text.removeprefix("0") if text.startswith("0.") else text


def _percent(share: float) -> str:
    """Write a share as a percentage, never as a full 100% that it is not.

    >>> _percent(0.9996), _percent(1.0), _percent(0.123)
    ('99.9%', '100%', '12.3%')
    """
    return "100%" if share == 1 else f"{min(100 * share, 99.94):.1f}%".replace(".0%", "%")
