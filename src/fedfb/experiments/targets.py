"""Targets: what is said before training, and of a target that a result misses."""

from collections.abc import Sequence

import numpy as np

from fedfb.algorithms import find_method
from fedfb.core import Examples
from fedfb.experiments.measure import REACHED
from fedfb.experiments.result import Result, Shortfall, Summary
from fedfb.experiments.seed_result import EVERYONE, Evaluation, Interval, SeedResult, Setting
from fedfb.experiments.seeds import least_disparity
from fedfb.notions.critical import LEVEL
from fedfb.notions.disparity import notion_blocks
from fedfb.notions.values import MINIMUM_ROWS, draw_blind_disparities, enough

Extent = tuple[float, Shortfall]
"""How far off a setting is, and the shortfall."""


def warn_of_target(
    targets: Sequence[float], notion: str, test: Examples, groups: int
) -> tuple[str, ...]:
    """Say before training that a target is below what test rows can show.

    Groups that are treated alike have a disparity on these rows all the same. Its mean is that of
    as many positive decisions as positive labels under demographic parity, else of one half, which
    is where chance is largest.

    Args:
        targets: the targets that were asked for. 0 asks for the least there is: it is not judged.
        notion: long name of the notion; client parity is not judged before there are losses.
        test: the test rows.
        groups: number of groups.
    """
    least = min((target for target in targets if target > 0), default=None)
    if least is None or notion == "client_parity" or groups < 2:
        return ()
    by_label = np.bincount(test.y * groups + test.group, minlength=2 * groups).reshape(2, groups)
    share = by_label[1].sum() / by_label.sum() if notion == "demographic_parity" else 0.5
    decisions = np.stack([(1 - share) * by_label, share * by_label], axis=1)
    [positives], [rows] = notion_blocks(notion, decisions[None])
    if enough(rows, MINIMUM_ROWS).sum(axis=1).min() < 2:
        return ()
    by_chance = float(draw_blind_disparities(positives, rows, MINIMUM_ROWS).mean())
    if least >= by_chance:
        return ()
    return (
        f"target {least:g} is below what the test rows can show: groups that are treated alike "
        f"show a disparity of {by_chance:.3f} by chance. Bring more test rows, merge small groups, "
        "or raise the target.",
    )


