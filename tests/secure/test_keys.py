"""Known answers: the primitives are those of the RFCs, and our derivations never change."""

import hashlib
import hmac
import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from fedfb import secure
from fedfb.secure import AuthenticationError, FormatError, Kind, keys
from fedfb.secure.graph import find_neighbours
from fedfb.secure.keys import derive_key, sha256
from fedfb.secure.messages import LAYOUT, derive_pair_mask_keys, derive_self_mask_key
from fedfb.secure.secrets import add_masks, write_ring
from secure.clients import federation, record, seeded

unhex = bytes.fromhex


def test_key_agreement_is_that_of_rfc_7748():
    """Section 6.1."""
    alice = unhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert keys.derive_public_key(bob).hex() == public
    assert keys.agree(alice, unhex(public), "Bob").hex() == shared
    assert keys.agree_all(bob, {1: keys.derive_public_key(alice)})[1].hex() == shared


def test_key_derivation_is_that_of_rfc_5869():
    """Appendix A.1."""
    kdf = HKDF(
        hashes.SHA256(),
        42,
        salt=unhex("000102030405060708090a0b0c"),
        info=unhex("f0f1f2f3f4f5f6f7f8f9"),
    )
    assert kdf.derive(b"\x0b" * 22).hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )


def test_tags_are_those_of_rfc_4231():
    """Section 4.2."""
    found = keys.make_tag(b"\x0b" * 20, b"Hi There")
    assert found.hex() == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"


def test_masks_are_the_key_stream_of_rfc_8439():
    """Appendix A.1, test vector 1: key, nonce and counter are zero."""
    stream = write_ring(add_masks(np.zeros(8, dtype=np.uint64), plus=[bytes(32)], minus=[]))
    assert stream.hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )


def test_signatures_are_those_of_rfc_8032():
    """Section 7.1, test 1: the empty message."""
    private = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = unhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    signature = unhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b"
    )
    assert keys.derive_identity_key(private) == public
    assert keys.sign(private, b"") == signature
    keys.check_signature(public, b"", signature, "a test")
    with pytest.raises(AuthenticationError):
        keys.check_signature(public, b"x", signature, "a test")


def test_encryption_is_authenticated():
    sealed = keys.encrypt(bytes(32), b"share", b"context")
    assert keys.decrypt(bytes(32), sealed, b"context", "a test") == b"share"
    with pytest.raises(AuthenticationError):
        keys.decrypt(bytes(32), sealed, b"another", "a test")


def by_hand(secret, session, purpose, sender, recipient):
    """HKDF-SHA256 with the standard library's HMAC alone."""
    fields = (
        b"fedfb secure sum 1",
        purpose,
        sender.to_bytes(4, "big"),
        recipient.to_bytes(4, "big"),
    )
    info = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    extracted = hmac.digest(session, secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


numbers = st.integers(0, 2**32 - 1)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), numbers, numbers)
def test_derivation_follows_its_equation(secret, session, sender, recipient):
    found = derive_key(secret, session, b"shares", sender, recipient)
    assert found == by_hand(secret, session, b"shares", sender, recipient)


def frozen_session():
    clients = [secure.ClientKeys(id, bytes([id + 1]) * 32, b"").entry for id in range(4)]
    server = keys.derive_public_key(bytes([9]) * 32)
    roster = secure.make_roster(bytes(16), server, clients, secure.make_plan(4))
    return secure.make_session(roster, 3, 1, [secure.Part("loss", (2,), 10.0, 4)])


def test_our_own_answers_are_frozen():
    session = frozen_session()
    found = {
        "derive": derive_key(bytes(range(32)), bytes(32), b"pair mask", 1, 2).hex(),
        "sha256": sha256(b"a", b"bc").hex(),
        "roster": session.roster.digest.hex(),
        "session": session.digest.hex(),
    }
    assert found == {
        "derive": "e2ab9a93643feecaa5e85bf7c6dfeb08f5472d8d5a9a66d3abd184262d4d1884",
        "sha256": "b534ce16ac9c8b36823f39a395ce8e0e3c7ad9605b82b5444f18cadacd217a5d",
        "roster": "563d10b6e3c39927065117ea4f623e73bdf90b8ee7fcb04fd60129e60007c889",
        "session": "e0309c3fe5b543f05ca352ec3b75623fa0b76b29291a4afde56b05c7e57a490a",
    }
    assert find_neighbours(range(10), 4, b"seed")[0] == (4, 5, 7, 8)


def test_a_key_of_small_order_is_refused():
    with pytest.raises(FormatError, match="client 7 is not a usable"):
        keys.agree_all(bytes([3]) * 32, {7: bytes(32)})


def other_places():
    """Sessions that differ from the first in one thing each."""
    first = federation(4)
    yield from (first.at(round, exchange).session for round in range(3) for exchange in range(3))
    yield federation(4, period=b"another run here").session
    yield federation(4, words=5).session
    yield federation(4, seed=1).session
    yield federation(5).session


def test_masks_never_repeat_across_pairs_rounds_exchanges_periods_rosters_or_schemas():
    """Even if a broken machine drew the same keys again, the derived keys would differ."""
    private = {id: bytes([id + 1]) * 32 for id in range(4)}
    public = {id: keys.derive_public_key(key) for id, key in private.items()}
    made = []
    for session in other_places():
        made += [derive_self_mask_key(session, id, bytes(32)) for id in private]
        for u, v in itertools.combinations(private, 2):
            ours, theirs = (
                derive_pair_mask_keys(session, private[a], a, {b: public[b]})[b]
                for a, b in ((u, v), (v, u))
            )
            assert ours == theirs
            made.append(ours)
    assert len(set(made)) == len(made) == 13 * (4 + 6)


def test_masked_words_never_repeat_though_the_same_randomness_is_drawn_again():
    seen = []
    for fed in (federation(3, words=500).at(round) for round in range(4)):
        zeros = {id: np.zeros(500, dtype=np.uint64) for id in fed.memberships}
        sent, total = record(fed, zeros, seeded(5))
        assert not total.vector.any()
        bodies = [m.message[LAYOUT.size + 4 : -32] for m in sent if m.kind is Kind.MASKED]
        seen += [word for body in bodies for word in np.frombuffer(body, "<u8").tolist()]
    # Of 6,000 uniform words two are equal with a chance of 1e-12.
    assert len(set(seen)) == len(seen) == 4 * 3 * 500
