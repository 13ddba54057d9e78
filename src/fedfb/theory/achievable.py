"""The fairness that each approach can reach on a population, before any training.

``achievable`` returns the record that ``fedfb achievable`` prints and draws. ``read_population``
reads the population from a TOML file: share, groups and laws of each client.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfb.errors import ConfigError, unknown_name
from fedfb.files import read_toml
from fedfb.theory import (
    PARITY,
    Client,
    CurvePoint,
    Frozen,
    Gaussian,
    Histogram,
    Mixture,
    Population,
    Solution,
    cfl_curve,
    client,
    ensemble_range,
    erm,
    lft_ensemble,
    lft_ensemble_curve,
    lft_fedavg,
    lft_fedavg_trade_off,
    population,
    tau,
    vote_limit,
)

ACHIEVABLE_LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The disparities at which curves are evaluated unless others are asked for."""

PICTURE_POINTS = 15
"""Levels of a curve in a picture, from 0 to the disparity of plain training."""

APPROACHES = {
    "cfl": "CFL (together)",
    "lft_fedavg": "LFT+FedAvg",
    "lft_ensemble": "LFT+Ensemble",
}
MEASURES = {"spd": "|P0 - P1|", "demographic_parity": "max |Pa - P|"}
NO_VOTE = (
    "LFT+Ensemble is left out: its range is worked out for two groups. Merge groups, or compare "
    "two at a time."
)


def achievable(
    population: Population,
    levels: Sequence[float] = ACHIEVABLE_LEVELS,
    eps: Sequence[float] | None = None,
) -> dict[str, Any]:
    r"""Return the least disparity and the best accuracies of every approach, as JSON values.

    For two groups ``disparity``, ``min_disparity`` and the levels are :math:`|P_0-P_1|` (``spd``).
    For more groups they are :math:`\max_a|P_a-P|` (``demographic_parity``), and LFT+Ensemble is
    left out. ``limit`` of LFT+Ensemble says whether the lemma that keeps a vote unfair applies.

    Args:
        population: clients, groups and laws.
        levels: disparities at which the curves are evaluated, each in [0, 1].
        eps: one local budget for each client; the classifiers of local training with these budgets
            are then in the record as well.
    """
    measure = "spd" if population.groups == 2 else "demographic_parity"
    plain, together = erm(population), cfl_curve(population, [0.0, *levels])
    averaged = lft_fedavg_trade_off(population, levels)
    record: dict[str, Any] = {
        "measure": measure,
        "erm": _classifier(plain, measure),
        "client_gaps": [_number_or_none(gap) for gap in plain.outcome.client_gaps],
        "cfl": _approach(together[0].solution, together[1:], measure),
        "lft_fedavg": _approach(averaged.least, averaged.curve, measure),
    }
    if eps is not None:
        record["lft_fedavg"]["at_eps"] = _classifier(lft_fedavg(population, eps), measure)
    if population.groups > 2:
        return {**record, "left_out": NO_VOTE}
    return {**record, "lft_ensemble": _ensemble_record(population, levels, eps, measure)}


def _ensemble_record(
    population: Population, levels: Sequence[float], eps: Sequence[float] | None, measure: str
) -> dict[str, Any]:
    least = ensemble_range(population).least_disparity
    fairest, *curve = lft_ensemble_curve(population, [least, *levels])
    voting = _approach(fairest.solution, curve, measure)
    voting["min_disparity"], voting["tau"] = _clean(least), tau(population)
    if eps is not None:
        voting["at_eps"] = _classifier(lft_ensemble(population, eps), measure)
    limit = vote_limit(population)
    voting["limit"] = {
        "applies": limit.applies,
        "bound": limit.bound,
        "conditions": [condition._asdict() for condition in limit.conditions],
    }
    return voting


def picture_levels(population: Population) -> tuple[float, ...]:
    """Return the levels at which a picture of the trade-off has points.

    >>> from fedfb.theory import setting
    >>> [round(level, 3) for level in picture_levels(setting("fig2"))[::7]]
    [0.0, 0.17, 0.341]
    """
    plain = erm(population).outcome
    most = plain.spd if population.groups == 2 else plain.demographic_parity
    return tuple(float(level) for level in np.linspace(0.0, most, PICTURE_POINTS))


def select_levels(record: Mapping[str, Any], levels: Sequence[float]) -> dict[str, Any]:
    """Return a record whose curves have only some of their levels.

    Args:
        record: as ``achievable`` returns it.
        levels: levels that every curve of the record has.
    """
    selection: dict[str, Any] = dict(record)
    for name in APPROACHES:
        if name in record:
            point_at = {point["disparity"]: point for point in record[name]["curve"]}
            selection[name] = {
                **record[name],
                "curve": [point_at[float(level)] for level in levels],
            }
    return selection


