"""One way to write each message, and a reader that accepts no other.

A field is its length (four bytes, big-endian) and its bytes. A message is a sequence of fields.
Entries are fields that start with a party's id and stand in strictly ascending order, so that a
duplicate cannot be written. A set of parties is one bit for each place of the roster.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from fedfb.secure.errors import FormatError


def number(value: int) -> bytes:
    """Write a number of four bytes.

    >>> number(258).hex()
    '00000102'
    """
    return value.to_bytes(4, "big")


def pack(*fields: bytes) -> bytes:
    """Write fields one after the other, each behind its length.

    >>> pack(b"ab", b"").hex(" ", 2)
    '0000 0002 6162 0000 0000'
    """
    return b"".join(part for field in fields for part in (number(len(field)), field))


def unpack(data: bytes, what: str, fields: int) -> list[bytes]:
    """Read exactly so many fields, and nothing behind them.

    >>> unpack(pack(b"ab", b""), "a pair", 2)
    [b'ab', b'']
    """
    found = unpack_all(data, what)
    if len(found) != fields:
        raise FormatError(f"{what} has {len(found)} fields, expected {fields}.")
    return found


def unpack_all(data: bytes, what: str) -> list[bytes]:
    """Read however many fields there are, and nothing behind them."""
    found, place = [], 0
    while place < len(data):
        start = place + 4
        end = start + int.from_bytes(data[place:start], "big")
        if start > len(data) or end > len(data):
            raise FormatError(
                f"{what} is cut off: {len(data)} bytes, the next field ends at {end}."
            )
        found.append(data[start:end])
        place = end
    return found


def pack_entries(entries: Mapping[int, bytes]) -> bytes:
    """Write one field for each party: its id and its bytes."""
    return pack(*(number(party) + entries[party] for party in sorted(entries)))


def unpack_entries(data: bytes, what: str, size: int) -> dict[int, bytes]:
    """Read the entries of parties, each of ``size`` bytes.

    >>> unpack_entries(pack_entries({7: b"xy", 3: b"ab"}), "a test", 2)
    {3: b'ab', 7: b'xy'}
    """
    entries: dict[int, bytes] = {}
    last = -1
    for field in unpack_all(data, what):
        party = int.from_bytes(field[:4], "big")
        if len(field) != 4 + size:
            raise FormatError(f"{what} has an entry of {len(field)} bytes, expected {4 + size}.")
        if party <= last:
            raise FormatError(f"{what} lists party {party} after {last}; ids must ascend.")
        entries[party] = field[4:]
        last = party
    return entries


def require_parties(found: Iterable[int], expected: Iterable[int], what: str) -> None:
    """Refuse entries of other parties than the expected ones."""
    surplus, missing = sorted(set(found) - set(expected)), sorted(set(expected) - set(found))
    if surplus or missing:
        raise FormatError(f"{what} has entries too many for {surplus} and none for {missing}.")


def pack_set(members: Collection[int], roster: Sequence[int]) -> bytes:
    """Write a set of parties, one bit for each place of the roster, the first one highest.

    >>> pack_set({10, 12}, roster=[10, 11, 12]).hex()
    'a0'
    """
    chosen = frozenset(members)
    bits = "".join("1" if party in chosen else "0" for party in roster)
    size = -(-len(roster) // 8)
    return int(bits.ljust(8 * size, "0"), 2).to_bytes(size, "big")


def unpack_set(data: bytes, roster: Sequence[int], what: str) -> frozenset[int]:
    """Read a set of parties.

    >>> sorted(unpack_set(bytes([0xA0]), roster=[10, 11, 12], what="a test"))
    [10, 12]
    """
    size = -(-len(roster) // 8)
    if len(data) != size:
        raise FormatError(f"{what} has a set of {len(data)} bytes, expected {size}.")
    bits = "".join(f"{byte:08b}" for byte in data)
    if "1" in bits[len(roster) :]:
        raise FormatError(f"{what} has a set with a place beyond the {len(roster)} of the roster.")
    return frozenset(party for party, bit in zip(roster, bits, strict=False) if bit == "1")
