"""An audit as typed values, with the one codec that reads and writes its JSON.

A value is None where it is hidden or not estimable.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from fedfb.errors import DataError
from fedfb.experiments.codec import say_client
from fedfb.experiments.seed_result import Interval
from fedfb.extras import make_frame
from fedfb.files import interpreting, read_json
from fedfb.notions.values import Chance

if TYPE_CHECKING:
    from pandas import DataFrame

_SCHEMA = 2
"""Version of the JSON that ``encode_audit`` writes. Raise it when a field changes."""

Compares = Literal["all", "shown"]
"""Groups that a disparity compares: all that are large enough, or the published ones of them."""

Card = dict[str, list[str]]
"""Sentences of a model card by title."""

AUDITED_NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds")
RATES = ("selection_rate", "base_rate", "tpr", "fpr", "accuracy")


class Measure(Struct, frozen=True):
    """A rate, ratio or difference with its interval."""

    value: float
    interval: Interval


class GroupGap(Struct, frozen=True):
    """A group's rate less that of all; ``label`` is None where rows of both labels are compared."""

    group: str
    label: int | None
    gap: float
    interval: Interval


class Disparity(Struct, frozen=True):
    """How far groups are from a notion.

    ``left_out`` names the groups with too few rows. ``between_groups`` is the largest rate less the
    least, over blocks the larger one: what fairlearn calls a difference.
    """

    value: float | None
    interval: Interval | None
    left_out: tuple[str, ...]
    between_groups: float | None
    gaps: tuple[GroupGap, ...]
    compares: Compares


class ClientGap(Struct, frozen=True):
    """A client's mean loss less that of all clients."""

    client: str
    gap: float | None


class AuditedClientParity(Struct, frozen=True):
    """The range of the clients' mean losses; ``left_out`` names clients without enough rows."""

    value: float | None
    interval: Interval | None
    left_out: tuple[str, ...]
    gaps: tuple[ClientGap, ...]
    compares: Compares


AuditFigure = Measure | Disparity | AuditedClientParity


class Notions(Struct, frozen=True, omit_defaults=True):
    """The disparities of one table; client parity needs every client's table."""

    demographic_parity: Disparity
    equal_opportunity: Disparity
    equalized_odds: Disparity
    client_parity: AuditedClientParity | None = None

    @property
    def of_groups(self) -> dict[str, Disparity]:
        """Disparities of groups, by notion."""
        return {notion: getattr(self, notion) for notion in AUDITED_NOTIONS}

    @property
    def by_name(self) -> dict[str, Disparity | AuditedClientParity]:
        """All disparities that were measured, by notion."""
        measured: dict[str, Disparity | AuditedClientParity] = {**self.of_groups}
        return measured | ({"client_parity": self.client_parity} if self.client_parity else {})


class Rates(Struct, frozen=True, kw_only=True):
    """Rows and rates of some people; ``n_by_label`` are the rows of all rates but the first."""

    name: str
    n: int | None
    n_by_label: tuple[int, int] | None
    selection_rate: Measure | None
    base_rate: Measure | None
    tpr: Measure | None
    fpr: Measure | None
    accuracy: Measure | None

    def rate(self, name: str) -> Measure | None:
        """Return the rate with one of the names in ``RATES``."""
        rate: Measure | None = getattr(self, name)
        return rate


class AuditedGroup(Rates, frozen=True, kw_only=True, omit_defaults=True):
    """Rates of a group; ``none`` says that it has no rows."""

    none: bool = False


class Hidden(Struct, frozen=True):
    """Groups that are hidden, as a whole or where figures depend on labels."""

    groups: tuple[str, ...]
    by_label: tuple[str, ...]


class AuditedClient(Rates, frozen=True, kw_only=True):
    """Rates of a client's rows, of its groups, and its disparities."""

    groups: tuple[AuditedGroup, ...]
    notions: Notions
    four_fifths: Measure | None
    hidden: Hidden
    loss: float | None
    compares: Compares


class AttributeRates(Struct, frozen=True):
    """Rates by the values of one attribute, where groups are crossed."""

    attribute: str
    groups: tuple[AuditedGroup, ...]
    notions: Notions
    four_fifths: Measure | None


class Bin(Struct, frozen=True):
    """Rows whose scores lie between two values: mean score, and share of favourable labels."""

    low: float = field(name="from")
    high: float = field(name="to")
    n: int
    score: float
    observed: Measure


class Calibration(Struct, frozen=True):
    """Whether the scores of a group mean what they say; ``error`` is the expected one."""

    name: str
    mean_score: float
    base_rate: float
    error: float
    bins: tuple[Bin, ...]


class ShrunkRate(Struct, frozen=True, kw_only=True):
    """A rate, what the group's parents say, and the rate shrunk towards it.

    ``share`` is the share of the group's rows in the shrunken rate, 0 to 1.
    """

    rate: float
    parents: float
    value: float
    share: float


class ShrunkGroup(Struct, frozen=True, kw_only=True):
    """The shrunken rates of a group, None where its rate or a parent's is hidden."""

    name: str
    selection_rate: ShrunkRate | None
    tpr: ShrunkRate | None
    fpr: ShrunkRate | None


