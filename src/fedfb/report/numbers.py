"""Numbers as the reports print them."""

from collections.abc import Sequence

from fedfb.experiments.result import Figures, Statistic


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
