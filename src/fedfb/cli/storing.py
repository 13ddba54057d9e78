"""The store of records, as commands use it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedfb.experiments.records import Store


def make_store(no_store: bool) -> "Store | None":
    """Return the store of records, None where it is switched off."""
    from fedfb.experiments.records import Store, default_folder

    return None if no_store else Store(default_folder())
