"""Every method of the registry holds to what every method must hold to."""

import pytest

from fedfb.algorithms import METHODS
from fedfb.experiments.conformance import check_method

CASES = [
    (name, notion, variant)
    for name, method in METHODS.items()
    for notion in method.notions
    for variant in method.variants
    if notion == method.notions[0] or variant == method.variants[0]
]
"""Every notion in the usual variant, every variant for the first notion: `fedfb check` runs all."""


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize(("name", "notion", "variant"), CASES, ids=str)
def test_a_method_conforms(name, notion, variant, engine, monkeypatch):
    monkeypatch.setenv("FEDFB_ENGINE", engine)
    assert check_method(METHODS[name]._replace(notions=(notion,), variants=(variant,))) == []
