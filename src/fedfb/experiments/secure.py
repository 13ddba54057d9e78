"""What ``--secure`` asks of an experiment: who must refuse it, and what carries its uploads."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from fedfb.algorithms import Method
from fedfb.core import Algorithm, Arrays
from fedfb.data.statistics import AddUp
from fedfb.errors import ConfigError, DisclosureError
from fedfb.experiments.spec import Experiment
from fedfb.extras import refuse_without
from fedfb.runtime import Carry, Ledger, carry_unmasked
from fedfb.runtime.boundary import Exchange
from fedfb.runtime.ledger import NOTHING_DONE
from fedfb.runtime.loop import SETUP

if TYPE_CHECKING:  # pathlib takes longer to import than the rest of this file
    from pathlib import Path

WIDEST_SUM = 2.0**72
"""The bound of sums over columns, which are in units of their own."""


class ColumnQuestion(NamedTuple):
    """A task on rows as they are read, before a client has features: it needs only sums."""

    name: str
    bounds: Mapping[str, float]
    reduce: Literal["sum", "gather"] = "sum"
    bits: Mapping[str, int] = MappingProxyType({})


def column_question(name: str, like: Arrays) -> ColumnQuestion:
    """Return a task with the bounds that uploads like this one have.

    Args:
        name: of the task.
        like: an upload; arrays of floats get a bound, counts need none.

    >>> import numpy as np
    >>> column_question("column sums", {"present": np.array([3]), "sums": np.array([0.5])}).bounds
    {'sums': 4.722366482869645e+21}
    """
    return ColumnQuestion(name, {k: WIDEST_SUM for k, v in like.items() if v.dtype.kind == "f"})


def make_carry(experiment: Experiment, clients: Sequence[str], ledger: Ledger | None) -> Carry:
    """Return what takes uploads to the server: masked under ``--secure``, else unmasked.

    Too few clients for a secure sum are refused.

    Args:
        experiment: says whether uploads are masked, and how many clients drop out.
        clients: names of the clients.
        ledger: where each message is recorded.
    """
    record = ledger.write if ledger else None
    if not experiment.secure:
        return carry_unmasked(record)
    from fedfb.runtime.secure import carry_masked, refuse_too_few  # here: it needs cryptography

    refuse_too_few(len(clients), experiment.participation, experiment.dropout)
    return carry_masked(clients, experiment.dropout, record)


def make_add(experiment: Experiment, path: "Path | None", split: int) -> AddUp:
    """Return what adds up the statistics of columns: masked under ``--secure``, else unmasked.

    Args:
        experiment: says whether uploads are masked.
        path: the file of the ledger; None writes no ledger.
        split: number of the split, recorded as the seed of the ledger.
    """
    numbers = count()

    @cache
    def carrier(names: tuple[str, ...]) -> Carry:
        ledger = Ledger(path, "data", split, names) if path else None
        carry = make_carry(experiment, names, ledger)
        if ledger:
            ledger.begin(NOTHING_DONE)
        return carry

    def add(question: str, broadcast: Arrays, answers: Mapping[str, Arrays]) -> Arrays:
        uploads = dict(enumerate(answers.values()))
        asked_for = column_question(question, uploads[0])
        place = Exchange(SETUP, next(numbers), asked_for, broadcast, tuple(uploads), {})
        return carrier(tuple(answers))(place, uploads)

    return add


def make_audit_add(secure: bool, path: "Path | None") -> AddUp:
    """Return what adds up the tables of an audit, with a ledger where a path is given."""
    if secure:
        refuse_without_cryptography()
    return make_add(Experiment(secure=secure), path, split=0)


def refuse_without_cryptography() -> None:
    """Refuse secure sums where they are not installed."""
    refuse_without("privacy", "--secure", "cryptography")


def single_tasks(algorithm: Algorithm) -> list[str]:
    """Return the names of tasks of which a method needs each client's upload."""
    return [task.name for task in algorithm.tasks if task.reduce == "gather"]


def refuse_disclosure(method: Method, variant: str, algorithm: Algorithm) -> None:
    """Refuse secure sums where they are not installed, or where a method does not sum."""
    refuse_without_cryptography()
    if method.is_pooled(variant):
        raise ConfigError(
            f"{method.name} ({variant}) trains on all rows in one place: nothing is summed there, "
            "so --secure has nothing to hide. Leave it out, or choose a method that needs only "
            "sums (fedfb list --algorithms)."
        )
    single = single_tasks(algorithm)
    if single:
        raise DisclosureError(
            f"{method.name} needs every client's own answer to {' and '.join(map(repr, single))}, "
            "and under --secure the server receives only sums. Choose a method that needs only "
            "sums (fedfb list --algorithms); for client parity: fedfb without --bits, --alpha and "
            "--outer, or fedfb-sums."
        )
