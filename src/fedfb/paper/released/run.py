"""Run a method as released: seeds in, one JSON-ready record for each seed out."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from fedfb.errors import ConfigError, DivergenceError, unknown_name
from fedfb.paper.released.data import (
    ReleasedData,
    ReleasedRows,
    count_cells,
    hold_out_last_tenth,
    load_released,
    pool_clients,
)
from fedfb.paper.released.rules import (
    Flags,
    ReleasedRule,
    accuracies,
    average_by_size,
    average_by_weight,
    choose_rule,
    first_clients,
    make_flags,
    parity_differences,
    released_disparities,
    released_loss_sums,
)
from fedfb.paper.released.training import (
    BATCH,
    HIDDEN,
    LocalRows,
    add_ones,
    draw_initial,
    loader_orders,
    margins,
    train_released,
)
from fedfb.shapes import Array, Float

_Record = dict[str, Any]  # nested JSON: its values have no common type

_AT_ONCE = 5
"""Seeds trained together: more would not fit a processor's cache."""


class _Setting(NamedTuple):
    """Values that all seeds of a run share."""

    data: ReleasedData
    flags: Flags
    rule: ReleasedRule
    hidden: int
    rate: float
    alpha: float
    rounds: int
    epochs: int
    dtype: str


class _Client(NamedTuple):
    """A client: the number of all its rows, rows to train on, and rows whose losses count."""

    size: int
    local: LocalRows
    rows: ReleasedRows
    loss_rows: ReleasedRows
    loss_x: Float[Array, "m i"]


def run_released(
    data: str | ReleasedData,
    method: str = "fedfb",
    *,
    model: str = "mlp",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    lr: float = 0.005,
    alpha: float = 0.2,
    flags: Mapping[str, Any] | None = None,
    rounds: int = 10,
    epochs: int = 30,
    precision: Literal["float32", "float64"] = "float64",
) -> list[_Record]:
    """Train and test as the released code does.

    Departs from torch: numpy decides the order in which the terms of a sum are added. Where
    training is chaotic (see ``training._move``) a seed may end elsewhere than on the authors'
    machine.

    Args:
        data: a data set, or its name.
        method: one of ``METHODS``.
        model: ``mlp`` or ``logistic``.
        seeds: of the runs.
        lr: learning rate.
        alpha: step size of lambda.
        flags: rules that differ from the method's.
        rounds: number of rounds.
        epochs: of local training in a round.
        precision: of training. torch's is float32. The default was chosen by the printed digits: of
            three ways to round, float64 on features rounded to float32 gives those of Adult, where
            rounding decides how some seeds end.
    """
    if model not in HIDDEN:
        raise ConfigError(unknown_name("model", model, HIDDEN))
    released_data = load_released(data) if isinstance(data, str) else data
    rules = make_flags(method, released_data.groups, flags or {})
    counts = count_cells(pool_clients(released_data.clients), released_data.groups)
    rule = choose_rule(method, rules, counts, len(released_data.clients))
    setting = _Setting(
        released_data,
        rules,
        rule,
        HIDDEN[model],
        lr,
        alpha,
        rounds,
        epochs,
        np.dtype(precision).name,
    )
    parts = [tuple(seeds[at : at + _AT_ONCE]) for at in range(0, len(seeds), _AT_ONCE)]
    return [record for part in parts for record in _train(setting, part, method)]


