"""An audit: from silos' rows to one record of plain values, through tables of counts alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedfb.audit.baseline import comparison
from fedfb.audit.calibration import calibration
from fedfb.audit.measures import (
    ALL,
    SHOWN,
    Record,
    by_attribute,
    chance,
    chance_of_losses,
    contributions,
    estimate_record,
    everyone,
    four_fifths,
    group_records,
    notions,
    rates,
)
from fedfb.audit.rows import Subject, check_subject
from fedfb.audit.suppress import Published, SiloShown, publish, publish_silos
from fedfb.audit.tables import Tables, read_tables, silo_answers, summed
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError
from fedfb.notions.disparity import client_parity
from fedfb.notions.intervals import mean_variance
from fedfb.notions.values import MINIMUM_ROWS, enough
from fedfb.shapes import Array, Float

UNKNOWN_UNDER_MASKS = (
    "under --secure only the sum of the silos' tables is known: no silo's own figures, no client "
    "parity, and no leaving out of silos. These need each silo's consent to send its table: leave "
    "out --secure"
)
NO_SCORES = "there are decisions but no scores: no calibration and no client parity (loss)"
ONE_SILO = "there is one silo: no client parity, and no silo to leave out"


def audit(
    subject: Subject,
    minimum: int = MINIMUM_ROWS,
    *,
    secure: bool = False,
    drawn_mix: bool = True,
    add: AddUp = add_in_clear,
) -> Record:
    """Audit decisions on rows that stay with their owners.

    Every silo answers with tables of counts; ``add`` sums them up. With ``secure`` nothing but the
    sum is looked at. Counts of fewer rows than ``minimum`` are hidden everywhere. Without
    ``drawn_mix`` intervals take as given how many rows each group has.

    >>> from fedfb.audit.rows import SiloRows
    >>> y, group = np.tile([0, 1], 40), np.repeat([0, 1], 40)
    >>> rows = SiloRows(y, group, np.where(group == 0, 1.0, y))
    >>> record = audit(Subject({"north": rows}, ("F", "M"), ("sex",), {}))
    >>> record["notions"]["demographic_parity"]["value"], record["four_fifths"]["value"]
    (0.25, 0.5)
    """
    favourable = any(bool(rows.y.any()) for rows in subject.silos.values())
    check_subject(subject.groups, favourable, subject.about)
    _refuse_no_minimum(minimum)
    answers = silo_answers(subject)
    total, names = summed(answers, add), subject.groups
    record = audit_of_sum(
        total, names, subject.attributes, subject.about, list(subject.silos), minimum,
        secure=secure, drawn_mix=drawn_mix,
    )  # fmt: skip
    if secure:
        return record
    shown = publish(total, minimum)
    tables = {name: read_tables(answer) for name, answer in answers.items()}
    own = publish_silos(list(tables.values()), shown, minimum)
    by_silo = dict(zip(tables, own, strict=True))
    silos = silo_records(by_silo, tables, shown, names, minimum, drawn_mix)
    parity, chance_of_parity = losses_compared(silos)
    # A silo's rows, accuracy and loss count the groups that are shown by label.
    every_row = bool((shown.split | shown.none).all())
    parity["compares"] = ALL if every_row and not parity["left_out"] else SHOWN
    for silo in silos:
        silo["compares"] = ALL if every_row else SHOWN
        silo.pop("losses")
    if len(by_silo) > 1:
        groups = {name: silo.groups for name, silo in by_silo.items()}
        record["contributions"] = contributions(shown, groups, minimum)
    return {
        **record,
        "silos": silos,
        "notions": {**record["notions"], "client_parity": parity},
        "chance": {**record["chance"], "client_parity": chance_of_parity},
    }


def audit_of_sum(
    total: Tables,
    names: Sequence[str],
    attributes: Sequence[str],
    about: Mapping[str, Any],
    silos: Sequence[str],
    minimum: int = MINIMUM_ROWS,
    *,
    secure: bool = True,
    drawn_mix: bool = True,
) -> Record:
    """Return what the sum of all silos' tables tells: an audit without any silo's own figures."""
    check_subject(names, bool(total.confusion[1].any()), about)
    _refuse_no_minimum(minimum)
    shown = publish(total, minimum)
    found = notions(shown, names, minimum, drawn_mix)
    return {
        **about,
        "minimum": minimum,
        "secure": secure,
        "mix": "drawn" if drawn_mix else "given",
        "attributes": list(attributes),
        "silo_names": list(silos),
        "numbers_sent": sum(part.size for part in total if part is not None),
        "overall": everyone(shown),
        "groups": group_records(shown, names),
        "four_fifths": four_fifths(shown),
        "by_attribute": by_attribute(shown, names, attributes, minimum, drawn_mix),
        "calibration": calibration(total, shown, names, minimum),
        "hidden": hidden_groups(shown, names),
        "comparison": None
        if total.joint is None
        else comparison(total.joint, shown, names, minimum),
        "silos": None,
        "contributions": None,
        "notes": _notes(total.bins is not None, len(silos), secure),
        "notions": found,
        "chance": chance(shown, found, minimum),
    }


def _refuse_no_minimum(minimum: int) -> None:
    if minimum < 1:
        raise ConfigError(f"the least number of rows is {minimum}, expected at least 1.")


def _notes(has_scores: bool, silos: int, secure: bool) -> list[str]:
    notes = [UNKNOWN_UNDER_MASKS] * secure
    return notes + [NO_SCORES] * (not has_scores) + [ONE_SILO] * (silos == 1)


def hidden_groups(shown: Published, names: Sequence[str]) -> Record:
    """Name the groups that are hidden, as a whole or by label."""
    return {
        "groups": [names[g] for g in np.flatnonzero(~shown.whole).tolist()],
        "by_label": [names[g] for g in np.flatnonzero(shown.whole & ~shown.split).tolist()],
    }


def silo_records(
    silos: Mapping[str, SiloShown],
    tables: Mapping[str, Tables],
    everywhere: Published,
    names: Sequence[str],
    minimum: int,
    drawn_mix: bool,
) -> list[Record]:
    """Describe every silo by what is shown of it."""
    found = []
    for name, (shown, total) in silos.items():
        losses = loss_sums(tables[name], total, everywhere)
        hidden = shown._replace(whole=shown.whole | shown.none, split=shown.split | shown.none)
        found.append(
            {
                **rates(name, total, np.array([0])),
                "groups": group_records(shown, names),
                "notions": notions(
                    shown, names, minimum, drawn_mix, hidden=~(shown.whole | shown.none)
                ),
                "four_fifths": four_fifths(shown),
                "hidden": hidden_groups(hidden, names),
                "losses": losses,
                "loss": mean_loss(losses),
            }
        )
    return found


def loss_sums(table: Tables, total: Published, everywhere: Published) -> Float[Array, " 3"] | None:
    """Return rows, losses and squared losses of a silo; None without scores, or if it is hidden."""
    if table.losses is None or not total.whole[0]:
        return None
    return np.array([total.rows[0], *table.losses[:, everywhere.split].sum(axis=1)])


def mean_loss(sums: Float[Array, " 3"] | None) -> float | None:
    """Return a silo's mean loss."""
    return None if sums is None or sums[0] < 1 else float(sums[1] / sums[0])


def losses_compared(silos: Sequence[Record]) -> tuple[Record, Record | None]:
    """Return client parity, the range of the silos' mean losses, and what chance would show."""
    # Of one row a loss has no variance.
    known = [s for s in silos if s["losses"] is not None and enough(s["losses"][:1], 2).all()]
    names = [silo["name"] for silo in known]
    left_out = [silo["name"] for silo in silos if silo["name"] not in names]
    nothing = {"value": None, "interval": None, "left_out": left_out, "gaps": []}
    if len(known) < 2:
        return nothing, None
    sums = np.stack([silo["losses"] for silo in known], axis=1)
    [estimate] = client_parity(sums[None], 2)
    if estimate.value is None:
        return nothing, None
    gaps = [
        {"silo": silo["name"], "gap": gap} for silo, gap in zip(known, estimate.gaps, strict=True)
    ]
    expected = chance_of_losses(sums[0], mean_variance(*sums), estimate.value)
    return {**estimate_record(estimate, left_out), "gaps": gaps}, expected
