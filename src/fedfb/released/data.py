"""The data sets of the paper's tables, by name."""

from collections.abc import Callable
from functools import lru_cache, partial

from fedfb.errors import ConfigError, unknown_name
from fedfb.released.adult import load_adult
from fedfb.released.bank import load_bank
from fedfb.released.compas import load_compas
from fedfb.released.fairfed import ALPHAS, load_adult_by_race, load_compas_by_sex
from fedfb.released.rows import ReleasedData
from fedfb.released.synthetic import SPLITS, load_synthetic

DATA: dict[str, Callable[[], ReleasedData]] = {
    **{name: partial(load_synthetic, name) for name in SPLITS},
    "adult": load_adult,
    "compas": load_compas,
    "bank": load_bank,
    **{f"adult-{name}": partial(load_adult_by_race, name) for name in ALPHAS},
    **{f"compas-{name}": partial(load_compas_by_sex, name) for name in ALPHAS},
}


@lru_cache(maxsize=1)  # cells of one table follow each other on the same rows
def load(name: str) -> ReleasedData:
    """Load a data set as the released code makes it."""
    if name not in DATA:
        raise ConfigError(unknown_name("released data set", name, DATA))
    return DATA[name]()
