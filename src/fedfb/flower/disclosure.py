"""What a silo will send in a study, in words, before it joins."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fedfb.experiments.explain import explain
from fedfb.flower.bundle import Bundle
from fedfb.flower.schema import NUMBER


def what_is_sent(bundle: Bundle, data: Path, train: int, test: int) -> Iterator[str]:
    """Say what is read, what leaves, in which form and how often."""
    study, schema = bundle.study, bundle.study.schema
    experiment = study.experiment
    inputs = sum(1 if kind == NUMBER else len(kind) for kind in schema.columns.values())
    told = explain(
        replace(experiment, secure=False),
        len(schema.groups),
        len(study.silos),
        inputs + len(schema.groups) * experiment.sensitive_at_prediction,
    )
    yield f"Study {study.name!r}, coordinator {study.address}, silos {', '.join(study.silos)}."
    yield f"You are {bundle.silo!r} with {data}: {train} rows to train on, {test} to test on."
    yield (
        f"{experiment.algorithm} ({experiment.notion}), {experiment.rounds} rounds, groups "
        f"{', '.join(schema.groups)}."
    )
    yield "No row leaves this machine. What is sent, and what the coordinator sees of it:"
    yield f"  once: numbers, sums and spreads of {len(schema.numeric)} columns; sums over all silos"
    for one in told.exchanges:
        seen = "sums over all silos" if one.reduce == "sum" else "YOUR OWN VALUE"
        parts = ", ".join(f"{sent.name} ({sent.numbers})" for sent in one.sent)
        yield f"  {one.when}, {one.question}: {parts}; {seen}"
    yield "  every round, and once on test rows: decisions by label and group; sums over all silos"
    yield f"Sums are over at least {study.least} silos. What these tell: docs/threat-model.md."
