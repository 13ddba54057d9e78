r"""What shows that a total is the sum of the vectors that clients signed, for everybody to check.

Let :math:`U_2` be the clients that have shared their secrets and :math:`U_3 \subseteq U_2` those
that have uploaded. The shares restore :math:`b_u` of every :math:`u \in U_3` and the mask key of
every :math:`v \in U_2 \setminus U_3`, and never both of the same client:

.. math:: \sum_{u \in U_3} x_u = \sum_{u \in U_3} \Big( y_u - G(b_u)
          - \sum_{v \in U_2 \setminus U_3} \pm\, G(s_{uv}) \Big) \pmod{2^{64}}

All on the right is public after the sum. Each client has signed its public keys, and its vector
with the hash of its seed. A server therefore cannot invent a total. A client that has the
evidence learns what the server learns: the total, and no single upload.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedfb.secure.encoding import (
    AuthenticationError,
    FormatError,
    pack,
    pack_entries,
    pack_number,
    require_clients,
    unpack,
    unpack_entries,
)
from fedfb.secure.keys import KEY_BYTES, SIGNATURE_BYTES, check_signature, derive_public_key
from fedfb.secure.messages import (
    commit_seed,
    derive_pair_mask_keys,
    derive_self_mask_key,
    read_keys,
    write_masked_text,
)
from fedfb.secure.roster import Session, require_enough
from fedfb.secure.secrets import WORD_BYTES, Ring, add_masks, read_ring

COMMITMENT_BYTES = 32


class Total(NamedTuple):
    """A sum in the ring, and the clients whose vectors it contains."""

    vector: Ring
    survivors: tuple[int, ...]


class Secrets(NamedTuple):
    """The restored secrets: seeds of survivors, mask keys of drop-outs, by client."""

    seeds: Mapping[int, bytes]
    mask_keys: Mapping[int, bytes]


class MaskedVector(NamedTuple):
    """A masked vector as its client signed it, with the hash of the client's seed."""

    commitment: bytes
    vector: bytes
    signature: bytes


class Evidence(NamedTuple):
    """The public part of a sum: signed keys and vectors by client, and the restored secrets."""

    keys: Mapping[int, bytes]
    masked: Mapping[int, MaskedVector]
    secrets: Secrets


def remove_masks(
    session: Session, masked: Ring, publics: Mapping[int, bytes], secrets: Secrets
) -> Total:
    """Return the total of the survivors' vectors.

    Args:
        session: the sum.
        masked: the sum of the masked vectors.
        publics: the public mask keys by client, of all clients that shared their secrets.
        secrets: the restored secrets, checked.
    """
    plus: list[bytes] = []
    survived = frozenset(secrets.seeds)
    minus = [derive_self_mask_key(session, u, secrets.seeds[u]) for u in sorted(survived)]
    for client, private in sorted(secrets.mask_keys.items()):
        # Masks between two drop-outs are in no vector that arrived.
        peers = survived & frozenset(session.roster.neighbours[client])
        pairs = derive_pair_mask_keys(
            session, private, client, {peer: publics[peer] for peer in peers}
        )
        # A survivor added the common mask if its own id is the lower one, and subtracted it if not.
        minus += [key for peer, key in pairs.items() if client > peer]
        plus += [key for peer, key in pairs.items() if client < peer]
    return Total(add_masks(masked, plus, minus), tuple(sorted(survived)))


def verify_total(session: Session, evidence: Evidence) -> Total:
    """Return the total that the evidence shows; refuse evidence that shows none.

    Raises:
        SecureError: a signature or a secret does not fit, or clients are missing.
    """
    keys, masked, secrets = evidence
    if not session.roster.clients[0].identity:
        raise FormatError("evidence needs clients with pinned identities.")
    require_clients(masked, set(masked) & set(keys) & set(session.roster.ids), "the evidence")
    require_clients(keys, set(keys) & set(session.roster.ids), "the evidence")
    require_clients(secrets.seeds, masked, "the seeds of the evidence")
    require_clients(secrets.mask_keys, set(keys) - set(masked), "the mask keys of the evidence")
    require_enough(masked, session, None, "uploaded")
    publics = {id: read_keys(body, session, id).mask for id, body in keys.items()}
    for id, private in secrets.mask_keys.items():
        if derive_public_key(private) != publics[id]:
            raise AuthenticationError(f"the mask key of client {id} is not the one it signed.")
    total = np.zeros(session.words, dtype=np.uint64)
    for id, signed in masked.items():
        check_masked(session, id, signed)
        if commit_seed(session, secrets.seeds[id]) != signed.commitment:
            raise AuthenticationError(f"the seed of client {id} is not the one it signed.")
        total += read_ring(signed.vector, session.words, f"the masked vector of client {id}")
    return remove_masks(session, total, publics, secrets)


def check_masked(session: Session, id: int, signed: MaskedVector) -> None:
    """Refuse a masked vector that its client has not signed."""
    text = write_masked_text(session, id, signed.commitment, signed.vector)
    identity = session.roster.by_id[id].identity
    check_signature(identity, text, signed.signature, f"the masked vector of client {id}")


def write_evidence(evidence: Evidence) -> bytes:
    """Write evidence, to be sent to every client after the sum."""
    masked = [pack_number(id) + b"".join(signed) for id, signed in sorted(evidence.masked.items())]
    return pack(
        pack_entries(evidence.keys),
        pack(*masked),
        pack_entries(evidence.secrets.seeds),
        pack_entries(evidence.secrets.mask_keys),
    )


def read_evidence(data: bytes, session: Session) -> Evidence:
    """Read what ``write_evidence`` returned; bytes of another size are refused."""
    keys, masked, seeds, mask_keys = unpack(data, "the evidence", 4)
    size = COMMITMENT_BYTES + WORD_BYTES * session.words + SIGNATURE_BYTES
    vectors = {
        id: MaskedVector(
            body[:COMMITMENT_BYTES],
            body[COMMITMENT_BYTES:-SIGNATURE_BYTES],
            body[-SIGNATURE_BYTES:],
        )
        for id, body in unpack_entries(masked, "the evidence", size).items()
    }
    return Evidence(
        unpack_entries(keys, "the keys of the evidence", 2 * KEY_BYTES + SIGNATURE_BYTES),
        vectors,
        Secrets(
            unpack_entries(seeds, "the seeds of the evidence", KEY_BYTES),
            unpack_entries(mask_keys, "the mask keys of the evidence", KEY_BYTES),
        ),
    )


def estimate_bytes(words: int, clients: int) -> int:
    """Return the bytes of the evidence of a sum, at most."""
    one = WORD_BYTES * words + COMMITMENT_BYTES + SIGNATURE_BYTES
    keys = 2 * KEY_BYTES + SIGNATURE_BYTES
    return clients * (one + keys + KEY_BYTES + 24) + 16
