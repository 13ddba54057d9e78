"""The laws: what tasks ask and clients send, what may change a result, and what must not."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from fedfb.algorithms.method import Method
from fedfb.core import Arrays, ClientData, ClientTask
from fedfb.errors import ConfigError
from fedfb.experiments.conformance.playing import (
    MODEL,
    ONE_STEP,
    ROUNDS,
    SCORES,
    Answer,
    Case,
    ConformanceError,
    PlayedRun,
    answers,
    ask_backwards,
    build_algorithm,
    close,
    copied,
    demand,
    finite,
    go_on,
    make_clients,
    odd_federations,
    results,
    run_asking,
    run_method,
    same,
    seen_by,
    split,
    start,
    usual_setting,
)
from fedfb.runtime import Trained, as_arrays, from_arrays, make_ask, reduce_uploads
from fedfb.shapes import Array, Float, Int


def check_a_task_is_pure(method: Method, notion: str, variant: str) -> None:
    """Run a task again, also after a task on other rows: the upload stays the same."""
    for answer, other in neighbours(answers(Case(method, notion, variant), make_clients())):
        task, subject = answer.task, f"the task {answer.task.name!r}"
        same(answer.upload, ask_again(answer), f"{subject} answers differently when asked twice")
        strange = other.data._replace(x=other.data.x + 1.5, y=1 - other.data.y)
        ask_again(other._replace(data=strange))
        same(
            answer.upload,
            ask_again(answer),
            f"what {subject} uploads depends on what another client was asked",
        )
        broadcast, memory = copied(answer.broadcast), copied(answer.memory)
        task.run(broadcast, answer.data, memory, answer.key)
        same(answer.broadcast, broadcast, f"{subject} writes into what was broadcast")
        same(
            answer.memory,
            memory,
            f"{subject} writes into its memory instead of returning a new one",
        )


def check_every_question_is_declared(method: Method, notion: str, variant: str) -> None:
    """Only tasks of ``Algorithm.tasks`` are run: these declare what the server receives."""
    case, clients = Case(method, notion, variant), make_clients()
    declared = {(task.name, task.reduce) for task in build_algorithm(case, clients).tasks}
    for answer in answers(case, clients):
        task = (answer.task.name, answer.task.reduce)
        demand(task in declared, f"asks {task[0]!r} ({task[1]}), which its tasks do not name")


def check_no_upload_holds_a_row(method: Method, notion: str, variant: str) -> None:
    """No upload contains the features of a row, and none grows with the number of rows.

    Every row is doubled first. A sum over a single row equals that row, whatever the method, and
    it changes when the row is doubled. A row that is sent as it is stays the same.
    """
    for answer in answers(Case(method, notion, variant), make_clients()):
        subject, rows = f"the task {answer.task.name!r} uploads", len(answer.data.y)
        twice, fewer = np.repeat(np.arange(rows), 2), np.arange(rows - 5)
        doubled = ask_again(answer._replace(data=_rows_of(answer.data, twice)))
        for name, value in doubled.items():
            demand(not _holds_a_row(value, answer.data.x), f"{subject} a row of data in {name!r}")
        shorter = ask_again(answer._replace(data=_rows_of(answer.data, fewer)))
        for name, value in answer.upload.items():
            shape, shorter_shape = np.shape(value), np.shape(shorter[name])
            demand(
                shape == shorter_shape,
                f"{subject} {name!r} of shape {shape} for {rows} rows and {shorter_shape} for "
                f"{rows - 5}: it grows with the number of rows",
            )


def check_an_upload_tells_nothing_by_its_shape(method: Method, notion: str, variant: str) -> None:
    """All clients send arrays of the same names, shapes and kinds, also one that lacks a group."""
    case = Case(method, notion, variant)
    for name in ("a client without a group", "a client without a cell"):
        shapes: dict[tuple[int, int], Mapping[str, tuple[object, ...]]] = {}
        for answer in answers(case, odd_federations()[name]):
            kinds = {key: (np.shape(v), np.asarray(v).dtype) for key, v in answer.upload.items()}
            first = shapes.setdefault((answer.key[1], answer.key[2]), kinds)
            demand(
                first == kinds or answer.task.reduce == "gather",
                f"with {name}, the task {answer.task.name!r} uploads {first} from one client and "
                f"{kinds} from another: a missing group must be sent as zeros",
            )


def check_one_row_moves_no_upload_further_than_declared(
    method: Method, notion: str, variant: str
) -> None:
    """Leaving out any one row moves an upload by at most its declared sensitivity.

    What is declared as 0 may be the model of private training, which is noisy by itself.
    """
    for answer in answers(Case(method, notion, variant), make_clients()):
        moved = {name: s for name, s in (answer.task.sensitivity or {}).items() if s > 0}
        everybody = np.arange(len(answer.data.y))
        for row in everybody if moved else ():
            others = _rows_of(answer.data, everybody[everybody != row])
            fewer = ask_again(answer._replace(data=others))
            for name, declared in moved.items():
                change = answer.upload[name] - fewer[name]
                runs = change.reshape(len(change), -1) if change.ndim > 2 else change.reshape(1, -1)
                far = float(np.linalg.norm(runs, axis=1).max())
                demand(
                    far <= declared + 1e-9,
                    f"one row moves {name!r} of the task {answer.task.name!r} by {far:.3g}, and "
                    f"{declared:g} is declared: noise in proportion to that would not hide it",
                )


def check_a_sum_is_all_the_server_needs(method: Method, notion: str, variant: str) -> None:
    """Give the server only sums, added in another order: the run stays the same, to 1e-9."""
    case, clients = Case(method, notion, variant), make_clients()
    plain = run_asking(case, clients, make_ask)
    other = run_asking(case, clients, partial(ask_backwards, _sum_from_the_end))
    close(
        results(plain, clients), results(other, clients), 1e-9, "the order of a sum changes the run"
    )


def neighbours(uploads: Sequence[Answer]) -> Iterator[tuple[Answer, Answer]]:
    """Yield the first client's uploads, each with the last client's upload for the same task."""
    last = {(a.key[1], a.key[2]): a for a in uploads}
    first: dict[tuple[int, int], Answer] = {}
    for answer in uploads:
        first.setdefault((answer.key[1], answer.key[2]), answer)
    for question, answer in first.items():
        yield answer, last[question]


def ask_again(answer: Answer) -> Arrays:
    with np.errstate(all="ignore"):
        broadcast, memory = copied(answer.broadcast), copied(answer.memory)
        return answer.task.run(broadcast, answer.data, memory, answer.key)[0]


def _sum_from_the_end(task: ClientTask, uploads: Sequence[Arrays]) -> Arrays:
    if task.reduce == "gather":
        return reduce_uploads(task, uploads)
    total = copied(uploads[-1])
    for upload in uploads[-2::-1]:
        total = {name: np.asarray(upload[name] + value) for name, value in total.items()}
    return total


def _rows_of(data: ClientData, rows: Int[Array, " k"]) -> ClientData:
    return data._replace(x=data.x[rows], y=data.y[rows], group=data.group[rows])


def _holds_a_row(value: Array, x: Float[Array, "n d"]) -> bool:
    """Return whether consecutive numbers of ``value`` are the features of a row of ``x``."""
    flat, features = np.asarray(value, dtype=float).ravel(), x.shape[1]
    if len(flat) < features:
        return False
    windows = np.lib.stride_tricks.sliding_window_view(flat, features)
    return bool(np.any(np.abs(windows[:, None] - x[None]).max(axis=2) <= 1e-12))


def check_the_same_seed_gives_the_same_bits(method: Method, notion: str, variant: str) -> None:
    """Run one algorithm twice, and a new one once: all runs have the same bits."""
    case, clients = Case(method, notion, variant), make_clients()
    first = run_method(case, clients)
    again = run_method(case, clients, algorithm=first.algorithm)
    same(as_arrays(first.trained), as_arrays(again.trained), "run a second time, it differs")
    anew = run_method(case, clients)
    same(as_arrays(first.trained), as_arrays(anew.trained), "built anew, it runs differently")


def check_the_order_of_clients_changes_no_bit(method: Method, notion: str, variant: str) -> None:
    """Clients that are listed, or visited, in reverse order give the same run."""
    case, clients = Case(method, notion, variant), make_clients()
    forward, backward = run_method(case, clients), run_method(case, clients[::-1])
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
    together = results(run_method(case, clients, grid), clients)
    for place, setting in enumerate(grid):
        alone = results(run_method(case, clients, [setting]), clients)
        inside = {name: value[place : place + 1] for name, value in together.items()}
        close(alone, inside, 1e-10, f"run {place} of a grid of 3 is not the run alone")


def check_a_run_can_be_saved_and_continued(method: Method, notion: str, variant: str) -> None:
    """State and memories survive as named arrays: the next round has the same bits."""
    case, clients = Case(method, notion, variant), make_clients()
    begun, trained_on = run_method(case, clients), seen_by(case, clients)
    saved = {name: np.array(value) for name, value in as_arrays(begun.trained).items()}
    unsaveable = sorted(name for name, value in saved.items() if value.dtype == object)
    demand(not unsaveable, f"cannot be saved as arrays: {', '.join(unsaveable)}")
    restored = from_arrays(build_algorithm(case, clients), saved)
    state, memories, history = begun.trained
    on = go_on(
        PlayedRun(begun.algorithm, Trained(state, dict(memories), history)),
        trained_on,
        [ROUNDS + 1],
    )
    later = go_on(PlayedRun(build_algorithm(case, clients), restored), trained_on, [ROUNDS + 1])
    same(
        as_arrays(on.trained),
        as_arrays(later.trained),
        "continued from what was saved, it differs: something is kept outside state and memory",
    )


def check_equal_models_average_to_themselves(method: Method, notion: str, variant: str) -> None:
    """Train at a learning rate of 1e-9: clients learn nothing, and the common model stays."""
    case, clients = Case(method, notion, variant), make_clients()
    after = results(run_method(case, clients, [usual_setting(case, lr=1e-9)]), clients)
    if MODEL in after:
        before = {MODEL: start(1)}
        broken = "clients that learn nothing change the model: their weights do not sum to one"
        close(before, after, 1e-6, broken)


def check_odd_federations_stay_finite(method: Method, notion: str, variant: str) -> None:
    """Train where a client lacks a group or a cell, on one client and with one group."""
    case = Case(method, notion, variant)
    for name, clients in odd_federations().items():
        try:
            done = run_method(case, clients)
        except ConfigError as error:
            raise ConformanceError(f"{name}: it refuses to run ({error})") from error
        finite(results(done, clients), name)


def check_partial_participation_stays_finite(method: Method, notion: str, variant: str) -> None:
    """With half of five clients in a round, training stays finite, or refuses with a message."""
    case, clients = Case(method, notion, variant), make_clients((20, 12, 15, 9, 16))
    try:
        done = run_method(case, clients, participation=0.5)
    except ConfigError:
        return
    finite(results(done, clients), "half of the clients in a round")


def check_dropouts_stay_finite(method: Method, notion: str, variant: str) -> None:
    """With two of five clients that drop out in a round, training stays finite, or refuses."""
    case, clients = Case(method, notion, variant), make_clients((20, 12, 15, 9, 16))
    try:
        done = run_method(case, clients, dropout=0.4)
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
        plain, exchanged = run_method(case, clients, setting), run_method(case, swapped, setting)
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
    whole = results(run_method(case, clients, **ONE_STEP), clients)
    for which in range(2):
        halves = split(clients, which)
        parts = results(run_method(case, halves, **ONE_STEP), clients)
        close(
            whole,
            parts,
            1e-9,
            f"splitting the rows of client {which} over two clients changes the run: an average "
            "is not weighted by what it averages, or something is added once per client",
        )
