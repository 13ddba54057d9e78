"""The only encoding of each message, readers that accept no other, and the errors of a secure sum.

A field is its length (four bytes, big-endian) and its bytes. A message is a sequence of fields. An
entry is a field that starts with the id of a client. Entries stand in strictly ascending order, so
that a duplicate cannot be written. A set of clients is one bit for each place of the roster.

No error message ever holds a key, a share or a value.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from fedfb.errors import FedFBError


class SecureError(FedFBError):
    """A secure sum was refused. The refusal reveals nothing."""


class FormatError(SecureError):
    """Bytes are not a message: truncated, trailing, duplicate, unknown or of a wrong size."""


class AuthenticationError(SecureError):
    """A tag, a ciphertext or a signature does not belong to its sender and exchange."""


class ProtocolError(SecureError):
    """A message comes at the wrong time: repeated, of another exchange, or asking too much."""


class ThresholdError(SecureError):
    """Fewer clients answered than the roster requires, or the roster requires too few."""


class RangeError(SecureError):
    """Fixed point cannot carry a value: not finite, beyond its bound, or of a wrong shape."""


def make_threshold_error(
    what: str, actual: int, expected: int, round: int, exchange: int
) -> ThresholdError:
    """Return the error of a sum with too few clients.

    Args:
        what: what the clients did, as a verb in the past: "joined", "uploaded".
        actual: how many clients did it.
        expected: how many the roster requires.
        round: the round of the sum.
        exchange: the number of the exchange within the round.
    """
    return ThresholdError(
        f"round {round}, exchange {exchange}: {actual} clients {what}, at least {expected} must. "
        "Nothing is revealed. Repeat the task when more clients are online."
    )


def pack_number(value: int) -> bytes:
    """Write a number in four bytes, big-endian.

    >>> pack_number(258).hex()
    '00000102'
    """
    return value.to_bytes(4, "big")


def pack(*fields: bytes) -> bytes:
    """Write fields one after the other, each after its length.

    >>> pack(b"ab", b"").hex(" ", 2)
    '0000 0002 6162 0000 0000'
    """
    return b"".join(part for field in fields for part in (pack_number(len(field)), field))


def unpack(data: bytes, what: str, fields: int) -> list[bytes]:
    """Read an exact number of fields; bytes after the last field are refused.

    Args:
        data: what ``pack`` returned.
        what: name of the data, for errors.
        fields: how many fields are expected.

    >>> unpack(pack(b"ab", b""), "a pair", 2)
    [b'ab', b'']
    """
    values = unpack_all(data, what)
    if len(values) != fields:
        raise FormatError(f"{what} has {len(values)} fields, expected {fields}.")
    return values


def unpack_all(data: bytes, what: str) -> list[bytes]:
    """Read all fields; bytes after the last field are refused."""
    fields, place = [], 0
    while place < len(data):
        start = place + 4
        end = start + int.from_bytes(data[place:start], "big")
        if start > len(data) or end > len(data):
            raise FormatError(
                f"{what} is cut off: {len(data)} bytes, the next field ends at {end}."
            )
        fields.append(data[start:end])
        place = end
    return fields


def pack_entries(entries: Mapping[int, bytes]) -> bytes:
    """Write one field for each client: its id and its bytes."""
    return pack(*(pack_number(client) + entries[client] for client in sorted(entries)))


def unpack_entries(data: bytes, what: str, size: int) -> dict[int, bytes]:
    """Read the entries of clients, by id.

    Args:
        data: what ``pack_entries`` returned.
        what: name of the data, for errors.
        size: bytes of each entry, without the id.

    >>> unpack_entries(pack_entries({7: b"xy", 3: b"ab"}), "a test", 2)
    {3: b'ab', 7: b'xy'}
    """
    entries: dict[int, bytes] = {}
    last = -1
    for field in unpack_all(data, what):
        client = int.from_bytes(field[:4], "big")
        if len(field) != 4 + size:
            raise FormatError(f"{what} has an entry of {len(field)} bytes, expected {4 + size}.")
        if client <= last:
            raise FormatError(f"{what} lists client {client} after {last}; ids must ascend.")
        entries[client] = field[4:]
        last = client
    return entries


def require_clients(actual: Iterable[int], expected: Iterable[int], what: str) -> None:
    """Refuse entries whose clients are not exactly the expected ones."""
    surplus, missing = sorted(set(actual) - set(expected)), sorted(set(expected) - set(actual))
    if surplus or missing:
        raise FormatError(
            f"{what} has unexpected entries of clients {surplus} and lacks entries of {missing}."
        )


def pack_set(clients: Collection[int], roster: Sequence[int]) -> bytes:
    """Write a set of clients: one bit for each place of the roster, the highest bit first.

    >>> pack_set({10, 12}, roster=[10, 11, 12]).hex()
    'a0'
    """
    subset = frozenset(clients)
    bits = "".join("1" if client in subset else "0" for client in roster)
    size = -(-len(roster) // 8)
    return int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big")


def unpack_set(data: bytes, roster: Sequence[int], what: str) -> frozenset[int]:
    """Read a set of clients.

    >>> sorted(unpack_set(bytes([0xA0]), roster=[10, 11, 12], what="a test"))
    [10, 12]
    """
    size = -(-len(roster) // 8)
    if len(data) != size:
        raise FormatError(f"{what} has a set of {len(data)} bytes, expected {size}.")
    bits = "".join(f"{byte:08b}" for byte in data)
    if "1" in bits[len(roster) :]:
        raise FormatError(
            f"{what} has a set with a place beyond the {len(roster)} clients of the roster."
        )
    return frozenset(client for client, bit in zip(roster, bits, strict=False) if bit == "1")
