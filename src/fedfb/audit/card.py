"""The model card: what a model is for, on what and how it was made, how fair, with which limits."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from fedfb.audit import text as words
from fedfb.experiments.run_folder import DEPENDENCIES
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.figures import shown_name
from fedfb.report.folder import Run
from fedfb.report.ledger import exchanges_sentence as exchange_sentence
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.sections import explained_run
from fedfb.report.text import NAMES

Record = Mapping[str, Any]

Card = dict[str, list[str]]
"""Sentences by title."""

NOT_STATED = (
    "Not stated. Whoever answers for the model should say here what it decides, about whom, and "
    "what it must not be used for (--intended-use)."
)
LIMITS = (
    "Parity of groups says nothing about any single person, and parity on one notion usually "
    "breaks another.",
    "Labels are taken as they are: if they are biased, so is whatever depends on them (all but "
    "selection rates).",
    "Figures hold for these groups and for people like those in these rows, not for groups within "
    "them, nor for another place or time.",
    "A model may tell of the rows it was trained on; an audit does not measure that.",
)


def make_card(record: Record, run: Run | None, intended_use: str | None) -> Card:
    """Return the card of what was audited; of a scores file the method is not known."""
    method = list(_method(run)) if run else ["Not known: decisions were read from a file."]
    first = first_sentences([run.result]) if run else []
    return {
        "Intended use": [intended_use or NOT_STATED],
        "Data": [*_data(record), *(_training_data(run) if run else ())],
        "Method": method,
        "Fairness": [*first, words.headline(record), *_fairness(record)],
        "What was exchanged": [*(_training_exchange(run) if run else ()), _exchange(record)],
        "Limits": [*_limits(record), *LIMITS],
        "Versions": [f"{name} {value}" for name, value in _versions(run).items()],
        "Hashes (SHA-256)": [f"{name} {value}" for name, value in record["hashes"].items()],
    }


def _data(record: Record) -> Iterator[str]:
    rows = words.count(record["overall"]["n"], "no")
    yield (
        f"Audited on {record['rows']} ({record['data']}): {rows} rows in groups that are shown, in "
        f"{len(record['silo_names'])} silo{'s' if len(record['silo_names']) != 1 else ''}."
    )
    yield f"Favourable label: {record['label']} = {record['positive']}."
    names = [group["name"] for group in record["groups"]]
    yield f"Groups by {', '.join(record['attributes'])}: {', '.join(names)}."


def _training_data(run: Run) -> Iterator[str]:
    named = run.result.runs[0].clients or run.result.silos or ()
    yield f"Trained on {run.result.data}, by {len(named) or 'several'} clients."
    given = "is" if run.result.group_is_given else "is not"
    yield f"The group {given} given to the model."
    yield from (f"{note[0].upper()}{note[1:]}." for note in other_notes(run.result))


def _method(run: Run) -> Iterator[str]:
    explained = explained_run(run)
    size = f" of {explained.parameters} parameters" if explained else ""
    seeds = ", ".join(map(str, run.result.seeds))
    yield (
        f"{shown_name(run.result.algorithm)}, a {run.result.model} model{size}, trained for "
        f"{NAMES[run.result.notion]}; seeds {seeds}."
    )
    yield f"Experiment {run.result.experiment_hash} (hash of all settings)."


def _fairness(record: Record) -> Iterator[str]:
    for notion, found in record["notions"].items():
        yield f"{NAMES[notion]}: {words.with_ends(found, 'not estimable')}."
    yield words.four_fifths_sentence(record)
    if record["overall"]["accuracy"]:
        yield f"Accuracy: {words.with_ends(record['overall']['accuracy'])}."
    yield "In brackets: 95% intervals."


def _training_exchange(run: Run) -> Iterator[str]:
    explained = explained_run(run)
    if explained is not None:
        yield f"In training: {exchange_sentence(explained)}"
    if run.accounts:
        yield f"By the run's ledger: {ledger_sentence(run.accounts)}"


def _exchange(record: Record) -> str:
    numbers = record["numbers_sent"]
    seen = (
        "masked, so that only their sum is known"
        if record["secure"]
        else "unmasked, so that each silo's tables are known to whoever audits"
    )
    return (
        f"For the audit every silo sent {numbers} numbers once, tables of counts, {seen}; no row."
    )


def _limits(record: Record) -> Iterator[str]:
    yield from words.hidden_sentences(record)
    yield from (f"{note[0].upper()}{note[1:]}." for note in record["notes"])
    if record["mix"] == "given":
        yield (
            "Intervals take as given how many rows each group has; if that was drawn too, they "
            "are too short at large gaps (--mix drawn)."
        )


def _versions(run: Run | None) -> dict[str, str]:
    audited_with = {name: version(name) for name in ("fedfb", *DEPENDENCIES)}
    found = {**audited_with, "python": platform.python_version()}
    trained = dict(run.versions) if run else {}
    differing = {f"{k} (training)": v for k, v in trained.items() if found.get(k) != v}
    return {**found, **differing}


def as_markdown(title: str, card: Mapping[str, Sequence[str]]) -> str:
    r"""Write a card as Markdown; whatever users have named is shown as it is, never as markup.

    >>> print(as_markdown("mine", {"Data": ["rows_of <b> *x*"]}).strip())
    # Model card: mine
    <BLANKLINE>
    ## Data
    <BLANKLINE>
    - rows\_of \<b\> \*x\*
    """
    parts = [f"# Model card: {_plain(title)}"]
    for heading, lines in card.items():
        parts.append(f"## {heading}")
        parts.append("\n".join(f"- {_plain(line)}" for line in lines))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    for mark in "\\`*_<>#[]|":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
