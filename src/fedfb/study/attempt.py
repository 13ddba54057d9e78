"""One attempt at a sum, on a client's side: its state, and what the client has answered in it."""

from collections.abc import Callable, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fedfb.core import Arrays
from fedfb.errors import DataError
from fedfb.secure import (
    ClientKeys,
    ClientState,
    Kind,
    ProtocolError,
    Session,
    accept,
    confirm,
    join,
    mask,
    reveal,
    share,
)
from fedfb.secure.keys import Random
from fedfb.secure.secrets import Ring
from fedfb.study.journal import Message
from fedfb.study.keys import PrivateKeys
from fedfb.study.study import Study


class Attempt:
    """A sum in progress.

    Args:
        study: the study.
        keys: the client's keys.
        number: the number of the attempt at its exchange.
        session: the sum.
        broadcast: what the client's upload is computed with.
    """

    def __init__(
        self, study: Study, keys: PrivateKeys, number: int, session: Session, broadcast: Arrays
    ) -> None:
        self.number, self.session, self.broadcast = number, session, broadcast
        self.replies: dict[int, Message] = {}
        self._study, self._keys = study, keys
        self._state: ClientState | None = None
        self._random: Random | None = None

    def begin(self, seed: bytes) -> None:
        """Draw all random bytes of the sum from a seed, so that they are the same after a restart.

        The seed is used for this sum alone, and is deleted after it.
        """
        stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
        self._random = lambda count: stream.update(bytes(count))

    def restore(self, messages: Sequence[Message], seed: bytes | None) -> None:
        """Take the turns of the journal again: equal messages and random bytes, equal state."""
        for message in messages:
            if message.turn == Kind.INVITATION:
                if seed is None:
                    raise DataError("the journal lacks the secrets of the sum in progress.")
                self.begin(seed)
            if message.turn in set(Kind):
                # What was sent is in the journal: the state does not depend on the vector.
                self.step(message.turn, message.content, self._make_zeros)
            self.replies[message.turn] = message

    def _make_zeros(self) -> Ring:
        return np.zeros(self.session.words, dtype=np.uint64)

    def step(self, kind: int, frame: bytes, make_vector: Callable[[], Ring]) -> bytes:
        """Take one turn: change the state, and return the answer.

        Args:
            kind: the kind of the server's message.
            frame: the message.
            make_vector: returns the upload in fixed point.
        """
        if kind == Kind.INVITATION:
            self._state, answer = self._join(frame)
            return answer
        state = self._state
        if state is None or state.awaits != kind or self._random is None:
            raise ProtocolError(f"the turn {kind} does not come now.")
        if kind == Kind.KEY_LIST:
            self._state, answer = share(state, frame, self._random)
        elif kind == Kind.SHARE_LIST:
            self._state, answer = mask(state, frame, make_vector())
        elif kind == Kind.SURVIVORS:
            self._state, answer = confirm(state, frame)
        else:
            self._state, answer = reveal(state, frame)
        return answer

    def _join(self, frame: bytes) -> tuple[ClientState, bytes]:
        study, keys, session = self._study, self._keys, self.session
        assert self._random is not None
        me = study.names.index(keys.public.name)
        client_keys = ClientKeys(me, keys.link_bytes, keys.identity_bytes)
        pins = {id: entry.identity_bytes for id, entry in enumerate(study.clients)}
        membership = accept(client_keys, session.roster, study.server.link_bytes, pins)
        _, state, answer = join(membership, frame, session.schema, self._random, session.context)
        return state, answer
