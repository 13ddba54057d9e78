r"""Rates of crossed groups that borrow from their parents, the values of each single attribute.

A group such as "sex=F, race=Black" may have few rows, and its rate :math:`r_a` of :math:`n_a` rows
is then mostly chance. Its parents, all rows with sex=F and all rows with race=Black, have more.
From their rates :math:`m_1, m_2, \dots` and the rate :math:`m` of all rows follows what the group
would have if attributes added up:

.. math:: p_a=m+\sum_j(m_j-m),\qquad
          \tilde r_a=p_a+B_a(r_a-p_a),\quad B_a=\frac{\tau^2}{\tau^2+p_a(1-p_a)/n_a}

:math:`\tau^2` is how far true rates lie from :math:`p_a`, estimated from all groups together
(DerSimonian, Laird 1986). It is empirical Bayes: the mean error over groups falls, and the rate of
a group that is truly unlike its parents is pulled too far. So it stands beside the rates, never in
their place.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from fedfb.audit.result import Audit, Rates, Shrinkage, ShrunkGroup, ShrunkRate
from fedfb.data.groups import values_of
from fedfb.errors import ConfigError
from fedfb.report.numbers import NAMES, number
from fedfb.report.table import Table
from fedfb.shapes import Array, Float

SHRUNK = {"selection_rate": "selected", "tpr": "TPR", "fpr": "FPR"}
"""The rates that notions compare, and their headings."""

COMPARED = {
    "demographic_parity": ("selection_rate",),
    "equal_opportunity": ("tpr",),
    "equalized_odds": ("tpr", "fpr"),
}
"""The rates of each notion."""

NOTE = (
    "Each cell: the group's rate, its parents', and the rate shrunk towards them. Few rows are "
    "shrunk most. A group that is truly unlike its parents is shrunk too far."
)


def add_shrinkage(audit: Audit) -> Audit:
    """Return an audit with shrunken rates beside the rates of crossed groups.

    Only published rates are used, so nothing hidden is revealed.

    Raises:
        ConfigError: one attribute alone forms the groups, so they have no parents.
    """
    if len(audit.attributes) < 2:
        raise ConfigError(
            "--shrink borrows from the parents of crossed groups, and one attribute alone forms "
            f"these groups ({', '.join(audit.attributes)}). Name several sensitive columns, or "
            "leave --shrink out."
        )
    by_measure = {measure: shrink_rates(audit, measure) for measure in SHRUNK}
    groups = tuple(
        ShrunkGroup(
            name=group.name, **{measure: of.get(group.name) for measure, of in by_measure.items()}
        )
        for group in audit.groups
    )
    notions = {
        notion: _largest_gap(audit, [(measure, by_measure[measure]) for measure in measures])
        for notion, measures in COMPARED.items()
    }
    return structs.replace(audit, shrinkage=Shrinkage(groups=groups, notions=notions))


def shrink_rates(audit: Audit, measure: str) -> dict[str, ShrunkRate]:
    """Return the shrunken rates of the groups whose rate and parents are published.

    Args:
        audit: rates by group and by value of each attribute.
        measure: a name in ``SHRUNK``.
    """
    everyone = audit.overall.rate(measure)
    parents = [
        {group.name: group.rate(measure) for group in part.groups} for part in audit.by_attribute
    ]
    if everyone is None:
        return {}
    names, rates, rows, priors = [], [], [], []
    for group in audit.groups:
        rate, values = group.rate(measure), values_of(audit.attributes, group.name)
        if rate is None or values is None:
            continue
        of_parents = [by_value.get(value) for by_value, value in zip(parents, values, strict=True)]
        known = [one.value for one in of_parents if one is not None]
        if len(known) < len(of_parents):
            continue
        names.append(group.name)
        rates.append(rate.value)
        rows.append(_rows_of(group, measure))
        priors.append(everyone.value + sum(value - everyone.value for value in known))
    if not names:
        return {}
    prior = np.clip(np.array(priors), 0.0, 1.0)
    shrunk, share = shrink(np.array(rates), np.array(rows, float), prior, _parameters(audit))
    columns = zip(rates, prior.tolist(), shrunk.tolist(), share.tolist(), strict=True)
    return {
        name: ShrunkRate(rate=rate, parents=parent, value=value, share=own)
        for name, (rate, parent, value, own) in zip(names, columns, strict=True)
    }


def shrink(
    rate: Float[Array, " a"], rows: Float[Array, " a"], prior: Float[Array, " a"], parameters: int
) -> tuple[Float[Array, " a"], Float[Array, " a"]]:
    """Return shrunken rates, and the share that each group's rows have in its rate.

    Args:
        rate: rate of each group.
        rows: its rows, at least 1.
        prior: what its parents say.
        parameters: how many rates the priors were made of.

    >>> rate, prior = np.array([0.9, 0.5]), np.array([0.5, 0.5])
    >>> shrunk, share = shrink(rate, np.array([10.0, 1000.0]), prior, 1)
    >>> bool(shrunk[0] < 0.9), bool(share[0] < share[1])
    (True, True)
    """
    # At a prior of 0 or 1 the variance is that of one row in two, not nought.
    p = np.clip(prior, 0.5 / (rows + 1), 1 - 0.5 / (rows + 1))
    variance = p * (1 - p) / rows
    weight = 1 / variance
    scale = weight.sum() - (weight**2).sum() / weight.sum()
    excess = float((weight * (rate - prior) ** 2).sum()) - (len(rate) - parameters)
    between = max(excess / scale, 0.0) if scale > 0 and len(rate) > parameters else 0.0
    share = between / (between + variance)
    return prior + share * (rate - prior), share


def _parameters(audit: Audit) -> int:
    """Return how many free rates the parents have: one, and one a value but the first of each."""
    return 1 + sum(len(part.groups) - 1 for part in audit.by_attribute)


def _rows_of(group: Rates, measure: str) -> int:
    if measure == "selection_rate":
        return max(group.n or 0, 1)
    return max((group.n_by_label or (0, 0))[measure == "tpr"], 1)


def _largest_gap(
    audit: Audit, measures: Sequence[tuple[str, Mapping[str, ShrunkRate]]]
) -> float | None:
    gaps = [
        abs(shrunk.value - everyone.value)
        for measure, by_group in measures
        for shrunk in by_group.values()
        if (everyone := audit.overall.rate(measure)) is not None
    ]
    return max(gaps, default=None)


def shrinkage_tables(audit: Audit) -> tuple[Table, ...]:
    """Return the shrunken rates and the disparities that they make; nothing if nobody asked."""
    if audit.shrinkage is None:
        return ()
    rows = tuple(
        (group.name, *(_write(getattr(group, measure)) for measure in SHRUNK))
        for group in audit.shrinkage.groups
    )
    disparities = tuple(
        (NAMES[notion], number(audit.notions.of_groups[notion].value), number(shrunk))
        for notion, shrunk in audit.shrinkage.notions.items()
    )
    return (
        Table("Rates shrunk towards parents", ("", *SHRUNK.values()), rows, NOTE),
        Table("Disparity with shrunken rates", ("", "as measured", "shrunk"), disparities),
    )


def _write(rate: ShrunkRate | None) -> str:
    if rate is None:
        return "-"
    return f"{number(rate.rate)}, {number(rate.parents)}: {number(rate.value)}"
