"""Notions by their names, short and long."""

from dataclasses import replace
from typing import Any

from fedfb.errors import ConfigError, unknown_name
from fedfb.notions.base import Notion

SHORT_NAMES = {
    "dp": "demographic_parity",
    "eo": "equal_opportunity",
    "eod": "equalized_odds",
    "cp": "client_parity",
}


def long_name(name: str) -> str:
    """Return the long name of a notion given either name.

    >>> long_name("eo"), long_name("client_parity")
    ('equal_opportunity', 'client_parity')
    """
    full = SHORT_NAMES.get(name, name.replace("-", "_"))
    if full not in SHORT_NAMES.values():
        raise ConfigError(unknown_name("notion", name, [*SHORT_NAMES, *SHORT_NAMES.values()]))
    return full


def labels_of(name: str) -> tuple[int, ...]:
    """Return the labels among whose rows a notion compares rates; empty: among all rows.

    >>> labels_of("eo"), labels_of("dp")
    ((1,), ())
    """
    return {"equal_opportunity": (1,), "equalized_odds": (0, 1)}.get(long_name(name), ())


def make_notion(name: str, groups: int, symmetric: bool = False, minimum: int = 1) -> Notion:
    """Return the notion of that name for a number of groups.

    Args:
        name: the short or the long name.
        groups: number of groups in the data.
        symmetric: whether groups are compared with their mean, not with the first group.
        minimum: the smallest number of training rows with which a group (or client) is compared.

    >>> make_notion("dp", groups=3).name
    'demographic_parity'
    """
    # Imported at use: a run needs one notion.
    match long_name(name):
        case "demographic_parity":
            from fedfb.notions.demographic_parity import DemographicParity

            return DemographicParity(groups, symmetric, minimum=minimum)
        case "equal_opportunity":
            from fedfb.notions.equalized_odds import EqualOpportunity

            return EqualOpportunity(groups, symmetric, minimum=minimum)
        case "equalized_odds":
            from fedfb.notions.equalized_odds import EqualizedOdds

            return EqualizedOdds(groups, symmetric, minimum=minimum)
        case _:
            from fedfb.notions.client_parity import ClientParity

            return ClientParity(symmetric, minimum=minimum)


def symmetric(notion: Notion) -> Notion:
    """Return the notion in the form that compares groups with their mean, not with the first."""
    form: Any = notion  # the protocol does not say that notions are dataclasses
    centred: Notion = replace(form, symmetric=True)
    return centred
