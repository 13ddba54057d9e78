"""Every method by its name, in the order in which they are listed."""

from fedfb.algorithms import (
    afl,
    ditto,
    fairfed,
    fedavg,
    fedfb,
    fedfb_sums,
    fedprox,
    gifair,
    lft_ensemble,
    lft_fedavg,
    q_ffl,
    reweighing,
    term,
)
from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError, unknown_name

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        fedavg.METHOD,
        fedprox.METHOD,
        fedfb.METHOD,
        fedfb.CFL,
        fedfb_sums.METHOD,
        lft_ensemble.METHOD,
        lft_fedavg.METHOD,
        fairfed.METHOD,
        reweighing.METHOD,
        q_ffl.METHOD,
        ditto.METHOD,
        gifair.METHOD,
        afl.METHOD,
        term.METHOD,
    )
}


def find_method(name: str) -> Method:
    """Return the method of that name.

    >>> find_method("cfl").is_pooled("plain")
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]