def _train(setting: _Setting, seeds: tuple[int, ...], method: str) -> list[_Record]:
    data, rule, flags = setting.data, setting.rule, setting.flags
    clients = [_client(setting, rows, seeds) for rows in data.clients]
    params = draw_initial(seeds, data.test.x.shape[1], setting.hidden).astype(setting.dtype)
    lam = np.tile(rule.start, (len(seeds), 1, 1))
    first = first_clients(seeds, len(clients))
    history: list[list[_Record]] = []
    for number in range(1, setting.rounds + 1):
        rate = setting.rate / number if flags.rate == "decaying" else setting.rate
        cell_weights = rule.weights(lam)
        weights = [cell_weights[:, c.rows.y, c.rows.group] for c in clients]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            models = [
                train_released(
                    params,
                    client.local,
                    row_weights.astype(params.dtype),
                    rate,
                    setting.hidden,
                    rule.reduction,
                )
                for client, row_weights in zip(clients, weights, strict=True)
            ]
        _refuse_divergence(models, seeds, number, rate)
        if method == "fedavg":
            params = average_by_size(models, [c.size for c in clients], first, flags.averaging)
        else:
            mass = setting.epochs * np.stack(
                [row_weights.sum(axis=1) for row_weights in weights], axis=1
            )
            params = average_by_weight(models, mass, flags.averaging)
            lam = rule.step(lam, _losses(setting, clients, params), setting.alpha, number)
        history.append(_test(setting, clients, params, lam, number))
    return [
        _record(flags, seed, [of_round[place] for of_round in history])
        for place, seed in enumerate(seeds)
    ]


def _refuse_divergence(
    models: Sequence[Float[Array, "s p"]], seeds: tuple[int, ...], number: int, rate: float
) -> None:
    finite = np.isfinite(np.stack(models)).all(axis=(0, 2))
    if not finite.all():
        lost = [seed for seed, fine in zip(seeds, finite, strict=True) if not fine]
        raise DivergenceError(
            f"training as released became non-finite in round {number} at a learning rate of "
            f"{rate:g}, for the seeds {lost}: a batch whose rows all have weight 0 does this. "
            "Choose a smaller alpha."
        )


def _client(setting: _Setting, rows: ReleasedRows, seeds: tuple[int, ...]) -> _Client:
    train_released, validation = hold_out_last_tenth(rows)
    fillers = setting.flags.fillers == "drawn"
    orders = [
        loader_orders(seed, len(train_released.y), setting.epochs, BATCH, fillers) for seed in seeds
    ]
    local = LocalRows(add_ones(train_released.x, setting.dtype), train_released.y, np.stack(orders))
    loss_rows = validation if setting.rule.losses_on == "validation" else train_released
    return _Client(
        len(rows.y), local, train_released, loss_rows, add_ones(loss_rows.x, setting.dtype)
    )


def _losses(
    setting: _Setting, clients: Sequence[_Client], params: Float[Array, "s p"]
) -> Float[Array, "s 2 a"]:
    """Return the losses that move lambda, summed by cell over all clients."""
    parts = [
        released_loss_sums(
            margins(params, client.loss_x, setting.hidden),
            client.loss_rows,
            setting.data.groups,
            setting.flags.signal,
        )
        for client in clients
    ]
    total: Array = np.sum(parts, axis=0)
    return total


def _test(
    setting: _Setting,
    clients: Sequence[_Client],
    params: Float[Array, "s p"],
    lam: Float[Array, "s 2 a"],
    number: int,
) -> list[_Record]:
    test, groups = setting.data.test, setting.data.groups
    margin = margins(params, add_ones(test.x, setting.dtype), setting.hidden)
    right, apart = accuracies(margin, test), released_disparities(margin, test, groups)
    spd = parity_differences(margin, test)
    train_released = pool_clients(tuple(client.rows for client in clients))
    x = np.concatenate([client.local.x for client in clients])
    on_train = released_disparities(margins(params, x, setting.hidden), train_released, groups)
    return [
        {
            "round": number,
            "accuracy": float(right[place]),
            "disparity": {
                "demographic_parity": float(apart[place]),
                "spd": float(spd[place]) if groups == 2 else None,
            },
            "training_disparity": float(on_train[place]),
            "lam": lam[place].tolist(),
        }
        for place in range(len(params))
    ]


def _record(flags: Flags, seed: int, rounds: list[_Record]) -> _Record:
    """Return the record of a seed: the round whose model is reported, and all rounds."""
    chosen = (
        min(rounds, key=lambda record: record["training_disparity"])
        if flags.selection == "least-disparity"
        else rounds[-1]
    )
    return {
        "seed": seed,
        "accuracy": chosen["accuracy"],
        "disparity": chosen["disparity"],
        "reported_round": chosen["round"],
        "rounds": rounds,
    }
