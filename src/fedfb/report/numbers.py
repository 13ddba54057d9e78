"""Numbers, names and settings as the reports write them."""

from collections.abc import Mapping, Sequence

from fedfb.experiments.result import Figures, Frontier, Result
from fedfb.experiments.seed_result import Estimate, Interval, Statistic
from fedfb.experiments.seeds import coverage

NAMES = {
    "demographic_parity": "demographic parity",
    "spd": "statistical parity difference",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
    "client_parity": "client parity (loss)",
}
"""Display names of notions."""

METHOD_NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedfb": "FedFB",
    "fedfb-sums": "FedFB by sums",
    "fedfb-thresholds": "FedFB thresholds",
    "cfl": "CFL",
    "lft-ensemble": "LFT+Ensemble",
    "lft-fedavg": "LFT+FedAvg",
    "fairfed": "FairFed",
    "fairbatch": "FairBatch",
    "agnosticfair": "AgnosticFair",
    "fpfl": "FPFL",
    "fedfair": "FedFair",
    "fcfl": "FCFL",
    "fairfl": "FairFL",
    "q-ffl": "q-FFL",
    "gifair": "GIFAIR",
    "afl": "AFL",
    "term": "TERM",
    "ditto": "Ditto",
    "zafar": "Zafar",
    "hardt": "Hardt",
    "reweighing": "Reweighing",
}
"""Display names of methods; a method of a plugin is shown as settings name it."""


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as the paper prints it, without the leading zero; a dash for None.

    >>> number(0.7251), number(-0.5), number(None), number(1.0), number(-0.0001)
    ('.725', '-.500', '-', '1.000', '.000')
    """
    if value is None:
        return "-"
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # adding 0.0 takes the sign off -0.0
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def spread(statistic: Statistic) -> str:
    """Return mean and spread over seeds.

    >>> spread(Statistic(mean=0.725, std=0.012))
    '.725 ± .012'
    """
    std = "" if statistic.std is None else f" ± {number(statistic.std)}"
    return number(statistic.mean) + std


def figures(summary: Figures, notion: str) -> tuple[str, str]:
    """Return accuracy and disparity of a setting with their spreads; of one that diverged, none."""
    accuracy = "diverged" if summary.diverged else spread(summary.accuracy)
    return accuracy, spread(summary.disparity[notion])


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any.

    >>> mean([1.0, None, 2.0]), mean([])
    (1.5, None)
    """
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def ends_in_words(interval: Interval | None) -> str:
    """Write the ends of an interval.

    >>> ends_in_words((0.0, 0.2)), ends_in_words(None)
    ('.000 to .200', 'not estimable')
    """
    return "not estimable" if interval is None else " to ".join(map(number, interval))


def with_interval(estimate: Estimate) -> str:
    """Write a mean with its interval.

    >>> with_interval(Estimate(mean=0.75, interval=(0.7, 0.8)))
    '.750 [.700, .800]'
    """
    interval = estimate.interval
    ends = f" [{number(interval[0])}, {number(interval[1])}]" if interval else ""
    return number(estimate.mean) + ends


def coverage_of(result: Result | Frontier) -> str:
    """Say what the intervals of a result or a frontier cover, and what not."""
    return coverage(len(result.seeds), result.shared_test_rows)


def shown_name(algorithm: str) -> str:
    """Return the display name of a method.

    >>> shown_name("fedfb"), shown_name("my-method")
    ('FedFB', 'my-method')
    """
    return METHOD_NAMES.get(algorithm, algorithm)


def setting_in_words(settings: Mapping[str, float]) -> str:
    """Write a setting.

    >>> setting_in_words({"target": 0.05, "lr": 0.001})
    'target 0.05, lr 0.001'
    """
    return ", ".join(f"{knob} {value:g}" for knob, value in settings.items())