def miss_target(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    """Return the target's shortfall if the interval on test rows excludes the target.

    Where the test rows have no interval, the training rows alone decide.
    """
    trainings = [run.training for run in runs if run.training is not None]
    if not trainings:
        return None
    missed = [run for run in runs if run.training is not None and run.training.missed]
    reached, target = float(np.mean([of.disparity for of in trainings])), trainings[0].target
    interval = summary.disparity[result.notion].interval
    if not _is_shown(target, interval, missed, runs):
        return None
    kind = "client" if result.notion == "client_parity" else "group"
    at_bound = dict.fromkeys(name for run in runs for name in run.method.at_bound or ())
    uncut = dict.fromkeys(name for run in runs for name in run.method.left_out or ())
    idle = dict.fromkeys(name for run in runs for name in run.method.idle or ())
    # "Weights of 0" would read as weights that are 0.
    names, left_out, still = (
        [f"{kind} {name}" if name.isdigit() else name for name in of_method]
        for of_method in (at_bound, uncut, idle)
    )
    on_test = "" if interval is None else f" (95% interval {' to '.join(map(figure, interval))})"
    if missed:
        bound = f"Weights of {_and(names)} are at their bound. " if names else ""
        sentence = (
            f"Target missed{_on_seeds(missed, runs)}: training disparity {figure(reached)}, "
            f"target {plain_figure(target)}{on_test.replace('(', '(on test rows ')}. "
            f"{bound}{_explain_drift(result, still)}{_ways_on(result, bool(names or still))}"
        )
    elif left_out:
        sentence = (
            f"Target {plain_figure(target)} is reached without {_and(left_out)}, not with all "
            f"groups{on_test}: too few training rows for thresholds. Merge small groups (--merge)."
        )
    else:
        how = "reached" if reached <= target + REACHED else "within chance"
        sentence = (
            f"Target {plain_figure(target)} is {how} on training rows, not on test rows"
            f"{on_test}: training disparity {figure(reached)}. {_explain_drift(result, still)}"
            "Bring more training rows, use fewer features, or raise the target."
        )
    values = {
        "target": target,
        "disparity": reached,
        "interval": interval,
        "at_bound": names,
        "idle": still,
        "seeds": _seeds(missed),
    }
    # Without an interval a missed training target is all that is known.
    extent = reached if interval is None else interval[0]
    return extent - target, Shortfall(kind="target", sentence=sentence, values=values)


def _is_shown(
    target: float,
    interval: Interval | None,
    missed: Sequence[SeedResult],
    runs: Sequence[SeedResult],
) -> bool:
    """Return True if the rows show that the target is missed.

    Args:
        target: largest disparity that was asked for.
        interval: of the disparity on test rows; None where it is not estimable.
        missed: the runs whose training rows miss the target beyond chance.
        runs: all runs.
    """
    if interval is None:
        return bool(missed)
    excluded = interval[0] > target
    # A root mean square is below the range that the interval is of: a larger range proves nothing.
    other_measure = target > 0 and any(run.method.target_is_for for run in runs)
    return excluded and (bool(missed) or not other_measure)


def unshown_misses(result: Result) -> list[str]:
    """Say of which settings training rows miss the target, while test rows do not show it."""
    sentences = []
    for place, summary in enumerate(result.summaries):
        runs = [run for run in result.runs_of(place) if run.diverged is None]
        missed = [of for run in runs if (of := run.training) is not None and of.missed]
        interval = summary.disparity[result.notion].interval if missed else None
        if interval is None or _is_shown(missed[0].target, interval, runs, runs):
            continue
        reached = float(np.mean([training.disparity for training in missed]))
        at = f", at {setting_in_short(summary.settings)}" if len(result.summaries) > 1 else ""
        sentences.append(
            f"training disparity {figure(reached)}, target {plain_figure(missed[0].target)}{at}: "
            f"the test rows do not show a miss (95% interval {' to '.join(map(figure, interval))})"
        )
    return sentences


def _explain_drift(result: Result, names: Sequence[str]) -> str:
    """Say that gaps do not answer to their weights, and why; "" of no gaps, or of pooled rows."""
    method = find_method(result.algorithm)
    if not names or method.is_pooled(result.settings["variant"] or method.variants[0]):
        return ""
    verb, it = ("does", "its weight") if len(names) == 1 else ("do", "their weights")
    hidden = "" if result.group_is_given else ", or the features hardly tell the group"
    solvers = {"logistic": "newton", "mlp": "lbfgs"} if "solver" in method.reads else {}
    solver = solvers.get(result.settings["model"])
    way = f" Fit by sums (--solver {solver})." if solver else ""
    return (
        f"The gap{'s' * (len(names) > 1)} of {_and(names)} {verb} not answer to {it}: clients that "
        f"train by themselves drift apart{hidden}.{way} "
    )


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


def miss_new_clients(result: Result, summary: Summary, runs: Sequence[SeedResult]) -> Extent | None:
    """Return the shortfall of clients on which the target holds only if they are trained on.

    The intervals hold for all clients together (Bonferroni): of many clients one has a large
    disparity by chance.
    """
    trainings = [run.training for run in runs if run.training is not None]
    left_out = [run.leave_out for run in runs if run.leave_out is not None]
    if not trainings or len(left_out) < len(runs):
        return None
    target, shared = trainings[0].target, result.shared_test_rows
    by_client = [*zip(*((of.everyone, *of.clients) for of in left_out), strict=True)]
    level = 1 - (1 - LEVEL) / len(by_client)

    def ends(parts: Sequence[Evaluation]) -> tuple[float | None, float | None]:
        low = least_disparity(parts, result.notion, shared, level)
        values = [value for part in parts if (value := part.disparity[result.notion]) is not None]
        return low, float(np.mean(values)) if values else None

    misses = []
    for of_client in by_client:
        without = [part.excluded for part in of_client if part.excluded is not None]
        low, value = ends(without) if len(without) == len(runs) else (None, None)
        low_with, value_with = ends([part.included for part in of_client])
        if low is None or value is None or low <= target:
            continue
        if low_with is None or value_with is None or low_with <= target or low > value_with:
            misses.append((low - target, of_client[0].name, value, value_with))
    if not misses:
        return None
    extent, name, value, value_with = max(misses, key=lambda miss: miss[:2])
    clients = [miss[1] for miss in misses if miss[1] != EVERYONE]
    if name == EVERYONE:
        where, trained = "of all test rows, each decided without its client,", "with all clients"
    else:
        where, trained = f"on {name}, left out of training,", "trained on it"
    beside = "" if value_with is None else f" ({figure(value_with)} {trained})"
    many = f" {len(clients)} of {len(by_client) - 1} clients exceed it beyond chance."
    sentence = (
        f"The target does not hold for clients that nobody trained on: the disparity {where} is "
        f"{figure(value)}{beside}, target {plain_figure(target)}.{many if clients else ''} Train "
        "on clients like the new ones, or audit a new client before use."
    )
    values = {"client": name, "disparity": value, "trained_on": value_with, "clients": clients}
    return extent, Shortfall(kind="new_client", sentence=sentence, values=values)


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


def setting_in_short(setting: Setting) -> str:
    return ", ".join(f"{knob} {plain_figure(value)}" for knob, value in setting.items())


def figure(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"


def plain_figure(value: float) -> str:
    """Write a number that was given.

    >>> plain_figure(0.02), plain_figure(0.0), plain_figure(1.5)
    ('.02', '0', '1.5')
    """
    text = f"{value:g}"
    return text.removeprefix("0") if text.startswith("0.") else text
