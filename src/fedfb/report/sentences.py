"""What a method found, in sentences: what fairness cost, which round, what stood in the way."""

from collections.abc import Iterator, Sequence

from fedfb.experiments.result import Figures, Result
from fedfb.experiments.seed_result import MethodAccount, Quality
from fedfb.report.numbers import mean, number


def findings(result: Result) -> Iterator[str]:
    """Yield a sentence on everything that a reader would ask next, what fairness cost first."""
    summary = result.summary
    if summary and summary.free and summary.cost and summary.cost.mean is not None:
        yield _cost(summary.cost.mean, summary.free, result.notion)
    yield from closer_findings(result)


def coarse_codes(result: Result) -> list[str]:
    """Warn of codes so coarse that the weights do not follow the gaps; say nothing of others."""
    warnings = [coarse for run in result.runs if (coarse := run.method.coarse) is not None]
    return [
        (
            f"Warning: codes of {coarse.bits} bits are too coarse (step "
            f"{number(coarse.step)}): gaps of groups vanish in them, and the model may be less "
            f"fair than FedAvg's. Give each value --bits {coarse.needed} or more."
        )
        for coarse in warnings[:1]
    ]


def closer_findings(result: Result) -> Iterator[str]:
    """Yield what other decisions than a cut at 1/2 did, how near the target came, and why."""
    summary, runs = result.summary, result.runs
    halves = [run.at_one_half for run in runs if run.at_one_half is not None]
    accounts = [run.method for run in runs]
    if halves and summary is not None:
        by_thresholds = any(account.thresholds is not None for account in accounts)
        yield _decisions(summary, halves, result.notion, by_thresholds)
    yield from _search(accounts, target=runs[0].settings.get("target", 0.0))


def _cost(cost: float, free: Figures, notion: str) -> str:
    return (
        f"Fairness costs {100 * cost:.1f} points of accuracy: trained alike but "
        f"without it, the model is {number(free.accuracy.mean)} accurate at a disparity of "
        f"{number(free.disparity[notion].mean)}."
    )


def _decisions(
    summary: Figures, halves: Sequence[Quality], notion: str, by_thresholds: bool
) -> str:
    """Say what the scores alone would have come to, and what the method's decisions did."""
    accuracy = number(mean([half.accuracy for half in halves]))
    disparity = number(mean([half.disparity[notion] for half in halves]))
    what = "thresholds" if by_thresholds else "method's own way to decide"
    how = "with a threshold for each group" if by_thresholds else "as it decides"
    return (
        f"What the {what} did: cut at 1/2 these scores would be {accuracy} accurate at "
        f"{disparity}; {how} they are {number(summary.accuracy.mean)} at "
        f"{number(summary.disparity[notion].mean)}."
    )


def _search(accounts: Sequence[MethodAccount], target: float) -> Iterator[str]:
    measures = {account.target_is_for for account in accounts if account.target_is_for}
    if measures and 0 < target < 1:
        measure = ", ".join(sorted(measures))
        yield f"The target is for {measure}; the disparity above is their range."
    rounds = [str(account.chosen_round) for account in accounts if account.chosen_round]
    if rounds:
        which = "round" if len(rounds) == 1 else "rounds"
        yield f"Chosen: {which} {', '.join(rounds)}, nearest to the target on training rows."
    names = sorted({name for account in accounts for name in account.left_out or ()})
    if names:
        yield f"Too few rows for a threshold of their own (cut at 1/2): {', '.join(names)}."
