"""Load files with flags as arguments, as a run loads those of its request."""

from dataclasses import asdict

from fedfb.data import DataRequest, Federation
from fedfb.data.own import load_own as load_request
from fedfb.tables.dialect import DETECT, FLAGS, Dialect

_OPTIONS = ("split_seed", "add", "labels", "precision")


def load_own(
    pattern: str,
    label: str | None = None,
    positive: str | None = None,
    sensitive: tuple[str, ...] = (),
    *,
    dialect: Dialect = DETECT,
    **settings: object,
) -> Federation:
    options = {name: settings.pop(name) for name in _OPTIONS if name in settings}
    marks = {name: mark for name, mark in asdict(dialect).items() if name in FLAGS}
    request = DataRequest(pattern, label, positive, sensitive, **marks, **settings)
    return load_request(request, **options)
