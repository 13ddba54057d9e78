"""What a silo will send in a study, in words, before it joins."""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from fedfb.data.fit_columns import listed_categories, numeric
from fedfb.experiments.explain import explain
from fedfb.experiments.scores import BINS, FEWEST_ROWS
from fedfb.experiments.tune import HELD_OUT
from fedfb.runtime.ledger import NEEDS_SUM
from fedfb.study.keys import Bundle
from fedfb.study.study import Study
from fedfb.study.trial import largest_encoder

SUMS, OWN = "sums over all silos", "YOUR OWN VALUE"

JUDGED = "decisions, scores (10 bins), losses by label and group"

TRIALS = f"to pick a learning rate, on {1 - HELD_OUT:.0%} of the training rows: "


def what_is_sent(bundle: Bundle, data: Path, train: int, test: int) -> Iterator[str]:
    """Say what is read, what leaves, in which form and how often."""
    study, experiment = bundle.study, bundle.study.experiment
    most = largest_encoder(study.schema, experiment.sensitive_at_prediction)
    groups = most.groups.names
    given = "" if experiment.sensitive_at_prediction else "not "
    explained = explain(experiment, len(groups), len(study.silos), len(most.feature_names))
    yield f"Study {study.name!r}, coordinator {study.address}, silos {', '.join(study.silos)}."
    yield f"You are {bundle.silo!r} with {data}: {train} rows to train on, {test} to test on."
    yield (
        f"{experiment.algorithm} ({experiment.notion}), {experiment.rounds} rounds, groups "
        f"{', '.join(groups)}. The group is {given}an input of the model."
    )
    yield "No row leaves this machine. What is sent, and what the coordinator sees of it"
    yield "(in brackets how many numbers, at most: categories that nobody has are left out later):"
    yield from (f"  once: {what}; {SUMS}" for what in _about_columns(study))
    for phase, title in (("tune", TRIALS), ("run", "")):
        asked = [one for one in explained.exchanges if one.phase == phase]
        for one in asked:
            parts = ", ".join(f"{name} ({prod(shape)})" for name, shape in one.parts)
            often = "" if one.times[1] == 1 else f", {one.times[1]} times"
            seen = SUMS if NEEDS_SUM[one.seen] else OWN
            yield f"  {title}{one.when}{often}, {one.question}: {parts}; {seen}"
        if asked:
            rows = "validation rows" if phase == "tune" else "test rows"
            yield f"  {title}once, on {rows}: {JUDGED}; {SUMS}"
    if study.achievable:
        yield f"  after, FedAvg in {experiment.rounds} more rounds: model and weight; {SUMS}"
        yield (
            f"  once, how many of your training rows have its score in each of {BINS} bins, by "
            f"label and group; {OWN}, unless you have fewer than {FEWEST_ROWS} rows of a group "
            "that you have at all"
        )
    yield f"Sums are over at least {study.least} silos. What these tell: docs/threat-model.md."


def _about_columns(study: Study) -> Iterator[str]:
    schema = study.schema
    yield "rows by label and group"
    if numeric(schema):
        yield f"numbers, sums and spreads of {len(numeric(schema))} columns"
    ranked = [*numeric(schema, "robust"), *numeric(schema, "clip")]
    if ranked:
        yield f"histograms of {', '.join(ranked)}, 64 bins, twice"
    if listed_categories(schema):
        yield f"how often each of {len(listed_categories(schema))} categories occurs"
