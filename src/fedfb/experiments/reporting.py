"""The result of an experiment: every seed's results, means over seeds, what fairness cost."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from msgspec.structs import asdict as fields_of

from fedfb.engine import explain_engine
from fedfb.experiments.codec import SCHEMA
from fedfb.experiments.evaluate import (
    mean_and_std,
    summarise,
)
from fedfb.experiments.result import (
    EngineChoice,
    Figures,
    Picked,
    Result,
    Summary,
    TriedSetting,
    Tuning,
)
from fedfb.experiments.seed_result import (
    DivergedSeeds,
    Privacy,
    SeedResult,
    Setting,
)
from fedfb.experiments.seeds import chance_of, summarise_seeds
from fedfb.experiments.shortfalls import find_shortfalls, other_notes
from fedfb.experiments.spec import Resolved
from fedfb.experiments.targets import unshown_misses
from fedfb.experiments.tune import Choice, Choices
from fedfb.notions import long_name
from fedfb.runtime.ledger import NEEDED, RECEIVED
from fedfb.tables.sources import describe_data


def make_result(
    experiment: Resolved,
    notes: Sequence[str],
    groups: Sequence[str],
    number: int,
    results: Sequence[Sequence[SeedResult]],
    choices: Choices,
    shared: float,
) -> Result:
    """Return the result of all seeds and settings together.

    There is one summary for the whole result only where there is one setting.

    Args:
        experiment: a resolved experiment.
        notes: what reading the data has to report.
        groups: names of the groups.
        number: how many settings were asked for. Results beyond belong to the free model, which
            shows what fairness costs.
        results: by seed, then by setting.
        choices: what was chosen on validation rows.
        shared: share of test rows that two seeds have in common, 0 to 1.
    """
    free = [of_seed[-1] for of_seed in results if len(of_seed) > number]
    # A cost of fairness needs the free model of every seed.
    free = [] if any(run.diverged for run in free) else free
    summaries = [
        _summary([of_seed[place] for of_seed in results], free, shared) for place in range(number)
    ]
    result = Result(
        schema=SCHEMA,
        data=describe_data(experiment.data),
        model=experiment.model,
        algorithm=experiment.algorithm,
        notion=long_name(experiment.notion),
        settings=plain(asdict(experiment)),
        engine=EngineChoice(**explain_engine(experiment.engine, experiment.model)._asdict()),
        runs=tuple(
            msgspec.structs.replace(run, chance=chance_of(run)) if number == 1 else run
            for of_seed in results
            for run in of_seed[:number]
        ),
        summary=figures_of(summaries[0]) if number == 1 else None,
        summaries=tuple(summaries),
        tuning=None if choices.common is None else Tuning(**_choice(choices.common)),
        picked=tuple(
            Picked(seed=seed, **_choice(choice)) for seed, choice in choices.by_seed.items()
        ),
        privacy=_privacy_over_seeds([of_seed[0] for of_seed in results]),
        notes=(
            *_diverged_notes(summaries, choices),
            *notes,
            *single_notes(experiment, results),
            *_feature_notes(results),
        ),
        groups=tuple(groups),
        experiment_hash=experiment.hash,
        shared_test_rows=shared,
        shortfalls=(),
    )
    return with_shortfalls(result)


def _feature_notes(results: Sequence[Sequence[SeedResult]]) -> list[str]:
    """Say what ``--features auto`` chose: the same for all seeds."""
    choice = results[0][0].features
    if choice is None:
        return []
    return [
        f"--features auto: numbers {'with' if choice.steps else 'without'} steps (loss on "
        f"validation rows {choice.loss_with_steps:.4f} with steps, {choice.loss_without:.4f} "
        "without)"
    ]


def figures_of(summary: Summary) -> Figures:
    """Return the figures of a summary, without its setting."""
    return Figures(**{name: getattr(summary, name) for name in Figures.__struct_fields__})


def _diverged_notes(summaries: Sequence[Summary], choices: Choices) -> list[str]:
    """Say which settings diverged, of those that were asked for and of those that were tried."""
    notes = [
        f"training diverged in round {where.round}, with seed "
        f"{', '.join(map(str, where.seeds))}: {_in_words(summary.settings)}"
        for summary in summaries
        if (where := summary.diverged)
    ]
    every = [choices.common, *choices.by_seed.values()]
    tried = [_in_words(setting) for choice in every if choice for setting, _ in choice.diverged]
    if tried:
        notes.append(f"diverged on validation rows, not chosen: {'; '.join(dict.fromkeys(tried))}")
    return notes


def _in_words(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{knob} {value:g}" for knob, value in setting.items())


def with_shortfalls(result: Result) -> Result:
    """Put what a result does not keep at its head: typed, and as the first of its notes."""
    shortfalls = tuple(find_shortfalls(result))
    first = [shortfall.sentence for shortfall in shortfalls]
    notes = tuple(dict.fromkeys([*first, *unshown_misses(result), *other_notes(result)]))
    return msgspec.structs.replace(result, shortfalls=shortfalls, notes=notes)


def single_notes(experiment: Resolved, results: Sequence[Sequence[SeedResult]]) -> list[str]:
    """Say for which tasks a method needs each client's upload; empty where sums are enough.

    Args:
        experiment: names the method.
        results: by seed, then by setting.
    """
    needed = {task for of_seed in results for run in of_seed for task in run.needs_single}
    if not needed:
        return []
    tasks = " and ".join(map(repr, sorted(needed)))
    return [f"{experiment.algorithm}: {NEEDED[1]} ({tasks}), and {RECEIVED[1]}"]


def _privacy_over_seeds(runs: Sequence[SeedResult]) -> Privacy | None:
    """Return the privacy of a result: that of the seed whose clients spent the most."""
    reports = [run.privacy for run in runs if run.privacy is not None]
    return max(reports, key=lambda privacy: privacy.most) if reports else None


def _summary(runs: Sequence[SeedResult], free: Sequence[SeedResult], shared: float) -> Summary:
    """Return means over seeds, and those of the free model with the accuracy given up for it.

    What seeds picked for themselves, and not alike, is left out of the settings.
    """
    first = runs[0].settings
    common = {k: v for k, v in first.items() if all(run.settings[k] == v for run in runs)}
    lost = [run for run in runs if run.diverged]
    if lost and (where := lost[0].diverged):
        # A mean over the seeds that went well would speak of these alone.
        seeds = tuple(run.seed for run in lost)
        diverged = DivergedSeeds(round=where.round, client=where.client, seeds=seeds)
        return _of_setting(msgspec.structs.replace(summarise(lost), diverged=diverged), common)
    means = summarise_seeds(runs, shared)
    if free:
        given_up = [
            other.accuracy - run.accuracy
            for run, other in zip(runs, free, strict=True)
            if other.accuracy is not None and run.accuracy is not None
        ]
        cost, of_free = mean_and_std(given_up), summarise_seeds(free, shared)
        means = msgspec.structs.replace(means, cost=cost, free=of_free)
    return _of_setting(means, common)


def _of_setting(figures: Figures, setting: Setting) -> Summary:
    return Summary(settings=setting, **fields_of(figures))


def _choice(choice: Choice) -> dict[str, Any]:
    """Return the fields of a choice that results have."""
    nothing = dict.fromkeys(("accuracy", "disparity", "loss", "off_target"))
    return {
        "chosen": dict(choice.setting),
        "accuracy_floor": choice.floor,
        "candidates": (
            *(TriedSetting(**candidate._asdict()) for candidate in choice.candidates),
            *(
                TriedSetting(setting=setting, **nothing, diverged=where)
                for setting, where in choice.diverged
            ),
        ),
    }


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them.

    >>> plain({"seeds": (0, 1)})
    {'seeds': [0, 1]}
    """
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
