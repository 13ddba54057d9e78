"""Every method by its name."""

from fedfb.algorithms import fedavg, fedfb
from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError, unknown_name

METHODS: dict[str, Method] = {
    method.name: method for method in (fedavg.METHOD, fedfb.METHOD, fedfb.CFL)
}


def find_method(name: str) -> Method:
    """Return the method of that name.

    >>> find_method("cfl").is_pooled("plain")
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]
