"""How a client checks a total before its program goes on with it.

Where the evidence is not too large, the client unmasks the signed vectors itself. A total that it
missed it takes from the signatures of other clients on the chain.
"""

from collections.abc import Mapping

from fedfb.secure import (
    FormatError,
    ProtocolError,
    estimate_bytes,
    read_evidence,
    verify_total,
)
from fedfb.secure.encoding import unpack_entries
from fedfb.secure.keys import SIGNATURE_BYTES, check_signature
from fedfb.secure.secrets import WORD_BYTES, write_ring
from fedfb.study.exchange import (
    ATTEMPTS,
    Planned,
    extend_chain,
    make_sum_session,
    read_content,
    single_bytes,
    write_single_text,
)
from fedfb.study.journal import TotalRecord
from fedfb.study.seal import write_attested_text
from fedfb.study.study import Study
from fedfb.study.wire import Response


def check_total(
    study: Study, chain: bytes, me: int, planned: Planned, context: bytes, response: Response
) -> TotalRecord:
    """Return the total of a response; refuse one that cannot be believed.

    Args:
        study: the study.
        chain: the chain over all earlier totals.
        me: the id of this client.
        planned: the exchange, as this client's program foresees it.
        context: the context of the exchange, as this client computes it.
        response: what the server sent.

    Raises:
        SecureError: the total is not one of this exchange, or nothing shows it.
        ValueError: its bytes have another length.
    """
    total = TotalRecord(response.context, response.roster, response.survivors, response.frame)
    if response.turn.number != planned.number:
        raise ProtocolError(f"it is of exchange {response.turn.number}.")
    if total.context != context and study.terms.processors == "same":
        raise ProtocolError("it is of another task or broadcast than the program's.")
    _check_clients(study, planned, total)
    if response.attestations:
        _check_attestations(study, chain, me, planned, total, response.attestations)
    elif planned.is_sum:
        _check_sum(study, planned, total, response.evidence)
    else:
        _check_singles(study, planned, total, response.evidence)
    read_content(study, planned, total)
    return total


def _check_clients(study: Study, planned: Planned, total: TotalRecord) -> None:
    """Refuse a roster or survivors that the study does not allow, also in absence."""
    roster, survivors = set(total.roster), set(total.survivors)
    listed = [list(total.roster), list(total.survivors)]
    if listed != [sorted(roster), sorted(survivors)] or not survivors <= roster:
        raise FormatError("its clients are not in order.")
    if not roster <= set(planned.drawn) or len(survivors) < study.fewest:
        raise ProtocolError("it is over clients that the study does not allow.")
    if not study.terms.allow_differences and survivors != set(planned.drawn):
        raise ProtocolError("it is not over all clients.")


def _check_sum(study: Study, planned: Planned, total: TotalRecord, evidence: bytes) -> None:
    """Unmask the signed vectors, and compare."""
    words = len(total.content) // WORD_BYTES
    if estimate_bytes(words, len(total.roster)) > study.terms.verified_bytes:
        return  # too large: the chain of the next sum shows whether all have the same total
    attempt = int.from_bytes(evidence[:4], "big")
    if not 0 < attempt <= ATTEMPTS:
        raise FormatError("the evidence is of no attempt.")
    session = make_sum_session(study, planned, total.context, attempt, total.roster)
    verified = verify_total(session, read_evidence(evidence[4:], session))
    if verified.survivors != total.survivors or write_ring(verified.vector) != total.content:
        raise ProtocolError("the signed vectors have another sum.")


def _check_singles(study: Study, planned: Planned, total: TotalRecord, evidence: bytes) -> None:
    """Compare single uploads with what their clients signed."""
    size = single_bytes(planned)
    uploads = unpack_entries(evidence, "the single uploads", size + SIGNATURE_BYTES)
    if tuple(uploads) != total.survivors:
        raise ProtocolError("single uploads are missing.")
    for id, answer in uploads.items():
        text = write_single_text(total.context, id, answer[:size])
        identity = study.clients[id].identity_bytes
        check_signature(identity, text, answer[size:], f"the upload of client {id}")
    if b"".join(answer[:size] for answer in uploads.values()) != total.content:
        raise ProtocolError("the signed uploads are others.")


def _check_attestations(
    study: Study,
    chain: bytes,
    me: int,
    planned: Planned,
    total: TotalRecord,
    attestations: Mapping[int, bytes],
) -> None:
    """Believe a total that this client missed if enough others have signed the chain on it."""
    after = extend_chain(chain, len(study.clients), total)
    text = write_attested_text(study, planned.number + 1, after)
    for id, signature in attestations.items():
        if not 0 <= id < len(study.clients):
            raise ProtocolError("an unknown client attests it.")
        identity = study.clients[id].identity_bytes
        check_signature(identity, text, signature, f"client {id} on the chain")
    needed = min(study.fewest, len(study.clients) - 1)
    if len(set(attestations) - {me}) < needed:
        raise ProtocolError(f"{len(attestations)} clients attest it, at least {needed} must.")
