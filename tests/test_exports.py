"""Names that packages import at first use."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["fedfb", "fedfb.data", "fedfb.engine", "fedfb.notions"])
def test_every_public_name_can_be_imported(package):
    home = import_module(package)
    assert dir(home) == sorted(home.__all__)
    for name in home.__all__:
        assert getattr(home, name) is not None
