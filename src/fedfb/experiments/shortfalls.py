"""Promises that a result does not keep, each in a sentence: every report begins with these."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedfb.experiments.result import Frontier, Result, Shortfall, Summary
from fedfb.experiments.seed_result import SeedResult, Setting

ALIKE = 0.99
"""From this share of equal decisions on a model is said to decide all rows alike."""

RARER = 0.1
"""So is a model whose rarer decision is this much rarer than the rarer label."""

SURE = 1.96
"""Standard errors beyond which a difference is more than chance."""

_CONSTANT = "constant"


Extent = tuple[float, Shortfall]
"""How far off a setting is, and the shortfall."""


def find_shortfalls(result: Result) -> Iterator[Shortfall]:
    """Yield what a result has to say first: one shortfall of a kind, of the worst setting."""
    for kind in _KINDS:
        extents = []
        for place, summary in enumerate(result.summaries):
            runs = [run for run in result.runs_of(place) if run.diverged is None]
            extent = kind(result, summary, runs) if runs else None
            if extent is not None:
                extents.append((summary.settings, extent))
        if extents:
            yield _worst(extents, len(result.summaries))


def _worst(extents: Sequence[tuple[Setting, Extent]], settings: int) -> Shortfall:
    """Return the largest of the shortfalls of a grid, and say at which settings the others are."""
    at, (_, worst) = max(extents, key=lambda pair: pair[1][0])
    values = {**worst.values, "settings": [dict(setting) for setting, _ in extents]}
    sentence = worst.sentence
    if settings > 1:
        many = len(extents) - 1
        others = f"; {many} other setting{'s' if many > 1 else ''} likewise" if many else ""
        sentence = f"{sentence} (At {_words(at)}{others}.)"
    return Shortfall(kind=worst.kind, sentence=sentence, values=values)


def first_sentences(results: Sequence[Result]) -> list[str]:
    """Return what results say first; of several, with the methods that it is said of."""
    names: dict[str, list[str]] = {}
    for result in results:
        for shortfall in result.shortfalls:
            names.setdefault(shortfall.sentence, []).append(result.algorithm)
    return [
        sentence if len(methods) == len(results) else f"{', '.join(methods)}: {sentence}"
        for sentence, methods in names.items()
    ]


def other_notes(result: Result | Frontier) -> list[str]:
    """Return the notes of a result that are not among what it says first."""
    first = {shortfall.sentence for shortfall in result.shortfalls}
    return [note for note in result.notes if note not in first]


def _target(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    missed = [run for run in runs if run.training is not None and run.training.missed]
    trainings = [run.training for run in missed if run.training is not None]
    if not trainings:
        return None
    reached = float(np.mean([training.disparity for training in trainings]))
    target = trainings[0].target
    kind = "client" if result.notion == "client_parity" else "group"
    at_bound = dict.fromkeys(name for run in missed for name in run.method.at_bound or ())
    # "Weights of 0" would read as weights that are 0.
    names = [f"{kind} {name}" if name.isdigit() else name for name in at_bound]
    bound = f"Weights of {_and(names)} are at their bound. " if names else ""
    sentence = (
        f"Target missed{_on_seeds(missed, runs)}: training disparity {_figure(reached)}, target "
        f"{_plain(target)}. {bound}{_ways_on(result, bool(names))}"
    )
    values = {"target": target, "disparity": reached, "at_bound": names, "seeds": _seeds(missed)}
    return reached - target, Shortfall(kind="target", sentence=sentence, values=values)


def _ways_on(result: Result, at_bound: bool) -> str:
    """Say what may reach the target: the group as an input, thresholds, or more rounds."""
    by_group = result.notion != "client_parity"
    ways = [] if at_bound else ["train for more rounds"]
    if result.algorithm == "fedfb-thresholds":
        mixed = "mixed" in (result.settings["variant"] or "")
        ways = ["raise the target" if mixed else "let thresholds be mixed (--variant mixed)"]
    elif by_group:
        ways += [] if result.group_is_given else ["give the group to the model"]
        ways += ["use thresholds"]
    elif at_bound:
        ways += ["raise the target"]
    *first, last = ways
    sentence = f"{', '.join(first)}, or {last}" if first else last
    return f"{sentence[0].upper()}{sentence[1:]}."


def _cost(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    bound = result.settings.get("cost")
    cost = None if summary.cost is None else summary.cost.mean
    if bound is None or cost is None or summary.free is None:
        return None
    rows = np.mean([run.rows for run in runs])
    accuracies = (summary.accuracy.mean, summary.free.accuracy.mean)
    variance = sum(mean * (1 - mean) for mean in accuracies if mean is not None)
    if cost <= bound + SURE * float(np.sqrt(variance / rows / len(runs))):
        return None
    sentence = (
        f"Cost exceeded: fairness costs {100 * cost:.1f} points of accuracy on test rows, and "
        f"--cost allows {100 * bound:.1f}. The target was chosen on validation rows. Lower --cost, "
        "or give a target."
    )
    values = {"cost": cost, "bound": bound}
    return cost - bound, Shortfall(kind="cost", sentence=sentence, values=values)


def _privacy(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    privacy = result.privacy
    if privacy is None or privacy.most <= privacy.epsilon * (1 + 1e-9):
        return None
    spent, budget = privacy.most, privacy.epsilon
    sentence = (
        f"Privacy budget exceeded: a client spent epsilon {spent:.4g}, and --privacy-epsilon "
        f"allows {budget:.4g}. Do not publish this model."
    )
    values = {"spent": spent, "epsilon": budget}
    return spent - budget, Shortfall(kind="privacy", sentence=sentence, values=values)


def _less_fair(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    notion = result.notion
    plain = None if summary.free is None else summary.free.disparity[notion].mean
    low = [interval[0] for run in runs if (interval := run.interval[notion]) is not None]
    reached = summary.disparity[notion].mean
    if plain is None or reached is None or not low or np.mean(low) <= plain:
        return None
    sentence = (
        f"Less fair than plain training: disparity {_figure(reached)} on test rows, and "
        f"{_figure(plain)} without fairness. Use the plain model, or thresholds."
    )
    values = {"disparity": reached, "plain": plain}
    return reached - plain, Shortfall(kind="less_fair", sentence=sentence, values=values)


def _alike(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    rates = [_positive_share(run) for run in runs]
    majorities = [share for run in runs if (share := run.majority_accuracy) is not None]
    labels = float(np.mean([1 - share for share in majorities])) if majorities else 0.0
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
    values = {"share": share, "labels": 1 - labels}
    return share, Shortfall(kind="alike", sentence=sentence, values=values)


def _loss(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    losses = [(run.loss, run.constant_loss, run.loss_error) for run in runs]
    estimable = [of_run for of_run in losses if of_run[1] is not None]
    if not estimable:
        return None
    columns = zip(*estimable, strict=True)
    loss, constant, error = (float(np.mean(np.array(column, float))) for column in columns)
    if loss - constant <= SURE * error:
        return None
    sentence = (
        f"The model's scores are worse than none: mean loss {_figure(loss)} on test rows, and "
        f"{_figure(constant)} if every row gets the training share of positive labels. Train for "
        "more rounds, change the learning rate, or raise the target."
    )
    values = {"loss": loss, _CONSTANT: constant}
    return loss - constant, Shortfall(kind="loss", sentence=sentence, values=values)


def _copies(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    shares = [run.copied for run in runs if run.copied is not None]
    if not shares:
        return None
    share = float(np.mean(shares))
    sentence = (
        f"Repeated rows: {_percent(share)} of the test rows have an exact copy among the training "
        "rows, more than chance explains. Figures are too good and intervals too short. Remove "
        "the copies, or keep them on one side of the split."
    )
    return share, Shortfall(kind="copies", sentence=sentence, values={"share": share})


_KINDS: tuple[Callable[[Result, Summary, Sequence[SeedResult]], Extent | None], ...] = (
    _target,
    _cost,
    _privacy,
    _less_fair,
    _alike,
    _loss,
    _copies,
)
"""What is looked for, the most important first: each returns how far off a setting is."""


def _positive_share(run: SeedResult) -> float:
    return sum(group.n * (group.positive_rate or 0.0) for group in run.groups) / max(run.rows, 1)


def _seeds(runs: Sequence[SeedResult]) -> list[int]:
    return [run.seed for run in runs]


def _on_seeds(some: Sequence[SeedResult], runs: Sequence[SeedResult]) -> str:
    return "" if len(some) == len(runs) else f" on {len(some)} of {len(runs)} seeds"


def _and(names: Sequence[str]) -> str:
    """Join names in words.

    >>> _and(["a"]), _and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _words(setting: Setting) -> str:
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
