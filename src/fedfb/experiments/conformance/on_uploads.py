"""Checks of tasks and uploads: what clients are asked, and what they send."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from fedfb.algorithms.method import Method
from fedfb.core import Arrays, ClientData, ClientTask
from fedfb.experiments.conformance.playing import (
    Answer,
    Case,
    answers,
    ask_backwards,
    build,
    close,
    copied,
    demand,
    make_clients,
    odd_federations,
    results,
    run_asking,
    same,
)
from fedfb.runtime import make_ask, reduce_uploads
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
    declared = {(task.name, task.reduce) for task in build(case, clients).tasks}
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
