"""The data that a run requests. Imports no numpy, so that the command line starts fast."""

import os
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from msgspec import Meta

from fedfb.errors import ConfigError, unknown_name
from fedfb.settings import Declarations, setting
from fedfb.tables.address import SUFFIXES, hide, is_address, read_address
from fedfb.tables.dialect import FLAGS, Dialect
from fedfb.tables.sources import STDIN, split_patterns, with_query

DATA = "Data"
"""The section of the help for settings of the data."""

POPULATIONS: tuple[str, ...] = ("example1", "fig1b", "fig1c", "fig2", "fig3")
"""The paper's populations of Section 3."""

DRAWN: tuple[str, ...] = ("synthetic", *POPULATIONS)
"""Data sets that are drawn, not read."""

BUILT_IN: tuple[str, ...] = ("synthetic", "adult", "compas", "bank", *POPULATIONS)
"""Data sets with a name."""

SEVERAL_ATTRIBUTES: tuple[str, ...] = ("adult", "compas")
"""Published data sets with a choice of attributes that form the groups."""

_OWN_ONLY = (
    *("label", "positive", "client_column", "test", "schema", "ignore", "bins", "merge", "dates"),
    *("query", *FLAGS),
)
_SYNTHETIC_ONLY = ("clients", "groups", "heterogeneity")
_DRAWN_ONLY = ("rows", "test_rows")


@dataclass(frozen=True)
class DataRequest:
    """A data set by name, or your own files by path or pattern, and how to read them.

    ``label``, ``positive``, ``client_column`` and ``test`` belong to your own files. ``sensitive``
    belongs to your own files and some published data sets. ``ignore``, ``bins``, ``merge`` and
    ``dates`` declare the treatment of columns; a ``schema`` declares all of it. ``separator``,
    ``decimal``, ``thousands`` and ``encoding`` say how text files are written, where it is not
    detected, and ``query`` chooses rows of a database. Groups with fewer training rows than
    ``minimum_group`` become the group ``rest``, if it has a name. ``clients``, ``groups`` and
    ``heterogeneity`` belong to the synthetic data, ``q`` to the populations of the paper's figures,
    ``rows`` and ``test_rows`` to both. ``resplit`` belongs to the published data sets. For your own
    files the partition 'paper' means: by files, or by the client column.
    """

    data: str = setting(
        "synthetic",
        "A name (fedfb list), your own files 'clients/*.csv', a folder, postgresql://host/db, or -",
        DATA,
        several=True,
    )
    label: str | None = setting(None, "Own files: the column to predict", DATA)
    positive: str | None = setting(None, "Own files: its favourable value", DATA)
    sensitive: tuple[str, ...] = setting(
        (), "Sensitive columns; several are crossed (sex,race). Own files, adult, compas", DATA
    )
    client_column: str | None = setting(
        None, "Own files: the column that names the client, for one file", DATA
    )
    schema: str | None = setting(
        None, "Own files: what the columns are, as a file (fedfb schema infer)", DATA
    )
    ignore: tuple[str, ...] = setting((), "Own files: columns to leave out", DATA)
    bins: Declarations = setting((), "Own files: ranges of a sensitive number, 'age: 25,40'", DATA)
    dates: Declarations = setting(
        (), "Own files: dates that become numbers, 'opened: year' (or age in days at DAY)", DATA
    )
    merge: Declarations = setting(
        (), "Own files: values that become one group (or label), 'race: Asian+Other=rest'", DATA
    )
    minimum_group: Annotated[int, Meta(ge=1)] = setting(
        10,
        "A group (cp: a client) with fewer training rows, over all clients, is not compared",
        DATA,
    )
    rest: str | None = setting(
        None,
        "Own files, adult, compas: merge smaller groups into one group of this name",
        DATA,
    )
    separator: str | None = setting(
        None, "Own text files: what separates cells, such as ; or tab (default: detected)", DATA
    )
    decimal: str | None = setting(
        None, "Own text files: the decimal mark, . or , (default: detected)", DATA
    )
    thousands: str | None = setting(
        None,
        "Own text files: the thousands mark, . , space apostrophe or none (default: detected)",
        DATA,
    )
    encoding: str | None = setting(
        None, "Own text files: the encoding, such as cp1252 or utf-16 (default: detected)", DATA
    )
    test: str | None = setting(None, "Own files: test rows (default: 30% of each client)", DATA)
    query: str | None = setting(None, "A database: the rows to read, as 'select ...'", DATA)
    partition: str = setting(
        "paper",
        "paper, group, column:NAME, shares:.5,.5/.2,.8 (a list a group) or dirichlet:.5,5",
        DATA,
    )
    client_rows: Annotated[int, Meta(ge=1)] = setting(
        2, "Clients with fewer rows do not take part; the output counts them", DATA
    )
    clients: Annotated[int, Meta(ge=2, le=4)] | None = setting(
        None, "synthetic: 2, 3 or 4 clients", DATA
    )
    groups: Annotated[int, Meta(ge=2, le=3)] = setting(2, "synthetic: 2 or 3 groups", DATA)
    heterogeneity: Literal["low", "medium", "high"] = setting(
        "medium", "synthetic: how unlike the clients are", DATA
    )
    q: tuple[Annotated[float, Meta(ge=0, le=1)], ...] = setting(
        (), "fig2, fig3: share of group 1 in each client", DATA
    )
    rows: Annotated[int, Meta(ge=20)] | None = setting(None, "Drawn data: training rows", DATA)
    test_rows: Annotated[int, Meta(ge=20)] | None = setting(None, "Drawn data: test rows", DATA)
    resplit: bool = setting(
        False, "adult, compas, bank: draw 70% of the rows to train on, anew for every seed", DATA
    )
    features: Literal["plain", "binned", "auto"] = setting(
        "plain",
        "plain: numbers as they are; binned: with steps at 12 quantiles; auto: what has less loss "
        "on validation rows",
        DATA,
    )
    sensitive_at_prediction: bool = setting(
        False,
        "Whether the group is an input of the model, and is known when it decides",
        DATA,
        in_words=True,
    )

    def __post_init__(self) -> None:
        """Take passwords out of the addresses of databases."""
        hide_secrets(self)

    @property
    def own_data(self) -> str:
        """Your own files, or the address of a database with its query."""
        return with_query(self.data, self.query)


