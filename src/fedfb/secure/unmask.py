r"""Take the masks off the sum.

Let :math:`U_2` have shared their secrets and :math:`U_3 \subseteq U_2` have uploaded. From the
shares the server restores :math:`b_u` of every :math:`u \in U_3` and the mask key of every
:math:`v \in U_2 \setminus U_3`, and never both of the same party:

.. math:: \sum_{u \in U_3} x_u = \sum_{u \in U_3} \Big( y_u - G(b_u)
          - \sum_{v \in U_2 \setminus U_3} \pm\, G(s_{uv}) \Big) \pmod{2^{64}}
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fedfb.secure.errors import ProtocolError, ThresholdError
from fedfb.secure.keys import public_key, sha256
from fedfb.secure.masks import Ring, add_masks
from fedfb.secure.messages import pair_mask_keys, self_mask_key
from fedfb.secure.roster import Session
from fedfb.secure.server import ServerState, mask_public_key
from fedfb.secure.shares import chosen_points, combine_weighted, weights_at_zero


class Total(NamedTuple):
    """A sum in the ring and whose vectors are in it."""

    vector: Ring
    survivors: tuple[int, ...]


def unmask(state: ServerState) -> Total:
    """Return the sum of the survivors' vectors; every restored secret is checked first."""
    if state.awaits is not None or state.masked is None:
        raise ProtocolError("the sum is not complete: close the last phase first.")
    session, restore = state.session, _restorer(state.session)
    gone = state.shared - state.survived
    plus: list[bytes] = []
    minus = [
        self_mask_key(session, party, _seed_of(state, restore, party))
        for party in sorted(state.survived)
    ]
    for party in sorted(gone):
        private = _mask_key_of(state, restore, party)
        peers = state.survived & frozenset(session.roster.neighbours[party])
        publics = {peer: mask_public_key(state, peer) for peer in peers}
        pairs = pair_mask_keys(session, private, party, publics)
        # A survivor has added the mask if the lost party's id is higher than its own.
        minus += [key for peer, key in pairs.items() if party > peer]
        plus += [key for peer, key in pairs.items() if party < peer]
    return Total(add_masks(state.masked, plus, minus), tuple(sorted(state.survived)))


Restore = Callable[[Mapping[int, bytes], int, str], bytes]


def _restorer(session: Session) -> Restore:
    known: dict[tuple[int, ...], dict[int, int]] = {}
    points, threshold = session.roster.points, session.roster.plan.threshold

    def restore(shares: Mapping[int, bytes], party: int, what: str) -> bytes:
        if len(shares) < threshold:
            raise ThresholdError(
                f"round {session.round}, question {session.question}: {len(shares)} holders gave "
                f"their share of the {what} of party {party}, at least {threshold} must. The sum "
                "stays masked."
            )
        placed = {points[holder]: share for holder, share in shares.items()}
        chosen = chosen_points(placed, threshold)
        # Neighbours on the complete graph interpolate from the same points.
        if chosen not in known:
            known[chosen] = weights_at_zero(chosen)
        return combine_weighted(placed, known[chosen])

    return restore


def _seed_of(state: ServerState, restore: Restore, party: int) -> bytes:
    shares = {w: r.seeds[party] for w, r in state.revealed.items() if party in r.seeds}
    seed = restore(shares, party, "self-mask")
    if sha256(state.session.digest, seed) != state.commitments[party]:
        raise _broken(party, "self-mask")
    return seed


def _mask_key_of(state: ServerState, restore: Restore, party: int) -> bytes:
    shares = {w: r.mask_keys[party] for w, r in state.revealed.items() if party in r.mask_keys}
    private = restore(shares, party, "mask key")
    if public_key(private) != mask_public_key(state, party):
        raise _broken(party, "mask key")
    return private


def _broken(party: int, what: str) -> ProtocolError:
    return ProtocolError(
        f"the shares of the {what} of party {party} restore something else than it committed to: "
        "a holder, or the party itself, gave false shares. The sum stays masked."
    )
