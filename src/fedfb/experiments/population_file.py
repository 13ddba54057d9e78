"""A population as TOML: the clients' shares, groups and laws, for ``fedfb achievable``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedfb.errors import ConfigError, unknown_name
from fedfb.files import read_toml
from fedfb.theory import (
    Client,
    Frozen,
    Gaussian,
    Histogram,
    Mixture,
    Population,
    client,
    population,
)

Law = Gaussian | Frozen | Histogram | Mixture

FORM = """
eta = "logistic"
[[client]]
share = 0.5
q = 0.3
group0 = {dist = "normal", mean = 3.0, sd = 1.0}
group1 = {dist = "normal", mean = 5.0, sd = 1.0}"""
LAW = '{dist = "normal", mean = 3.0, sd = 1.0}'
KEYS = ("share", "q", "group0", "group1")
LAWS = ("normal", "mixture", "histogram", "or the name of a distribution of scipy.stats")


def read_population(path: Path) -> Population:
    """Read a population from its file."""
    content = read_toml(path, f"a population:{FORM}\n")
    try:
        return make_population(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def make_population(content: Mapping[str, Any]) -> Population:
    """Return the population of named values, as a TOML file holds them.

    >>> laws = {"group0": {"dist": "normal", "mean": 3, "sd": 1}, "group1": {"dist": "expon"}}
    >>> make_population({"client": [{"q": 0.3, **laws}]}).clients
    1
    """
    for name in content:
        if name not in ("eta", "client"):
            raise ConfigError(unknown_name("key", name, ("eta", "client")))
    entries = content.get("client")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"there is no [[client]]. Expected at least one:{FORM}")
    clients = [_client(number, entry) for number, entry in enumerate(entries)]
    return population(clients, str(content.get("eta", "logistic")))


def _client(number: int, entry: Any) -> Client:
    where = f"client {number}"
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be a table [[client]], got {entry!r}.")
    for name in entry:
        if name not in KEYS:
            raise ConfigError(f"{where}: {unknown_name('key', name, KEYS)}")
    share = entry.get("share")
    return client(
        _number(entry, "q", where),
        _law(entry.get("group0"), f"{where}, group0"),
        _law(entry.get("group1"), f"{where}, group1"),
        None if share is None else _number(entry, "share", where),
    )


def _law(entry: Any, where: str) -> Law | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or "dist" not in entry:
        raise ConfigError(f"{where} must be a law such as {LAW}, got {entry!r}.")
    match entry["dist"]:
        case "normal":
            return Gaussian(_number(entry, "mean", where), _number(entry, "sd", where))
        case "histogram":
            return Histogram(_numbers(entry, "edges", where), _numbers(entry, "masses", where))
        case "mixture":
            return Mixture(_numbers(entry, "weights", where), _parts(entry.get("parts"), where))
        case name:
            return _from_scipy(str(name), entry, where)


def _parts(entries: Any, where: str) -> list[Law]:
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{where}: parts must be a list of laws, got {entries!r}.")
    laws = [_law(entry, f"{where}, part {number}") for number, entry in enumerate(entries)]
    return [law for law in laws if law is not None]


def _from_scipy(name: str, entry: Mapping[str, Any], where: str) -> Frozen:
    from scipy import stats

    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous):
        raise ConfigError(f"{where}: {unknown_name('dist', name, LAWS)}")
    parameters = {key: _number(entry, key, where) for key in entry if key != "dist"}
    try:
        return Frozen(family(**parameters))
    except TypeError as error:
        raise ConfigError(f"{where}: scipy.stats.{name} does not take these: {error}.") from None


def _number(entry: Mapping[str, Any], name: str, where: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where}: {name} must be a number, got {value!r}.")
    return float(value)


def _numbers(entry: Mapping[str, Any], name: str, where: str) -> list[float]:
    values = entry.get(name)
    if not isinstance(values, list):
        raise ConfigError(f"{where}: {name} must be a list of numbers, got {values!r}.")
    return [_number({name: value}, name, where) for value in values]
