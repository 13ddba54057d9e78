"""What a party keeps for the length of a run: its keys, the roster, and how far it has answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fedfb.secure.errors import AuthenticationError, ProtocolError
from fedfb.secure.keys import KEY_BYTES, Random, identity_public_key, public_key, urandom
from fedfb.secure.roster import Party, Roster


@dataclass(frozen=True)
class PartyKeys:
    """The private keys of one party for one run. ``identity`` is empty where none is pinned."""

    id: int
    link: bytes = field(repr=False)
    identity: bytes = field(repr=False)

    @property
    def party(self) -> Party:
        """Its public entry in the roster."""
        identity = identity_public_key(self.identity) if self.identity else b""
        return Party(self.id, public_key(self.link), identity)


def make_party_keys(id: int, identity: bytes = b"", random: Random = urandom) -> PartyKeys:
    """Draw a party's link key for one run; an identity key outlives runs and is given."""
    return PartyKeys(id, random(KEY_BYTES), identity)


@dataclass(frozen=True)
class Member:
    """A party that has accepted a roster. ``last`` is the latest round and question it joined."""

    keys: PartyKeys
    roster: Roster
    pins: Mapping[int, bytes] | None = None
    last: tuple[int, int] = (-1, -1)


def accept(
    keys: PartyKeys, roster: Roster, server: bytes, pins: Mapping[int, bytes] | None = None
) -> Member:
    """Take part under this roster, or refuse it.

    ``server`` is the server's link key, and ``pins`` the identities of the parties, both known
    beforehand and not from the server. Without pins a server that makes up parties is not noticed.
    """
    if roster.server != server:
        raise AuthenticationError("the roster names another server key than the one expected.")
    if roster.by_id.get(keys.id) != keys.party:
        raise ProtocolError(f"the roster does not list party {keys.id} with its own keys.")
    if pins is not None:
        strange = [p.id for p in roster.parties if not p.identity or pins.get(p.id) != p.identity]
        if strange:
            raise AuthenticationError(
                f"the roster gives parties {strange} identities that are not the pinned ones."
            )
    return Member(keys, roster, pins)


def change_roster(member: Member, roster: Roster) -> Member:
    """Accept another roster of the same run; what was answered stays answered."""
    if roster.run != member.roster.run:
        raise ProtocolError("a roster of another run needs other keys: accept it anew.")
    accepted = accept(member.keys, roster, member.roster.server, member.pins)
    return replace(accepted, last=member.last)
