"""The table of clients that were left out of training."""

from collections.abc import Sequence

from fedfb.experiments.result import Result
from fedfb.experiments.seed_result import ClientLeftOut, Evaluation, SeedResult
from fedfb.experiments.seeds import chance_beside, disparity_over_seeds, interval_of
from fedfb.notions.values import Chance
from fedfb.report.numbers import coverage_of, ends_in_words, mean, number
from fedfb.report.table import (
    MOST_CLIENTS,
    ManyValues,
    Table,
    note_on_many,
    summarise_many,
    write_count,
)

NARROW = ("", "rows", "accuracy", "full", "disparity", "95% interval", "chance", "full")
WIDE = (
    *("client", "test rows", "accuracy", "if trained on", "disparity", "95% interval", "chance"),
    "if trained on",
)
NARROW_LOSSES = ("", "rows", "accuracy", "full", "loss", "full")
WIDE_LOSSES = ("client", "test rows", "accuracy", "if trained on", "loss", "if trained on")


def left_out_table(
    result: Result, runs: Sequence[SeedResult], setting: str = "", narrow: bool = False
) -> Table | None:
    """Return accuracy and disparity on clients that nobody trained on; None if none was left out.

    Beside each figure stands that of the model of all clients, on the same rows. Under client
    parity a client has a loss and no disparity.

    Args:
        result: the result that the runs belong to.
        runs: one for each seed of one setting.
        setting: the setting in words, for the caption; empty where there is one only.
        narrow: for a terminal.
    """
    parts = [run.leave_out for run in runs if run.leave_out is not None]
    if not parts or len(parts) < len(runs):
        return None
    by_loss = result.notion == "client_parity"
    with_losses, with_disparities = (NARROW_LOSSES, NARROW) if narrow else (WIDE_LOSSES, WIDE)
    columns = with_losses if by_loss else with_disparities
    everyone = [part.everyone for part in parts]
    clients = [*zip(*(part.clients for part in parts), strict=True)]
    rows = [_cells(result, everyone, by_loss)]
    many = len(clients) > MOST_CLIENTS
    if many:
        rows += _summarise(result, clients, by_loss)
    else:
        rows += [_cells(result, of_client, by_loss) for of_client in clients]
    caption = "Clients that were left out of training"
    inside = "full: the model" if narrow else "If trained on: the model"
    measure = "loss" if by_loss else "disparity"
    note = [
        f"{inside} of all clients, on the same rows. {everyone[0].name}: each row is decided by "
        "the model without its client.",
        f"{parts[0].trainings} trainings.",
        *([note_on_many(len(clients), f"{measure} where left out")] if many else []),
        *([] if narrow else [coverage_of(result)]),
    ]
    return Table(f"{caption}, {setting}" if setting else caption, columns, tuple(rows),
                 " ".join(note))  # fmt: skip


def _cells(result: Result, parts: Sequence[ClientLeftOut], by_loss: bool) -> tuple[str, ...]:
    """Return the row of one client, as means over seeds."""
    rows = write_count(mean([float(part.included.rows) for part in parts]))
    accuracies = [number(mean(values)) for values in _accuracies(parts)]
    if by_loss:
        losses = (
            [part.excluded_loss for part in parts],
            [part.included_loss for part in parts],
        )
        return (parts[0].name, rows, *accuracies, *(number(mean(loss)) for loss in losses))
    left_out, trained_on = _disparities(result, parts)
    evaluations = [part.excluded for part in parts if part.excluded is not None]
    ends = None
    if len(evaluations) == len(parts):
        shared = result.shared_test_rows
        ends = interval_of(disparity_over_seeds(evaluations, result.notion, shared))
    by_chance = [chance.mean for part in parts if (chance := _chance_of(part, result.notion))]
    beside = number(mean(by_chance)) if by_chance else ""
    cells = (number(left_out), ends_in_words(ends), beside, number(trained_on))
    return (parts[0].name, rows, *accuracies, *cells)


def _chance_of(part: ClientLeftOut, notion: str) -> Chance | None:
    """Return what chance shows; of many clients it is not stored, and drawn for those named."""
    value = None if part.excluded is None else part.excluded.disparity[notion]
    if part.chance or part.excluded is None or value is None:
        return part.chance.get(notion)
    return chance_beside(part.excluded, notion, value)


def _accuracies(parts: Sequence[ClientLeftOut]) -> tuple[list[float | None], list[float | None]]:
    """Return accuracies by seed, where the client is left out and where it is trained on."""
    return (
        [None if part.excluded is None else part.excluded.accuracy for part in parts],
        [part.included.accuracy for part in parts],
    )


def _disparities(
    result: Result, parts: Sequence[ClientLeftOut]
) -> tuple[float | None, float | None]:
    """Return the mean disparity where the client is left out, and where it is trained on."""

    def of(evaluation: Evaluation | None) -> float | None:
        return None if evaluation is None else evaluation.disparity[result.notion]

    return mean([of(part.excluded) for part in parts]), mean([of(part.included) for part in parts])


def _summarise(
    result: Result, clients: Sequence[Sequence[ClientLeftOut]], by_loss: bool
) -> list[tuple[str, ...]]:
    """Return the mean of many clients, the worst, quantiles and the best."""
    rows = [mean([float(part.included.rows) for part in parts]) for parts in clients]
    pairs = [tuple(mean(values) for values in _accuracies(parts)) for parts in clients]
    accuracy, trained_on = zip(*pairs, strict=True)
    if by_loss:
        values = [mean([part.excluded_loss for part in parts]) for parts in clients]
        beside = [mean([part.included_loss for part in parts]) for parts in clients]
    else:
        both = [_disparities(result, parts) for parts in clients]
        values, beside = ([pair[side] for pair in both] for side in (0, 1))
    blank = [] if by_loss else [ManyValues([None] * len(rows), lambda _: "")] * 2
    columns = [
        ManyValues(rows, write_count),
        ManyValues(accuracy, number),
        ManyValues(trained_on, number),
        ManyValues(values, number),
        *blank,
        ManyValues(beside, number),
    ]
    names = [parts[0].name for parts in clients]
    means = ("mean", *(column.write(mean(column.values)) for column in columns))
    by_name = dict(zip(names, clients, strict=True))

    def completed(row: tuple[str, ...]) -> tuple[str, ...]:
        """Return the row of a single client with interval and chance, which a quantile has not."""
        _, mark, name = row[0].partition(": ")
        return (row[0], *_cells(result, by_name[name], by_loss)[1:]) if mark else row

    return [means, *map(completed, summarise_many(names, columns, values))]
