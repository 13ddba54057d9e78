"""What a client will send in a study, in words, for its user to read before the client joins."""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from fedfb.algorithms.newton import NEWTON, count_exchanges
from fedfb.data.fit_columns import listed_categories, numeric
from fedfb.experiments.explain import explain
from fedfb.experiments.rule import FEWEST_SCORES, POPULATION_BINS
from fedfb.experiments.tune import HELD_OUT
from fedfb.runtime.ledger import NEEDS_SUM
from fedfb.study.study import Study, study_to_toml
from fedfb.study.trial import Rows, make_largest_encoder

SUMS, SINGLE = "sums over all clients", "YOUR OWN VALUE"

EVALUATION = "decisions, scores (10 bins), losses by label and group"

TRIALS = f"to choose a learning rate, on {1 - HELD_OUT:.0%} of the training rows: "


def describe_uploads(study: Study, client: str, data: str | Path, rows: Rows) -> Iterator[str]:
    """Describe what is read, what leaves the machine, in which form and how often.

    Args:
        study: the study.
        client: the name of the client.
        data: the file, or the database, of the client's rows.
        rows: its rows.
    """
    experiment, train, test = study.experiment, len(rows.train), len(rows.test)
    encoder = make_largest_encoder(study.schema, experiment.sensitive_at_prediction)
    groups = encoder.groups.names
    negation = "" if experiment.sensitive_at_prediction else "not "
    explained = explain(experiment, len(groups), len(study.clients), len(encoder.feature_names))
    yield from describe_warnings(study)
    yield f"Study {study.name!r}, seal {study.seal[:16]}, server {study.terms.address}."
    yield f"Clients: {', '.join(study.names)}."
    yield f"You are {client!r} with {data}: {train} rows to train on, {test} to test on."
    yield (
        f"{experiment.algorithm} ({experiment.notion}), {experiment.rounds} rounds, groups "
        f"{', '.join(groups)}. The group is {negation}an input of the model."
    )
    yield "No row leaves this machine. What is sent, and what the others receive of it"
    yield "(in brackets the largest number of values; categories that no client has are left out):"
    yield from (f"  once: {what}; {SUMS}" for what in _describe_columns(study))
    for phase, title in (("tune", TRIALS), ("run", "")):
        exchanges = [item for item in explained.exchanges if item.phase == phase]
        for exchange in exchanges:
            parts = ", ".join(f"{name} ({prod(shape)})" for name, shape in exchange.parts)
            times = "" if exchange.times[1] == 1 else f", {exchange.times[1]} times"
            if exchange.question == NEWTON:
                most = count_exchanges(explained.parameters)
                times = f", as often as the fit needs (usually 1 to 9 times, at most {most})"
            form = SUMS if NEEDS_SUM[exchange.seen] else SINGLE
            yield f"  {title}{exchange.when}{times}, {exchange.question}: {parts}; {form}"
        if exchanges:
            held = "validation rows" if phase == "tune" else "test rows"
            yield f"  {title}once, on {held}: {EVALUATION}; {SUMS}"
    if study.terms.achievable:
        yield f"  after, FedAvg in {experiment.rounds} more rounds: model and weight; {SUMS}"
        yield (
            f"  once, how many of your training rows have its score in each of {POPULATION_BINS} "
            f"bins, by label and group; {SINGLE}, withheld if you have some rows of a group, but "
            f"fewer than {FEWEST_SCORES}"
        )
    some = "at least " if study.terms.allow_differences else "all "
    yield f"Every sum is over {some}{study.fewest} clients. This client answers what this program"
    yield "asks, and nothing else. What sums reveal: docs/threat-model.md."


def describe_study(study: Study) -> Iterator[str]:
    """Describe a study for those who are to sign it: its file, and whom it trusts."""
    yield from describe_warnings(study)
    yield study_to_toml(study).rstrip()
    yield ""
    yield f"seal         {study.seal}"
    yield f"server       {study.server.fingerprint}"
    for keys in study.clients:
        yield f"{keys.name:12} {keys.fingerprint}"


def estimate_request(study: Study) -> int:
    """Return the bytes of the largest request of an honest client."""
    encoder = make_largest_encoder(study.schema, study.experiment.sensitive_at_prediction)
    groups, inputs = len(encoder.groups.names), len(encoder.feature_names)
    explained = explain(study.experiment, groups, len(study.clients), inputs)
    # A number takes two words where its bound is wide; histograms of columns have 64 bins.
    most = max((exchange.numbers for exchange in explained.exchanges), default=0)
    columns = 4 * 64 * len(study.schema.columns) + 2 * groups + inputs
    bins = 2 * POPULATION_BINS * groups * max(explained.settings, 1)
    shares = 200 * len(study.clients)
    return 2 * 8 * (2 * most + columns + bins) + shares


def estimate_response(study: Study) -> int:
    """Return the bytes of the largest response of an honest server: total, broadcast, evidence."""
    singles = len(study.clients) * estimate_request(study) if study.terms.single else 0
    scores = len(study.clients) * estimate_request(study) if study.terms.achievable else 0
    return 3 * estimate_request(study) + study.terms.verified_bytes + singles + scores


def describe_warnings(study: Study) -> Iterator[str]:
    """Yield what a client should know first, in capitals."""
    if study.trial:
        yield "A TRIAL: THE SERVER HAS MADE THE KEYS OF ALL CLIENTS, AND CAN READ ALL THEY SEND."
    if study.terms.allow_differences:
        yield (
            "SUMS MAY BE OVER DIFFERENT CLIENTS: THE DIFFERENCE OF TWO SUMS CAN SHOW COUNTS AND "
            "OTHER VALUES OF A SINGLE CLIENT."
        )
    if study.terms.single:
        yield "THE SERVER AND ALL CLIENTS SEE SINGLE VALUES OF THIS CLIENT WHERE MARKED BELOW."


def _describe_columns(study: Study) -> Iterator[str]:
    schema = study.schema
    yield "rows by label and group"
    if numeric(schema):
        yield f"numbers, sums and spreads of {len(numeric(schema))} columns"
    ranked = [*numeric(schema, "robust"), *numeric(schema, "clip")]
    if ranked:
        yield f"histograms of {', '.join(ranked)}, 64 bins, twice"
    if schema.steps:
        yield f"histograms of {len(numeric(schema))} columns, 64 bins, for steps at 12 quantiles"
    if listed_categories(schema):
        yield f"how often each of {len(listed_categories(schema))} categories occurs"
