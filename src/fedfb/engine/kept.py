"""What is made of arrays that nobody can write into, kept for as long as they live."""

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from fedfb.shapes import Array

T = TypeVar("T")


class Kept(Generic[T]):
    """What was made, by the arrays it was made of and a name.

    >>> import numpy as np
    >>> kept, rows = Kept(), np.arange(3)
    >>> rows.flags.writeable = False
    >>> kept.of((rows,), "sum", lambda: [rows.sum()]) is kept.of((rows,), "sum", list)
    True
    >>> del rows
    >>> len(kept)
    0
    """

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[weakref.ref[Array], ...], T]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def of(self, arrays: tuple[Array, ...], name: Hashable, make: Callable[[], T]) -> T:
        """Return what is made of read-only arrays; of others it is made anew each time."""
        if any(array.flags.writeable for array in arrays):
            return make()
        key = (*map(id, arrays), name)
        refs, made = self._found.get(key, ((), None))
        if made is None or any(ref() is not array for ref, array in zip(refs, arrays, strict=True)):
            made = make()
            refs = tuple(
                weakref.ref(array, lambda _: self._found.pop(key, None)) for array in arrays
            )
            self._found[key] = refs, made
        return made

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
