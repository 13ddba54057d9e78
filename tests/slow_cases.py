"""Mark cases of a test as slow: `make test` runs the others, and `make test-all` every case."""

from collections.abc import Callable, Iterable

import pytest


def slow_unless(is_fast: Callable[..., bool], cases: Iterable) -> list:
    """Return the cases of a parametrised test, slow ones marked.

    Args:
        is_fast: called with the values of a case.
        cases: a tuple of values each, or one value.

    """
    tuples = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=() if is_fast(*case) else pytest.mark.slow) for case in tuples
    ]
