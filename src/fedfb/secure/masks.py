r"""Masks over :math:`\mathbb{Z}_{2^{64}}`: the key stream of ChaCha20, read as 64-bit numbers.

Client :math:`u` uploads (Bonawitz et al. 2017, section 4)

.. math:: y_u = x_u + G(b_u) + \sum_{v > u} G(s_{uv}) - \sum_{v < u} G(s_{uv}) \pmod{2^{64}}

with its own seed :math:`b_u` and a secret :math:`s_{uv}` with each neighbour :math:`v`. In the sum
over all clients the pairwise masks cancel.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedfb.secure.errors import FormatError

Ring = npt.NDArray[np.uint64]
"""A vector over the integers modulo 2^64."""

WORD_BYTES = 8
CHUNK_WORDS = 1 << 15
"""Words that are masked at a time: the stream and the vector fit into a processor's cache."""


def add_masks(vector: Ring, plus: Iterable[bytes], minus: Iterable[bytes]) -> Ring:
    """Return a vector plus the streams of some keys and minus the streams of others.

    Args:
        vector: elements of the ring; not changed.
        plus: keys whose streams are added.
        minus: keys whose streams are subtracted.

    >>> key = bytes(32)
    >>> masked = add_masks(np.arange(3, dtype=np.uint64), plus=[key], minus=[])
    >>> add_masks(masked, plus=[], minus=[key])
    array([0, 1, 2], dtype=uint64)
    """
    total = vector.copy()
    for key in plus:
        _add_stream(total, key, np.add)
    for key in minus:
        _add_stream(total, key, np.subtract)
    return total


def _add_stream(total: Ring, key: bytes, combine: np.ufunc) -> None:
    # Counter and nonce are zero: a key makes one stream only. A key used twice would show the
    # difference of two uploads.
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    # Encrypting zeros returns the key stream itself.
    zeros = memoryview(bytes(WORD_BYTES * min(CHUNK_WORDS, total.size)))
    buffer = bytearray(len(zeros))
    for start in range(0, total.size, CHUNK_WORDS):
        part = total[start : start + CHUNK_WORDS]
        stream.update_into(zeros[: part.nbytes], buffer)
        combine(part, np.frombuffer(buffer, "<u8", count=part.size), out=part)


def write_ring(vector: Ring) -> bytes:
    """Write a vector, eight bytes a word, little-endian."""
    return vector.astype("<u8", copy=False).tobytes()


def read_ring(data: bytes, words: int, what: str) -> Ring:
    """Read a vector.

    Args:
        data: what ``write_ring`` returned.
        words: how many words are expected.
        what: name of the vector, for errors.
    """
    if len(data) != WORD_BYTES * words:
        raise FormatError(f"{what} has {len(data)} bytes, expected {WORD_BYTES * words}.")
    return np.frombuffer(data, "<u8").astype(np.uint64)
