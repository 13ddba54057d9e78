"""From a request to a federation: the one place that knows all loaders."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module

from fedfb.data.federation import Federation, settle_small_groups
from fedfb.data.request import BUILT_IN, POPULATIONS, DataRequest, check_request
from fedfb.data.statistics import AddUp, add_in_clear
from fedfb.errors import ConfigError

PUBLISHED = ("adult", "bank", "compas")


def load(request: DataRequest, split_seed: int, add: AddUp = add_in_clear) -> Federation:
    """Load what a request asks for; every random choice about the data follows the split seed.

    Small groups are merged where the request names a group for them.

    ``add`` adds up what the owners of one's own files say of their columns; built-in data are
    prepared as one table, before they are dealt to clients.

    >>> federation = load(DataRequest("synthetic", rows=100, test_rows=50), split_seed=0)
    >>> len(federation.clients), sum(len(client.y) for client in federation.clients)
    (3, 100)
    """
    check_request(request)
    federation = _load(request, split_seed, add)
    if request.data not in BUILT_IN:
        return federation  # settled where files and frames are read
    return settle_small_groups(federation, request.minimum_group, request.rest)


def _load(request: DataRequest, split_seed: int, add: AddUp) -> Federation:
    partition, sensitive_at_prediction = request.partition, request.sensitive_at_prediction
    # Loaders are imported where they are used: a run needs one of them.
    if request.data in PUBLISHED:
        module = import_module(f"fedfb.data.{request.data}")
        load_rows = getattr(module, f"load_{request.data}")
        if request.sensitive:
            load_rows = partial(load_rows, sensitive=_attributes(request, module.ATTRIBUTES))
        found: Federation = load_rows(
            partition, split_seed, sensitive_at_prediction, request.resplit
        )
        return found
    if request.data in POPULATIONS:
        from fedfb.data.gaussians import load_gaussians

        return load_gaussians(
            request.data,
            partition,
            split_seed,
            sensitive_at_prediction,
            q=request.q,
            rows=request.rows,
            test_rows=request.test_rows,
        )
    if request.data == "synthetic":
        from fedfb.data.synthetic import load_synthetic

        return load_synthetic(
            partition,
            split_seed,
            sensitive_at_prediction,
            clients=request.clients,
            groups=request.groups,
            heterogeneity=request.heterogeneity,
            rows=request.rows,
            test_rows=request.test_rows,
        )
    from fedfb.data.own import load_own

    return load_own(
        request.data,
        request.label or "",
        request.positive or "",
        request.sensitive,
        client_column=request.client_column,
        ignore=request.ignore,
        bins=request.bins,
        merge=request.merge,
        schema=request.schema,
        partition=partition,
        split_seed=split_seed,
        test=request.test,
        sensitive_at_prediction=sensitive_at_prediction,
        minimum_group=request.minimum_group,
        rest=request.rest,
        add=add,
    )


def _attributes(request: DataRequest, known: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the attributes that form the groups, in the order in which they are known."""
    for attributes in known:
        if sorted(attributes) == sorted(request.sensitive):
            return attributes
    raise ConfigError(
        f"the groups of {request.data} can be formed by "
        f"{' or '.join(','.join(one) for one in known)}, not by {','.join(request.sensitive)!r}."
    )
