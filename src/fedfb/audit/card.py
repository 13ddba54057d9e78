"""The model card: what a model is for, on what and how it was made, how fair, with which limits."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

from fedfb.audit import text as words
from fedfb.audit.result import Audit, Card
from fedfb.experiments.run_folder import DEPENDENCIES
from fedfb.experiments.shortfalls import first_sentences, other_notes
from fedfb.report.folder import ReportedRun
from fedfb.report.ledger import exchanges_sentence as exchange_sentence
from fedfb.report.ledger import sentence as ledger_sentence
from fedfb.report.numbers import NAMES, shown_name
from fedfb.report.sections import explained_run

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


def make_card(audit: Audit, run: ReportedRun | None, intended_use: str | None) -> Card:
    """Return the model card of an audit.

    Args:
        audit: the audit.
        run: the run that trained the model; None for a scores file, whose method is not known.
        intended_use: what the model is for; None: not stated.

    """
    method = list(_describe_method(run)) if run else ["Not known: decisions were read from a file."]
    first = first_sentences([run.result]) if run else []
    return {
        "Intended use": [intended_use or NOT_STATED],
        "Data": [*_describe_data(audit), *(_describe_training_data(run) if run else ())],
        "Method": method,
        "Fairness": [*first, words.headline(audit), *_describe_fairness(audit)],
        "What was exchanged": [
            *(_describe_training_exchange(run) if run else ()),
            _describe_exchange(audit),
        ],
        "Limits": [*_describe_limits(audit), *LIMITS],
        "Versions": [f"{name} {value}" for name, value in _list_versions(run).items()],
        "Hashes (SHA-256)": [f"{name} {value}" for name, value in audit.hashes.items()],
    }


def _describe_data(audit: Audit) -> Iterator[str]:
    rows = words.count(audit.overall.n, "no")
    yield (
        f"Audited on {audit.rows} ({audit.data}): {rows} rows in groups that are shown, at "
        f"{len(audit.client_names)} client{'s' if len(audit.client_names) != 1 else ''}."
    )
    yield f"Favourable label: {audit.label} = {audit.positive}."
    names = [group.name for group in audit.groups]
    yield f"Groups by {', '.join(audit.attributes)}: {', '.join(names)}."


def _describe_training_data(run: ReportedRun) -> Iterator[str]:
    clients = run.result.runs[0].clients or run.result.client_names or ()
    yield f"Trained on {run.result.data}, by {len(clients) or 'several'} clients."
    verb = "is" if run.result.group_is_given else "is not"
    yield f"The group {verb} given to the model."
    yield from (f"{note[0].upper()}{note[1:]}." for note in other_notes(run.result))


def _describe_method(run: ReportedRun) -> Iterator[str]:
    explained = explained_run(run)
    size = f" of {explained.parameters} parameters" if explained else ""
    seeds = ", ".join(map(str, run.result.seeds))
    yield (
        f"{shown_name(run.result.algorithm)}, a {run.result.model} model{size}, trained for "
        f"{NAMES[run.result.notion]}; seeds {seeds}."
    )
    yield f"Experiment {run.result.experiment_hash} (hash of all settings)."


def _describe_fairness(audit: Audit) -> Iterator[str]:
    for notion, disparity in audit.notions.by_name.items():
        yield f"{NAMES[notion]}: {words.with_ends(disparity, 'not estimable')}."
    yield words.four_fifths_sentence(audit)
    if audit.overall.accuracy:
        yield f"Accuracy: {words.with_ends(audit.overall.accuracy)}."
    yield "In brackets: 95% intervals."


def _describe_training_exchange(run: ReportedRun) -> Iterator[str]:
    explained = explained_run(run)
    if explained is not None:
        yield f"In training: {exchange_sentence(explained)}"
    if run.accounts:
        yield f"By the run's ledger: {ledger_sentence(run.accounts)}"


def _describe_exchange(audit: Audit) -> str:
    numbers = audit.numbers_sent
    visibility = (
        "masked, so that only their sum is known"
        if audit.secure
        else "unmasked, so that the auditor knows the tables of each client"
    )
    return (
        f"For the audit every client sent {numbers} numbers once, tables of counts, {visibility}; "
        "no row."
    )


def _describe_limits(audit: Audit) -> Iterator[str]:
    yield from words.hidden_sentences(audit)
    yield from (f"{note[0].upper()}{note[1:]}." for note in audit.notes)
    if audit.mix == "given":
        yield (
            "Intervals take as given how many rows each group has; if that was drawn too, they "
            "are too short at large gaps (--mix drawn)."
        )


def _list_versions(run: ReportedRun | None) -> dict[str, str]:
    audited_with = {name: version(name) for name in ("fedfb", *DEPENDENCIES)}
    versions = {**audited_with, "python": platform.python_version()}
    in_training = dict(run.versions) if run else {}
    differing = {f"{k} (training)": v for k, v in in_training.items() if versions.get(k) != v}
    return {**versions, **differing}


def card_as_markdown(title: str, card: Mapping[str, Sequence[str]]) -> str:
    r"""Write a card as Markdown. Names that users chose are escaped, so they are never markup.

    >>> print(card_as_markdown("mine", {"Data": ["rows_of <b> *x*"]}).strip())
    # Model card: mine
    <BLANKLINE>
    ## Data
    <BLANKLINE>
    - rows\_of \<b\> \*x\*
    """
    parts = [f"# Model card: {_escape(title)}"]
    for heading, lines in card.items():
        parts.append(f"## {heading}")
        parts.append("\n".join(f"- {_escape(line)}" for line in lines))
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    for mark in "\\`*_<>#[]|":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
