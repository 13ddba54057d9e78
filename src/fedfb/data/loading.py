"""From a request to a federation: the one place that knows all loaders."""

from fedfb.data.adult import load_adult
from fedfb.data.bank import load_bank
from fedfb.data.compas import load_compas
from fedfb.data.federation import Federation
from fedfb.data.gaussians import load_gaussians
from fedfb.data.own import load_own
from fedfb.data.request import POPULATIONS, DataRequest, check_request
from fedfb.data.synthetic import load_synthetic

_PUBLISHED = {"adult": load_adult, "bank": load_bank, "compas": load_compas}


def load(request: DataRequest, split_seed: int) -> Federation:
    """Load what a request asks for; every random choice about the data follows the split seed.

    >>> federation = load(DataRequest("synthetic", rows=100, test_rows=50), split_seed=0)
    >>> len(federation.clients), sum(len(client.y) for client in federation.clients)
    (3, 100)
    """
    check_request(request)
    partition, sensitive_at_prediction = request.partition, request.sensitive_at_prediction
    if request.data in _PUBLISHED:
        return _PUBLISHED[request.data](partition, split_seed, sensitive_at_prediction)
    if request.data in POPULATIONS:
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
    return load_own(
        request.data,
        request.label or "",
        request.positive or "",
        request.sensitive,
        client_column=request.client_column,
        partition=partition,
        split_seed=split_seed,
        test=request.test,
        sensitive_at_prediction=sensitive_at_prediction,
    )
