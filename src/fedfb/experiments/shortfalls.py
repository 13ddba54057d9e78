"""Promises that a result does not keep, each in a sentence: every report begins with these."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fedfb.experiments.result import Frontier, Result, Shortfall, Summary
from fedfb.experiments.seed_result import SeedResult, Setting
from fedfb.experiments.targets import (
    Extent,
    figure,
    miss_new_clients,
    miss_target,
    setting_in_short,
)

ALIKE = 0.99
"""From this share of equal decisions on a model is said to decide all rows alike."""

RARER = 0.1
"""So is a model whose rarer decision is this much rarer than the rarer label."""

SURE = 1.96
"""Standard errors beyond which a difference is more than chance."""

TRAINED = 100
"""Epochs of local training from which on a model that is worse than a constant is no surprise of a
training that was cut short."""

_CONSTANT = "constant"


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
        sentence = f"{sentence} (At {setting_in_short(at)}{others}.)"
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
    reached, interval = summary.disparity[notion].mean, summary.disparity[notion].interval
    if plain is None or reached is None or interval is None or interval[0] <= plain:
        return None
    sentence = (
        f"Less fair than plain training: disparity {figure(reached)} on test rows, and "
        f"{figure(plain)} without fairness. Use the plain model, or thresholds."
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


def _no_better(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    settings = result.settings
    epochs = (settings.get("rounds") or 0) * (settings.get("local_epochs") or 0)
    if settings.get("solver") != "newton" and epochs < TRAINED:
        return None
    for where in ("training", "test"):
        pairs = [pair for run in runs if (pair := _beside_constant(run, where)) is not None]
        accuracy, constant = np.mean(pairs, axis=0).tolist() if pairs else (1.0, 0.0)
        # On training rows the method could choose; a few test rows may be unlike them by chance.
        rows = float(np.sum([run.rows for run in runs]))
        chance = float(np.sqrt(accuracy * (1 - accuracy) / rows)) if where == "test" else 0.0
        if constant - accuracy >= chance:
            sentence = (
                f"No more accurate than a constant: accuracy {figure(accuracy)} on {where} rows, "
                f"and {figure(constant)} if every row gets the same decision. Add features, raise "
                "the target, or use thresholds."
            )
            values = {"accuracy": accuracy, _CONSTANT: constant, "rows": where}
            shortfall = Shortfall(kind="constant", sentence=sentence, values=values)
            return constant - accuracy, shortfall
    return None


def _beside_constant(run: SeedResult, where: str) -> tuple[float, float] | None:
    """Return the accuracy of a run and of the best constant; None for methods that choose none."""
    trained, constant = run.method.training_accuracy, run.method.constant_accuracy
    if where == "test":
        constant = None if trained is None else run.majority_accuracy
        trained = run.accuracy
    return None if trained is None or constant is None else (trained, constant)


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
        f"The model's scores are worse than none: mean loss {figure(loss)} on test rows, and "
        f"{figure(constant)} if every row gets the training share of positive labels. Train for "
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
    miss_target,
    miss_new_clients,
    _cost,
    _privacy,
    _less_fair,
    _alike,
    _no_better,
    _loss,
    _copies,
)
"""What is looked for, the most important first: each returns how far off a setting is."""


def _positive_share(run: SeedResult) -> float:
    return sum(group.n * (group.positive_rate or 0.0) for group in run.groups) / max(run.rows, 1)


def _percent(share: float) -> str:
    """Write a share as a percentage, never as a full 100% that it is not.

    >>> _percent(0.9996), _percent(1.0), _percent(0.123)
    ('99.9%', '100%', '12.3%')
    """
    return "100%" if share == 1 else f"{min(100 * share, 99.94):.1f}%".replace(".0%", "%")
