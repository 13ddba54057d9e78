"""Privacy in sentences and rows, for the terminal, the page and the ledger."""

from collections.abc import Iterator, Sequence

import msgspec

from fedfb.experiments.seed_result import ClientPrivacy, Privacy
from fedfb.report.many import MOST_CLIENTS, ManyValues, note_on_many, summarise, write_count
from fedfb.report.table import Table, make_console, print_table
from fedfb.runtime.ledger import Account

PRIVACY_COLUMNS = ("epsilon", "rows", "steps", "chance", "step noise", "answers", "answer noise")
"""Columns of a client. ``chance`` is that of a row to be in a step, noises are multipliers."""


def epsilon_in_words(epsilon: float | None) -> str:
    """Write an epsilon; none is infinite.

    >>> epsilon_in_words(3.0), epsilon_in_words(0.5), epsilon_in_words(None)
    ('3', '0.5', 'inf')
    """
    return "inf" if epsilon is None else f"{epsilon:g}"


def privacy_sentence(privacy: Privacy) -> str:
    """Say in one sentence what is hidden, and how well."""
    hidden = "every row" if privacy.level == "record" else "every client"
    many = len(privacy.clients)
    return (
        f"{hidden} is hidden with epsilon {privacy.most:.3f}, delta {privacy.delta:g} at most, "
        f"in each of {many} client{'s' if many > 1 else ''}"
    )


def client_rows(privacy: Privacy) -> Iterator[tuple[str, ...]]:
    """Yield what every client spends, and on what; those that spend most come first."""
    if len(privacy.clients) > MOST_CLIENTS:
        yield from _summarise_clients(privacy.clients)
        return
    for spent in sorted(privacy.clients, key=lambda spent: -spent.epsilon):
        yield (
            spent.client,
            f"{spent.epsilon:.3f}",
            f"{spent.rows:,}",
            f"{spent.steps:,}",
            f"{spent.sampling:.4f}",
            f"{spent.training_noise:.3f}",
            f"{spent.answers}",
            f"{spent.answering_noise:.1f}",
        )


def _summarise_clients(clients: Sequence[ClientPrivacy]) -> tuple[tuple[str, ...], ...]:
    epsilon = [spent.epsilon for spent in clients]
    columns = [
        ManyValues(epsilon, lambda value: f"{value or 0:.3f}"),
        ManyValues([spent.rows for spent in clients], write_count),
        ManyValues([spent.steps for spent in clients], write_count),
        ManyValues([spent.sampling for spent in clients], lambda value: f"{value or 0:.4f}"),
        ManyValues([spent.training_noise for spent in clients], lambda value: f"{value or 0:.3f}"),
        ManyValues([spent.answers for spent in clients], write_count),
        ManyValues([spent.answering_noise for spent in clients], lambda value: f"{value or 0:.1f}"),
    ]
    return summarise([spent.client for spent in clients], columns, epsilon)


def sentences(privacy: Privacy) -> list[str]:
    """Say what is covered, what is not, and who must be trusted."""
    return [
        f"Covered: {'; '.join(privacy.covered)}.",
        f"Not covered: {'; '.join(privacy.not_covered)}.",
        f"Trust: {'; '.join(privacy.trust)}.",
    ]


def print_privacy(privacy: Privacy) -> None:
    """Print every client's epsilon, what it covers and what it does not cover."""
    console = make_console()
    console.print(f"\nprivacy: {privacy_sentence(privacy)}")
    print_table(Table("", ("", *PRIVACY_COLUMNS), tuple(client_rows(privacy))), console)
    if len(privacy.clients) > MOST_CLIENTS:
        console.print(note_on_many(len(privacy.clients), "epsilon"), style="dim")
    for sentence in sentences(privacy):
        console.print(sentence, style="dim")


def of_accounts(accounts: Sequence[Account]) -> Privacy | None:
    """Return the privacy of a ledger: that of the seed whose clients spent the most."""
    reports = [
        msgspec.convert(account.privacy, Privacy)
        for account in accounts
        if account.privacy is not None
    ]
    return max(reports, key=lambda privacy: privacy.most) if reports else None