def hide_secrets(request: DataRequest) -> None:
    """Take passwords out of a request: it is written into results, and into files."""
    for name in ("data", "test"):
        value = getattr(request, name)
        if isinstance(value, str):
            object.__setattr__(request, name, hide(value))


def dialect_of(request: DataRequest) -> Dialect:
    """Return what a request says about how its files are written."""
    return Dialect(**{name: getattr(request, name) for name in FLAGS})


def check_request(request: DataRequest) -> None:
    """Refuse a request without data, without a needed option, or with one that does not apply."""
    is_own = request.data not in BUILT_IN
    if is_own and not _is_path(request.data):
        raise ConfigError(
            f"{unknown_name('data set', request.data, BUILT_IN)}. Name your own files by "
            "their path, e.g. 'rows.csv' or 'clients/*.csv'."
        )
    for text in (request.data, request.test) if is_own else ():
        for part in split_patterns(text or ""):
            if is_address(part):
                read_address(part)  # here: before a folder is made
    dialect_of(request)
    _refuse_inapplicable(request, () if is_own else _OWN_ONLY, "your own files")
    if not is_own and request.data not in SEVERAL_ATTRIBUTES:
        _refuse_inapplicable(request, ("sensitive", "rest"), "your own files, adult and compas")
    if request.data != "synthetic":
        _refuse_inapplicable(request, _SYNTHETIC_ONLY, "the synthetic data")
    if request.data not in POPULATIONS:
        _refuse_inapplicable(request, ("q",), f"the paper's populations ({', '.join(POPULATIONS)})")
    if request.data not in DRAWN:
        _refuse_inapplicable(request, _DRAWN_ONLY, f"data that are drawn ({', '.join(DRAWN)})")
    if is_own or request.data in DRAWN:
        _refuse_inapplicable(request, ("resplit",), "the published data sets (adult, compas, bank)")
    for name in ("label", "positive", "sensitive") if is_own and not request.schema else ():
        if not getattr(request, name):
            raise ConfigError(
                f"your own files need {name} (--{name}): label names the column to predict, "
                "positive its favourable value, sensitive the columns that form the groups. Or "
                "give a schema (--schema), which declares all of this."
            )
    for name in ("rows", "test_rows"):
        number = getattr(request, name)
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}, expected at least 1.")


def draws_rows(request: DataRequest) -> bool:
    """Return True if rows or clients are drawn, so that the split seed has an effect.

    >>> draws_rows(DataRequest("compas")), draws_rows(DataRequest("compas", resplit=True))
    (False, True)
    """
    if request.partition.startswith(("shares", "dirichlet")):
        return True
    if request.data == "adult" and request.partition == "paper":  # it deals work classes by shares
        return True
    published = request.data in ("adult", "compas") and not request.resplit
    return not (published or request.test)


def _is_path(data: str) -> bool:
    looks_like_one = any(mark in data for mark in ("/", "*", ".csv", ".parquet", *SUFFIXES))
    parts = split_patterns(data)
    return looks_like_one or all(part == STDIN or os.path.lexists(part) for part in parts)


def _refuse_inapplicable(request: DataRequest, names: tuple[str, ...], belongs_to: str) -> None:
    defaults = {field.name: field.default for field in fields(DataRequest)}
    for name in names:
        if getattr(request, name) != defaults[name]:
            raise ConfigError(
                f"{name} (--{name.replace('_', '-')}) does not apply to {request.data!r}: it "
                f"belongs to {belongs_to}. Leave it out."
            )
