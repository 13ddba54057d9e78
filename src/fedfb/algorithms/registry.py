"""Every method by its name, in the order in which they are listed; imported when first used."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError, unknown_name

_HOME = {
    "fedavg": "fedavg.METHOD",
    "fedprox": "fedprox.METHOD",
    "fedfb": "fedfb.METHOD",
    "cfl": "fedfb.CFL",
    "fedfb-sums": "fedfb_sums.METHOD",
    "fedfb-thresholds": "fedfb_thresholds.METHOD",
    "lft-ensemble": "lft_ensemble.METHOD",
    "lft-fedavg": "lft_fedavg.METHOD",
    "fairfed": "fairfed.METHOD",
    "reweighing": "reweighing.METHOD",
    "hardt": "hardt.METHOD",
    "fairbatch": "fairbatch.METHOD",
    "zafar": "zafar.METHOD",
    "agnosticfair": "agnosticfair.METHOD",
    "fpfl": "fpfl.METHOD",
    "fedfair": "fedfair.METHOD",
    "fcfl": "fcfl.METHOD",
    "fairfl": "fairfl.METHOD",
    "q-ffl": "q_ffl.METHOD",
    "ditto": "ditto.METHOD",
    "gifair": "gifair.METHOD",
    "afl": "afl.METHOD",
    "term": "term.METHOD",
}


class Methods(MutableMapping[str, Method]):
    """Methods by name. One of ours is imported when it is looked at: a run needs one of them."""

    def __init__(self) -> None:
        self._known: dict[str, Method | None] = dict.fromkeys(_HOME)

    def __getitem__(self, name: str) -> Method:
        found = self._known[name]
        if found is None:
            module, _, attribute = _HOME[name].partition(".")
            found = getattr(import_module(f"fedfb.algorithms.{module}"), attribute)
            self._known[name] = found
        return found

    def __setitem__(self, name: str, method: Method) -> None:
        self._known[name] = method

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


METHODS = Methods()


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
