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


def make_notion(name: str, groups: int, symmetric: bool = False, minimum: int = 1) -> Notion:
    """Return the notion of that name for a number of groups.

    Args:
        name: short or long.
        groups: how many groups the data have.
        symmetric: whether groups are compared with their mean, not with the first of them.
        minimum: the least number of training rows of a group (or client) that is compared.

    >>> make_notion("dp", groups=3).name
    'demographic_parity'
    """
    # Imported where they are used: a run needs one of them.
    match long_name(name):
        case "demographic_parity":
            from fedfb.notions.demographic_parity import DemographicParity

            return DemographicParity(groups, symmetric, minimum=minimum)
        case "equal_opportunity":
            from fedfb.notions.equal_opportunity import EqualOpportunity

            return EqualOpportunity(groups, symmetric, minimum=minimum)
        case "equalized_odds":
            from fedfb.notions.equalized_odds import EqualizedOdds

            return EqualizedOdds(groups, symmetric, minimum=minimum)
        case _:
            from fedfb.notions.client_parity import ClientParity

            return ClientParity(symmetric, minimum=minimum)


def symmetric(notion: Notion) -> Notion:
    """Return the notion that compares its groups with their mean, not with the first of them."""
    form: Any = notion  # a protocol does not say that its classes are dataclasses
    found: Notion = replace(form, symmetric=True)
    return found
