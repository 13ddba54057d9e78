"""What every federated method must hold to, checked on tiny federations.

A check takes a method, a notion and a variant, and raises an error that says what is broken. The
suite runs on every method of the registry in the tests, and on a user's own with ``fedfb check``.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from fedfb.algorithms.method import GROUP_NOTIONS, Method
from fedfb.experiments.conformance import laws
from fedfb.experiments.conformance.playing import ConformanceError as ConformanceError

Check = Callable[[Method, str, str], None]

CHECKS: tuple[Check, ...] = (
    laws.check_the_same_seed_gives_the_same_bits,
    laws.check_the_order_of_clients_changes_no_bit,
    laws.check_a_run_alone_is_the_run_in_a_grid,
    laws.check_a_run_can_be_saved_and_continued,
    laws.check_a_task_is_pure,
    laws.check_every_question_is_declared,
    laws.check_no_upload_holds_a_row,
    laws.check_an_upload_tells_nothing_by_its_shape,
    laws.check_one_row_moves_no_upload_further_than_declared,
    laws.check_a_sum_is_all_the_server_needs,
    laws.check_equal_models_average_to_themselves,
    laws.check_odd_federations_stay_finite,
    laws.check_partial_participation_stays_finite,
    laws.check_dropouts_stay_finite,
    laws.check_groups_are_only_names,
    laws.check_splitting_a_client_changes_nothing,
)

ONLY_IF: Mapping[Check, Callable[[Method, str, str], bool]] = {
    laws.check_the_order_of_clients_changes_no_bit: (
        lambda method, notion, variant: not method.is_pooled(variant)
    ),
    laws.check_groups_are_only_names: lambda method, notion, variant: notion in GROUP_NOTIONS,
    laws.check_splitting_a_client_changes_nothing: (
        lambda method, notion, variant: (
            method.additive and (notion in GROUP_NOTIONS or not method.fair)
        )
    ),
}
"""The checks that do not apply to all, and when they do."""


class Failure(NamedTuple):
    """A check that failed, and the sentence that says what is broken."""

    check: str
    broken: str


def checks(method: Method) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return every check that applies by its name, for all notions and variants of a method."""
    for notion in method.notions:
        for variant in method.variants:
            for check in CHECKS:
                if ONLY_IF.get(check, _always)(method, notion, variant):
                    sentence = check.__name__.removeprefix("check_").replace("_", " ")
                    name = f"{notion}, {variant}: {sentence}"
                    yield name, partial(check, method, notion, variant)


def check_method(method: Method) -> list[Failure]:
    """Run all checks of a method and return those that failed."""
    outcomes = ((name, failure_of(check)) for name, check in checks(method))
    return [Failure(name, broken) for name, broken in outcomes if broken is not None]


def failure_of(check: Callable[[], None]) -> str | None:
    """Run one check and return what is broken, None if nothing is."""
    try:
        check()
    except AssertionError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  (the method is anybody's code: all it raises counts)
        return f"it stops with {type(error).__name__}: {error}"
    return None


def _always(method: Method, notion: str, variant: str) -> bool:
    return True