def summarise_in_words(record: Mapping[str, Any]) -> str:
    """Return one sentence that says what the record means.

    >>> at = {"min_disparity": 0.0, "at_least": {"accuracy": 0.8}}
    >>> record = {"measure": "spd", "erm": {"accuracy": 0.85}, "cfl": at, "lft_fedavg": at}
    >>> summarise_in_words({**record, "lft_ensemble": {"min_disparity": 0.16}})
    ... # doctest: +NORMALIZE_WHITESPACE
    'Training locally and voting cannot get below |P0 - P1| = .160 here, averaging locally fair
    models reaches 0; training together reaches 0 at a cost of 5.0 points of accuracy.'
    """
    cost = 100 * (record["erm"]["accuracy"] - record["cfl"]["at_least"]["accuracy"])
    words = MEASURES[record["measure"]]
    together = f"training together reaches 0 at a cost of {cost:.1f} points of accuracy."
    mean = record["lft_fedavg"]["min_disparity"]
    if "lft_ensemble" not in record:
        averaging = f"{words} = {_short(mean)}" if mean > 0 else f"{words} = 0"
        return f"Averaging locally fair models reaches {averaging} here; {together}"
    vote = record["lft_ensemble"]["min_disparity"]
    voting = f"cannot get below {words} = {_short(vote)} here" if vote > 0 else "reaches 0"
    averaging = f"not below {_short(mean)}" if mean > 0 else "reaches 0"
    return (
        f"Training locally and voting {voting}, averaging locally fair models {averaging}; "
        f"{together}"
    )


def _approach(best: Solution | None, curve: Sequence[CurvePoint], measure: str) -> dict[str, Any]:
    at_least = None if best is None else _classifier(best, measure)
    return {
        "min_disparity": None if at_least is None else _clean(at_least["disparity"]),
        "at_least": at_least,
        "curve": [{"disparity": float(p.level), "accuracy": p.accuracy} for p in curve],
        "exact": all(point.exact for point in curve),
    }


def _classifier(solution: Solution, measure: str) -> dict[str, Any]:
    outcome = solution.outcome
    return {
        "accuracy": float(outcome.accuracy),
        "disparity": float(outcome.spd if measure == "spd" else outcome.demographic_parity),
        "mean_difference": _number_or_none(outcome.mean_difference),
        "demographic_parity": float(outcome.demographic_parity),
        "budgets": None if solution.budgets is None else [float(b) for b in solution.budgets],
    }


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _clean(value: float) -> float:
    """Return 0 for a disparity that meets the level 0, so that sentence, table and curve agree."""
    return 0.0 if value <= PARITY else float(value)


def _short(value: float) -> str:
    if value < 5e-5:
        return f"{value:.0e}"  # .0000 would read as reached
    return f"{value:.{3 if value >= 0.0005 else 4}f}".lstrip("0")


_Law = Gaussian | Frozen | Histogram | Mixture

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
    """Return the population that a TOML file describes.

    Args:
        content: ``eta`` and a list ``client`` of tables with ``q``, ``group0``, ``group1``,
            ``share``.

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
    place = f"client {number}"
    if not isinstance(entry, dict):
        raise ConfigError(f"{place} must be a table [[client]], got {entry!r}.")
    for name in entry:
        if name not in KEYS:
            raise ConfigError(f"{place}: {unknown_name('key', name, KEYS)}")
    share = entry.get("share")
    return client(
        _number(entry, "q", place),
        _law(entry.get("group0"), f"{place}, group0"),
        _law(entry.get("group1"), f"{place}, group1"),
        None if share is None else _number(entry, "share", place),
    )


def _law(entry: Any, place: str) -> _Law | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or "dist" not in entry:
        raise ConfigError(f"{place} must be a law such as {LAW}, got {entry!r}.")
    match entry["dist"]:
        case "normal":
            return Gaussian(_number(entry, "mean", place), _number(entry, "sd", place))
        case "histogram":
            return Histogram(_numbers(entry, "edges", place), _numbers(entry, "masses", place))
        case "mixture":
            return Mixture(_numbers(entry, "weights", place), _parts(entry.get("parts"), place))
        case name:
            return _from_scipy(str(name), entry, place)


def _parts(entries: Any, place: str) -> list[_Law]:
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{place}: parts must be a list of laws, got {entries!r}.")
    laws = [_law(entry, f"{place}, part {number}") for number, entry in enumerate(entries)]
    return [law for law in laws if law is not None]


def _from_scipy(name: str, entry: Mapping[str, Any], place: str) -> Frozen:
    from scipy import stats

    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous):
        raise ConfigError(f"{place}: {unknown_name('dist', name, LAWS)}")
    parameters = {key: _number(entry, key, place) for key in entry if key != "dist"}
    try:
        return Frozen(family(**parameters))
    except TypeError as error:
        raise ConfigError(f"{place}: scipy.stats.{name} does not take these: {error}.") from None


def _number(entry: Mapping[str, Any], name: str, place: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{place}: {name} must be a number, got {value!r}.")
    return float(value)


def _numbers(entry: Mapping[str, Any], name: str, place: str) -> list[float]:
    values = entry.get(name)
    if not isinstance(values, list):
        raise ConfigError(f"{place}: {name} must be a list of numbers, got {values!r}.")
    return [_number({name: value}, name, place) for value in values]
