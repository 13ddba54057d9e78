"""Every method by its name, in the order in which they are listed."""

from fedfb.algorithms import (
    afl,
    agnosticfair,
    ditto,
    fairbatch,
    fairfed,
    fairfl,
    fcfl,
    fedavg,
    fedfair,
    fedfb,
    fedfb_sums,
    fedprox,
    fpfl,
    gifair,
    hardt,
    lft_ensemble,
    lft_fedavg,
    q_ffl,
    reweighing,
    term,
    zafar,
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
        hardt.METHOD,
        fairbatch.METHOD,
        zafar.METHOD,
        agnosticfair.METHOD,
        fpfl.METHOD,
        fedfair.METHOD,
        fcfl.METHOD,
        fairfl.METHOD,
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


def register(method: Method) -> None:
    """Add a method under its name, for this process.

    >>> register(METHODS["fedavg"])  # the same once more: nothing changes
    """
    known = METHODS.get(method.name)
    if known is not None and known is not method:
        raise ConfigError(
            f"there is already an algorithm {method.name!r} ({known.summary}; {known.paper}). "
            "Give yours another name."
        )
    METHODS[method.name] = method
