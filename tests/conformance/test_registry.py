"""Every method of the registry holds to what every method must hold to."""

import pytest

from fedfb.algorithms import METHODS
from fedfb.experiments.conformance import check_method
from slow_cases import slow_unless

CASES = [
    (name, notion, variant)
    for name, method in METHODS.items()
    for notion in method.notions
    for variant in method.variants
    if notion == method.notions[0] or variant == method.variants[0]
]
"""Every notion in the usual variant, every variant for the first notion: `fedfb check` runs all."""


def is_usual(engine, name, notion, variant):
    is_first = (notion, variant) == (METHODS[name].notions[0], METHODS[name].variants[0])
    return is_first and (engine == "native" or name in ("fedavg", "fedfb"))


ENGINES = [(engine, *case) for engine in ("native", "numpy") for case in CASES]


@pytest.mark.parametrize(
    ("engine", "name", "notion", "variant"),
    slow_unless(is_usual, ENGINES),
    ids=str,
)
def test_a_method_conforms(engine, name, notion, variant, monkeypatch):
    monkeypatch.setenv("FEDFB_ENGINE", engine)
    assert check_method(METHODS[name]._replace(notions=(notion,), variants=(variant,))) == []
