"""Privacy in sentences and rows, for the terminal, the page and the ledger."""

from collections.abc import Iterator, Sequence

import msgspec

from fedfb.experiments.result import Privacy
from fedfb.report.text import make_console, make_table
from fedfb.runtime.ledger import Account

MOST_SILOS = 20
"""At most so many clients are printed, those that spend most; JSON has all."""

COLUMNS = ("epsilon", "rows", "steps", "chance", "step noise", "answers", "answer noise")
"""Columns of a client. ``chance`` is that of a row to be in a step, noises are multipliers."""


def epsilon_in_words(epsilon: float | None) -> str:
    """Write an epsilon; none is infinite.

    >>> epsilon_in_words(3.0), epsilon_in_words(0.5), epsilon_in_words(None)
    ('3', '0.5', 'inf')
    """
    return "inf" if epsilon is None else f"{epsilon:g}"


def summary(privacy: Privacy) -> str:
    """Say in one sentence what is hidden, and how well."""
    hidden = "every row" if privacy.level == "record" else "every silo"
    many = len(privacy.silos)
    return (
        f"{hidden} is hidden with epsilon {privacy.most:.3f}, delta {privacy.delta:g} at most, "
        f"in each of {many} silo{'s' if many > 1 else ''}"
    )


def silo_rows(privacy: Privacy) -> Iterator[tuple[str, ...]]:
    """Yield what every client spends, and on what; those that spend most come first."""
    for silo in sorted(privacy.silos, key=lambda silo: -silo.epsilon)[:MOST_SILOS]:
        yield (
            silo.client,
            f"{silo.epsilon:.3f}",
            f"{silo.rows:,}",
            f"{silo.steps:,}",
            f"{silo.sampling:.4f}",
            f"{silo.training_noise:.3f}",
            f"{silo.answers}",
            f"{silo.answering_noise:.1f}",
        )


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
    console.print(f"\nprivacy: {summary(privacy)}")
    table = make_table("", "", *COLUMNS)
    for row in silo_rows(privacy):
        table.add_row(*row)
    console.print(table)
    if len(privacy.silos) > MOST_SILOS:
        console.print(f"... and {len(privacy.silos) - MOST_SILOS:,} more: --json has them all")
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
