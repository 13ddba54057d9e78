"""The differences between the released code and FedFB as it should be, each under a name.

``as_federation`` gives the rows of the released code, with their split, to our methods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from fedfb.core import ClientData, Examples
from fedfb.data import Federation
from fedfb.data.columns import NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.errors import ConfigError, unknown_name
from fedfb.paper.released.data import ReleasedData


@dataclass(frozen=True)
class Flags:
    """The rules of one method; the first value of each is that of the printed two-group digits.

    averaging
        ``first-unweighted``: the first client's model enters with weight 1, not with its own.
        ``weighted``: every model with its own weight.
    rate
        ``decaying``: the learning rate of round t is lr / t. ``constant``: lr.
    fillers
        ``drawn``: each batch draws normal numbers that nobody uses, which moves later epochs'
        order. ``none``: not. Taken to be so because only then all digits come out.
    signal
        Losses that move lambda. ``label-one``: cross-entropy towards label 1, whatever the label.
        ``cross-entropy``: towards the label. ``zero-one``: wrong decisions.
    return_step
        Two groups, 2021 only. ``mixed``: when lambda must come back, cells of group 1 are set to
        1 minus those of group 0. ``mirrored``: the step forth, reversed.
    constant
        ``per-client``: the label-share term of the signal counts once per client. ``once``.
    bound
        ``first-group``: every group's weights are bounded by group 0's share. ``own-group``.
    step
        ``plain``: alpha / sqrt(t) times the signal. ``normalised``: the signal has length 1.
    selection
        ``last``: the last round's model is reported. ``least-disparity``: that of the round with
        the least disparity on training rows.
    """

    averaging: Literal["first-unweighted", "weighted"] = "first-unweighted"
    rate: Literal["decaying", "constant"] = "decaying"
    fillers: Literal["drawn", "none"] = "drawn"
    signal: Literal["label-one", "cross-entropy", "zero-one"] = "label-one"
    return_step: Literal["mixed", "mirrored"] = "mixed"
    constant: Literal["per-client", "once"] = "per-client"
    bound: Literal["first-group", "own-group"] = "first-group"
    step: Literal["plain", "normalised"] = "plain"
    selection: Literal["last", "least-disparity"] = "last"


RELEASED_METHODS = ("fedavg", "fedfb", "fedfb-2022")
"""FedAvg, FedFB of October 2021 (the printed digits), FedFB of the last release (2022)."""


def make_flags(method: str, groups: int, changes: Mapping[str, Any]) -> Flags:
    """Return the flags of a method.

    Args:
        method: one of ``METHODS``.
        groups: number of groups; FedFB of 2021 has other rules for two groups.
        changes: flags that differ from the method's, checked by name and value.

    >>> make_flags("fedavg", 2, {"averaging": "weighted"}).averaging
    'weighted'
    """
    if method not in RELEASED_METHODS:
        raise ConfigError(unknown_name("released method", method, RELEASED_METHODS))
    values = {name: get_args(hint) for name, hint in get_type_hints(Flags).items()}
    for name, value in changes.items():
        if name not in values:
            raise ConfigError(unknown_name("flag", name, [field.name for field in fields(Flags)]))
        if value not in values[name]:
            raise ConfigError(unknown_name(f"value of {name}", str(value), values[name]))
    return replace(_usual(method, groups), **changes)


def _usual(method: str, groups: int) -> Flags:
    """Return a method's own rules; FedFB of 2021 has two kinds, by the number of groups."""
    if method == "fedfb" and groups == 2:
        return Flags()
    later = Flags(rate="constant", fillers="none")
    return later if method == "fedfb" else replace(later, signal="cross-entropy")


def as_federation(data: ReleasedData) -> Federation:
    """Return the rows as a federation for our methods, every feature as it is.

    A client has all its rows, with the tenth that the released code keeps for validation: our
    methods hold out their own validation rows. Test rows belong to no client.
    """
    features = tuple(f"x{number}" for number in range(data.test.x.shape[1]))
    groups = Groups(("group",), tuple(str(number) for number in range(data.groups)))
    as_they_are = tuple(NumberColumn(name, 0.0, 1.0, False) for name in features)
    clients = [
        ClientData(number, rows.x, rows.y, rows.group, data.groups)
        for number, rows in enumerate(data.clients)
    ]
    test = data.test
    return Federation(
        name=data.name,
        clients=tuple(clients),
        test=Examples(test.x, test.y, test.group, np.full(len(test.y), -1)),
        group_names=groups.names,
        client_names=tuple(f"client {number}" for number in range(len(clients))),
        feature_names=features,
        # The group is the last feature already.
        encoder=Encoder(as_they_are, groups, "y", "1", sensitive_at_prediction=False),
    )