class Shrinkage(Struct, frozen=True, kw_only=True):
    """Shrunken rates by group, and the disparity by notion that they make."""

    groups: tuple[ShrunkGroup, ...]
    notions: dict[str, float | None]


class AuditDifference(Struct, frozen=True):
    """A disparity less the baseline's, and the baseline's disparity."""

    value: float
    interval: Interval
    baseline: float


class Change(Struct, frozen=True):
    """Shares of a group's rows that the baseline decides otherwise."""

    group: str
    to_favourable: float
    to_unfavourable: float


class AuditComparison(Struct, frozen=True):
    """What differs from the baseline on the same rows."""

    accuracy: Measure | None
    notions: dict[str, AuditDifference | None]
    changed: tuple[Change, ...]


class LeftOutGroup(Struct, frozen=True):
    """The disparity without a client, and by how much the client raises it."""

    without: float | None
    change: float | None


class Contribution(Struct, frozen=True):
    """What a client adds to each disparity; ``partly``: some of its cells are hidden."""

    name: str
    partly: bool
    notions: dict[str, LeftOutGroup]


class LeftOutClient(Struct, frozen=True):
    """Figures of a run on a client's test rows: of a model without the client, and of the full one.

    ``name`` is "all clients" where each row is decided by the model without its client.
    """

    name: str
    n: int
    accuracy: float | None
    accuracy_if_trained_on: float | None
    disparity: float | None
    interval: Interval | None
    disparity_if_trained_on: float | None
    chance: Chance | None


class About(Struct, frozen=True, kw_only=True):
    """Which decisions were audited, on which rows. ``notion`` is the one that was trained for."""

    kind: str
    name: str
    notion: str | None
    data: str
    label: str
    positive: str
    rows: str
    decided_by: str
    baseline: str | None
    hashes: dict[str, str]


class Audit(About, frozen=True, kw_only=True, omit_defaults=True):
    """All figures of an audit. Under ``secure`` there are none of single clients.

    ``left_out`` is from the run, if that left clients out and these are its test rows.
    ``shrinkage`` is there if it was asked for.
    """

    minimum: int
    secure: bool
    mix: str
    attributes: tuple[str, ...]
    client_names: tuple[str, ...]
    numbers_sent: int
    overall: AuditedGroup
    groups: tuple[AuditedGroup, ...]
    four_fifths: Measure | None
    by_attribute: tuple[AttributeRates, ...]
    calibration: tuple[Calibration, ...] | None
    hidden: Hidden
    comparison: AuditComparison | None
    clients: tuple[AuditedClient, ...] | None
    contributions: tuple[Contribution, ...] | None
    notes: tuple[str, ...]
    notions: Notions
    chance: dict[str, Chance | None]
    card: Card | None = None
    left_out: tuple[LeftOutClient, ...] | None = None
    shrinkage: Shrinkage | None = None

    def to_frame(self) -> "DataFrame":
        """Return rows and rates by client and group, with the ends of their intervals.

        ``all`` stands for all clients, or for all groups. A hidden number is missing.
        """
        return make_frame(list(self._list_rows()))

    def _list_rows(self) -> Iterator[dict[str, Any]]:
        for group in (self.overall, *self.groups):
            yield _make_row("all", group.name, group)
        for client in self.clients or ():
            yield _make_row(client.name, "all", client)
            yield from (_make_row(client.name, group.name, group) for group in client.groups)


def _make_row(client: str, group: str, part: Rates) -> dict[str, Any]:
    row: dict[str, Any] = {"client": client, "group": group, "n": part.n}
    for name in RATES:
        rate = part.rate(name)
        low, high = (None, None) if rate is None else rate.interval
        row |= {name: rate and rate.value, f"{name}_low": low, f"{name}_high": high}
    return row


def audit_values(audit: Audit) -> dict[str, Any]:
    """Return an audit as JSON values, with the version of their schema."""
    return {"schema": _SCHEMA, **msgspec.to_builtins(audit)}


def encode_audit(audit: Audit) -> str:
    """Return an audit as JSON text."""
    # msgspec writes a number that is not finite as null, which would pass for a hidden one.
    return json.dumps(audit_values(audit), indent=1, allow_nan=False)


def read_audit(path: Path) -> Audit:
    """Read an audit from its JSON file.

    Raises:
        DataError: the file is damaged, or has a schema that this version of fedfb does not know.
    """
    expected = "an audit as fedfb audit or fedfb serve writes it"
    values = read_json(path, expected)
    with interpreting(path, expected):
        if values.get("schema") == 1:
            values = say_client(values)
        version = values.get("schema")
        if version != _SCHEMA:
            label = "no schema" if version is None else f"schema {version!r}"
            raise DataError(
                f"{path} has {label}, and this version of fedfb reads schema {_SCHEMA}. "
                "Install the version of fedfb that wrote the file, or audit again: fedfb audit."
            )
        try:
            return msgspec.convert(values, Audit)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
