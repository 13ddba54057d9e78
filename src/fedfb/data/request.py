"""Which data a run asks for. Imports no numpy, so that the command line starts fast."""

import os
from dataclasses import dataclass, fields
from glob import glob

from fedfb.errors import ConfigError, unknown_name

POPULATIONS: tuple[str, ...] = ("example1", "fig1b", "fig1c", "fig2", "fig3")
"""The paper's populations of Section 3."""

DRAWN: tuple[str, ...] = ("synthetic", *POPULATIONS)
"""Data sets that are drawn on the spot."""

BUILT_IN: tuple[str, ...] = ("synthetic", "adult", "compas", "bank", *POPULATIONS)
"""Data sets that are known by name."""

SEVERAL_ATTRIBUTES: tuple[str, ...] = ("adult", "compas")
"""Published data sets whose groups may be formed by other attributes than the paper's."""

_OWN_ONLY = ("label", "positive", "client_column", "test", "schema", "ignore", "bins", "merge")
_SYNTHETIC_ONLY = ("clients", "groups", "heterogeneity")
_DRAWN_ONLY = ("rows", "test_rows")


@dataclass(frozen=True)
class DataRequest:
    """A data set by name, or one's own files by path or pattern, and how to read them.

    ``label``, ``positive``, ``client_column`` and ``test`` describe one's own files, ``sensitive``
    these and some published data sets; ``ignore``, ``bins`` and ``merge`` say what is done with
    columns, or a ``schema`` all of it; groups of fewer training rows than ``minimum_group`` become
    the group ``rest``, where it has a name;
    ``clients``, ``groups`` and ``heterogeneity`` the synthetic data, ``q`` the populations of the
    paper's figures, ``rows`` and ``test_rows`` both; ``resplit`` the published data sets. The
    partition 'paper' means, for one's own files: as the files or the client column say.
    """

    data: str
    label: str | None = None
    positive: str | None = None
    sensitive: tuple[str, ...] = ()
    client_column: str | None = None
    schema: str | None = None
    ignore: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    merge: tuple[str, ...] = ()
    minimum_group: int = 10
    rest: str | None = None
    test: str | None = None
    partition: str = "paper"
    clients: int | None = None
    groups: int = 2
    heterogeneity: str = "medium"
    q: tuple[float, ...] = ()
    rows: int | None = None
    test_rows: int | None = None
    resplit: bool = False
    sensitive_at_prediction: bool = False


def check_request(request: DataRequest) -> None:
    """Refuse a request that names no data, misses an option or gives one that does not apply."""
    is_own = request.data not in BUILT_IN
    if is_own and not _is_path(request.data):
        raise ConfigError(
            f"{unknown_name('data set', request.data, BUILT_IN)}. One's own files are given by "
            "their path, e.g. 'rows.csv' or 'silos/*.csv'."
        )
    _refuse_inapplicable(request, () if is_own else _OWN_ONLY, "one's own files")
    if not is_own and request.data not in SEVERAL_ATTRIBUTES:
        _refuse_inapplicable(request, ("sensitive", "rest"), "one's own files, adult and compas")
    if request.data != "synthetic":
        _refuse_inapplicable(request, _SYNTHETIC_ONLY, "the synthetic data")
    if request.data not in POPULATIONS:
        _refuse_inapplicable(request, ("q",), f"the paper's populations ({', '.join(POPULATIONS)})")
    if request.data not in DRAWN:
        _refuse_inapplicable(request, _DRAWN_ONLY, f"data drawn on the spot ({', '.join(DRAWN)})")
    if is_own or request.data in DRAWN:
        _refuse_inapplicable(request, ("resplit",), "the published data sets (adult, compas, bank)")
    for name in ("label", "positive", "sensitive") if is_own and not request.schema else ():
        if not getattr(request, name):
            raise ConfigError(
                f"one's own files need {name} (--{name}): label names the column to predict, "
                "positive its favourable value, sensitive the columns that form the groups. Or "
                "give a schema (--schema), which says all of this."
            )
    for name in ("rows", "test_rows"):
        number = getattr(request, name)
        if number is not None and number < 1:
            raise ConfigError(f"{name} is {number}, expected at least 1.")


def _is_path(data: str) -> bool:
    looks_like_one = any(mark in data for mark in ("/", "*", ".csv", ".parquet"))
    return looks_like_one or os.path.exists(data) or bool(glob(data))


def _refuse_inapplicable(request: DataRequest, names: tuple[str, ...], belongs_to: str) -> None:
    defaults = {field.name: field.default for field in fields(DataRequest)}
    for name in names:
        if getattr(request, name) != defaults[name]:
            raise ConfigError(
                f"{name} (--{name.replace('_', '-')}) does not apply to {request.data!r}: it "
                f"belongs to {belongs_to}. Leave it out."
            )
