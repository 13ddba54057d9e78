"""The released code's rows as a federation: what our methods make of them, split as they are."""

import numpy as np

from fedfb.core import ClientData, Examples
from fedfb.data import Federation
from fedfb.data.columns import NumberColumn
from fedfb.data.encode import Encoder
from fedfb.data.groups import Groups
from fedfb.released.rows import ReleasedData


def as_federation(data: ReleasedData) -> Federation:
    """Return the rows as our methods read them, every feature as it is.

    A client's rows are all of them: the tenth that the released code sets aside is among them, as
    our methods set their own aside. Test rows belong to no client.
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
