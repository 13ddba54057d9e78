"""What a client will send in a study, in words, for its user to read before the client joins."""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from fedfb.data.fit_columns import listed_categories, numeric
from fedfb.experiments.explain import explain
from fedfb.experiments.rule import FEWEST_SCORES, POPULATION_BINS
from fedfb.experiments.tune import HELD_OUT
from fedfb.runtime.ledger import NEEDS_SUM
from fedfb.study.keys import Bundle
from fedfb.study.study import Study
from fedfb.study.trial import make_largest_encoder

SUMS, SINGLE = "sums over all clients", "YOUR OWN VALUE"

EVALUATION = "decisions, scores (10 bins), losses by label and group"

TRIALS = f"to choose a learning rate, on {1 - HELD_OUT:.0%} of the training rows: "


def describe_uploads(bundle: Bundle, data: str | Path, train: int, test: int) -> Iterator[str]:
    """Describe what is read, what leaves the machine, in which form and how often.

    Args:
        bundle: the study, and the name of this client.
        data: the file, or the database, of the client's rows.
        train: how many rows it has to train on.
        test: how many rows it has to test on.
    """
    study, experiment = bundle.study, bundle.study.experiment
    encoder = make_largest_encoder(study.schema, experiment.sensitive_at_prediction)
    groups = encoder.groups.names
    negation = "" if experiment.sensitive_at_prediction else "not "
    explained = explain(experiment, len(groups), len(study.clients), len(encoder.feature_names))
    yield f"Study {study.name!r}, server {study.address}, clients {', '.join(study.clients)}."
    yield f"You are {bundle.client!r} with {data}: {train} rows to train on, {test} to test on."
    yield (
        f"{experiment.algorithm} ({experiment.notion}), {experiment.rounds} rounds, groups "
        f"{', '.join(groups)}. The group is {negation}an input of the model."
    )
    yield "No row leaves this machine. What is sent, and what the server receives of it"
    yield "(in brackets the largest number of values; categories that no client has are left out):"
    yield from (f"  once: {what}; {SUMS}" for what in _describe_columns(study))
    for phase, title in (("tune", TRIALS), ("run", "")):
        exchanges = [item for item in explained.exchanges if item.phase == phase]
        for exchange in exchanges:
            parts = ", ".join(f"{name} ({prod(shape)})" for name, shape in exchange.parts)
            times = "" if exchange.times[1] == 1 else f", {exchange.times[1]} times"
            form = SUMS if NEEDS_SUM[exchange.seen] else SINGLE
            yield f"  {title}{exchange.when}{times}, {exchange.question}: {parts}; {form}"
        if exchanges:
            rows = "validation rows" if phase == "tune" else "test rows"
            yield f"  {title}once, on {rows}: {EVALUATION}; {SUMS}"
    if study.achievable:
        yield f"  after, FedAvg in {experiment.rounds} more rounds: model and weight; {SUMS}"
        yield (
            f"  once, how many of your training rows have its score in each of {POPULATION_BINS} "
            f"bins, by label and group; {SINGLE}, withheld if you have some rows of a group, but "
            f"fewer than {FEWEST_SCORES}"
        )
    yield f"Sums are over at least {study.least} clients. What sums reveal: docs/threat-model.md."


def _describe_columns(study: Study) -> Iterator[str]:
    schema = study.schema
    yield "rows by label and group"
    if numeric(schema):
        yield f"numbers, sums and spreads of {len(numeric(schema))} columns"
    ranked = [*numeric(schema, "robust"), *numeric(schema, "clip")]
    if ranked:
        yield f"histograms of {', '.join(ranked)}, 64 bins, twice"
    if listed_categories(schema):
        yield f"how often each of {len(listed_categories(schema))} categories occurs"
