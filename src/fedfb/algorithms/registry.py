"""Every method by its name, in the order of lists; a method is imported at first use."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from fedfb.algorithms.method import Method
from fedfb.errors import ConfigError, unknown_name

_HOME = {
    "fedavg": "fedavg.METHOD",
    "fedprox": "fedavg.FEDPROX",
    "fedfb": "fedfb.fedfb.METHOD",
    "cfl": "fedfb.fedfb.CFL",
    "fedfb-sums": "fedfb.sums.METHOD",
    "fedfb-thresholds": "fedfb.thresholds.METHOD",
    "lft-ensemble": "baselines.lft.LFT_ENSEMBLE",
    "lft-fedavg": "baselines.lft.LFT_FEDAVG",
    "fairfed": "baselines.fairfed.METHOD",
    "reweighing": "baselines.reweighing.METHOD",
    "hardt": "baselines.hardt.METHOD",
    "fairbatch": "baselines.fairbatch.METHOD",
    "zafar": "baselines.zafar.METHOD",
    "agnosticfair": "baselines.agnosticfair.METHOD",
    "fpfl": "baselines.fpfl.METHOD",
    "fedfair": "baselines.fedfair.METHOD",
    "fcfl": "baselines.fcfl.METHOD",
    "fairfl": "baselines.fairfl.METHOD",
    "q-ffl": "baselines.q_ffl.METHOD",
    "ditto": "baselines.ditto.METHOD",
    "gifair": "baselines.gifair.METHOD",
    "afl": "baselines.afl.METHOD",
    "term": "baselines.term.METHOD",
}


class Methods(MutableMapping[str, Method]):
    """Methods by name. A built-in method is imported at first access: a run needs one method."""

    def __init__(self) -> None:
        self._methods: dict[str, Method | None] = dict.fromkeys(_HOME)

    def __getitem__(self, name: str) -> Method:
        method = self._methods[name]
        if method is None:
            module, _, attribute = _HOME[name].rpartition(".")
            method = getattr(import_module(f"fedfb.algorithms.{module}"), attribute)
            self._methods[name] = method
        return method

    def __setitem__(self, name: str, method: Method) -> None:
        self._methods[name] = method

    def __delitem__(self, name: str) -> None:
        del self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


METHODS = Methods()


def find_method(name: str) -> Method:
    """Return the method with this name.

    >>> find_method("cfl").is_pooled("plain")
    True
    """
    if name not in METHODS:
        raise ConfigError(unknown_name("algorithm", name, METHODS))
    return METHODS[name]


def register(method: Method) -> None:
    """Add a method under its name, in this process.

    >>> register(METHODS["fedavg"])  # the same method again: nothing changes
    """
    present = METHODS.get(method.name)
    if present is not None and present is not method:
        raise ConfigError(
            f"there is already an algorithm {method.name!r} ({present.summary}; {present.paper}). "
            "Give yours another name."
        )
    METHODS[method.name] = method
