"""Checks of whole runs: what may change a result, and what must not."""

from functools import partial

import numpy as np

from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError
from fedfb.experiments.conformance.playing import (
    MODEL,
    ONE_STEP,
    ROUNDS,
    SCORES,
    Case,
    ConformanceError,
    PlayedRun,
    ask_backwards,
    build,
    close,
    demand,
    finite,
    go_on,
    make_clients,
    odd_federations,
    results,
    run,
    run_asking,
    same,
    seen_by,
    split,
    start,
    usual_setting,
)
from fedfb.runtime import Trained, as_arrays, from_arrays, make_ask, reduce_uploads


def check_the_same_seed_gives_the_same_bits(method: Method, notion: str, variant: str) -> None:
    """Run one algorithm twice, and a new one once: all runs have the same bits."""
    case, clients = Case(method, notion, variant), make_clients()
    first = run(case, clients)
    again = run(case, clients, algorithm=first.algorithm)
    same(as_arrays(first.trained), as_arrays(again.trained), "run a second time, it differs")
    anew = run(case, clients)
    same(as_arrays(first.trained), as_arrays(anew.trained), "built anew, it runs differently")


def check_the_order_of_clients_changes_no_bit(method: Method, notion: str, variant: str) -> None:
    """Clients that are listed, or visited, in reverse order give the same run."""
    case, clients = Case(method, notion, variant), make_clients()
    forward, backward = run(case, clients), run(case, clients[::-1])
    broken = "the order of clients changes the run"
    same(as_arrays(forward.trained), as_arrays(backward.trained), broken)
    plain = run_asking(case, clients, make_ask)
    last_first = run_asking(case, clients, partial(ask_backwards, reduce_uploads))
    same(
        as_arrays(plain.trained),
        as_arrays(last_first.trained),
        f"{broken}, when the last is asked first",
    )


def check_a_run_alone_is_the_run_in_a_grid(method: Method, notion: str, variant: str) -> None:
    """Each run of a grid of three equals the same run alone, to 1e-10."""
    case, clients = Case(method, notion, variant), make_clients()
    usual = usual_setting(case)
    ends = [
        {name: knob.usual(notion)[1][end] for name, knob in method.knobs.items()} for end in (0, -1)
    ]
    grid = [{**usual, **ends[0], "lr": 0.02}, usual, {**usual, **ends[1], "lr": 0.04}]
    together = results(run(case, clients, grid), clients)
    for place, setting in enumerate(grid):
        alone = results(run(case, clients, [setting]), clients)
        inside = {name: value[place : place + 1] for name, value in together.items()}
        close(alone, inside, 1e-10, f"run {place} of a grid of 3 is not the run alone")


def check_a_run_can_be_saved_and_continued(method: Method, notion: str, variant: str) -> None:
    """State and memories survive as named arrays: the next round has the same bits."""
    case, clients = Case(method, notion, variant), make_clients()
    begun, trained_on = run(case, clients), seen_by(case, clients)
    saved = {name: np.array(value) for name, value in as_arrays(begun.trained).items()}
    unsaveable = sorted(name for name, value in saved.items() if value.dtype == object)
    demand(not unsaveable, f"cannot be saved as arrays: {', '.join(unsaveable)}")
    restored = from_arrays(build(case, clients), saved)
    state, memories, history = begun.trained
    on = go_on(
        PlayedRun(begun.algorithm, Trained(state, dict(memories), history)),
        trained_on,
        [ROUNDS + 1],
    )
    later = go_on(PlayedRun(build(case, clients), restored), trained_on, [ROUNDS + 1])
    same(
        as_arrays(on.trained),
        as_arrays(later.trained),
        "continued from what was saved, it differs: something is kept outside state and memory",
    )


def check_equal_models_average_to_themselves(method: Method, notion: str, variant: str) -> None:
    """Train at a learning rate of 1e-9: clients learn nothing, and the common model stays."""
    case, clients = Case(method, notion, variant), make_clients()
    after = results(run(case, clients, [usual_setting(case, lr=1e-9)]), clients)
    if MODEL in after:
        before = {MODEL: start(1)}
        broken = "clients that learn nothing change the model: their weights do not sum to one"
        close(before, after, 1e-6, broken)


def check_odd_federations_stay_finite(method: Method, notion: str, variant: str) -> None:
    """Train where a client lacks a group or a cell, on one client and with one group."""
    case = Case(method, notion, variant)
    for name, clients in odd_federations().items():
        try:
            done = run(case, clients)
        except ConfigError as error:
            raise ConformanceError(f"{name}: it refuses to run ({error})") from error
        finite(results(done, clients), name)


def check_partial_participation_stays_finite(method: Method, notion: str, variant: str) -> None:
    """With half of five clients in a round, training stays finite, or refuses with a message."""
    case, clients = Case(method, notion, variant), make_clients((20, 12, 15, 9, 16))
    try:
        done = run(case, clients, participation=0.5)
    except ConfigError:
        return
    finite(results(done, clients), "half of the clients in a round")


def check_dropouts_stay_finite(method: Method, notion: str, variant: str) -> None:
    """With two of five clients that drop out in a round, training stays finite, or refuses."""
    case, clients = Case(method, notion, variant), make_clients((20, 12, 15, 9, 16))
    try:
        done = run(case, clients, dropout=0.4)
    except ConfigError:
        return
    finite(results(done, clients), "clients that fall silent in the middle of a round")


def check_groups_are_only_names(method: Method, notion: str, variant: str) -> None:
    """Two groups with their numbers exchanged give the same model to 1e-6, also at the bounds."""
    case, clients = Case(method, notion, variant), make_clients()
    swapped = tuple(client._replace(group=1 - client.group) for client in clients)
    # So large a step drives the weights to their bounds.
    for alpha in ({}, {"alpha": 20.0}):
        setting = [usual_setting(case, **alpha)]
        plain, exchanged = run(case, clients, setting), run(case, swapped, setting)
        expected, mapped = results(plain, clients), results(exchanged, swapped)
        names = [name for name in (MODEL, SCORES) if name in expected]
        at = f" at {alpha}" if alpha else ""
        close(
            {name: expected[name] for name in names},
            {name: mapped[name] for name in names},
            1e-6,
            f"exchanging the numbers of two groups changes the run{at}",
        )


def check_splitting_a_client_changes_nothing(method: Method, notion: str, variant: str) -> None:
    """Split one client in two: model, signal and lambda stay the same, to 1e-9.

    With one gradient step on all rows a round. Only for methods that say they are ``additive``.
    """
    case, clients = Case(method, notion, variant), make_clients()
    whole = results(run(case, clients, **ONE_STEP), clients)
    for which in range(2):
        halves = split(clients, which)
        parts = results(run(case, halves, **ONE_STEP), clients)
        close(
            whole,
            parts,
            1e-9,
            f"splitting the rows of client {which} over two clients changes the run: an average "
            "is not weighted by what it averages, or something is added once per client",
        )
