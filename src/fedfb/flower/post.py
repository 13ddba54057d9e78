"""Mail by Flower's grid: every message is answered, or its silo noted as silent, in time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from fedfb.flower.events import Log
from fedfb.flower.link import Link
from fedfb.flower.mail import heed, note_silence
from fedfb.flower.study import Study
from fedfb.flower.wire import RECORD

GRACE_S = 60.0
"""How long after its time-out Flower keeps a message; the coordinator drops it before."""


@dataclass(frozen=True)
class Post:
    """The way to the silos by the nodes of a running SuperLink."""

    study: Study
    link: Link
    log: Log
    failed: dict[int, float] = field(default_factory=dict)

    def present(self) -> list[int]:
        """Return the silos whose nodes are online, and were heard of since they last failed."""
        heard = {id: self.link.heard(name) for id, name in enumerate(self.study.silos)}
        return [id for id, when in heard.items() if when > self.failed.get(id, 0.0)]

    def exchange(
        self, action: str, contents: Mapping[int, Mapping[str, Any]], where: str
    ) -> dict[int, dict[str, Any]]:
        """Send each silo its message and return the answers, by silo, that come in time.

        Replies are matched by the message they answer: an error of the SuperLink itself comes from
        another source than the silo.
        """
        timeout = self.study.timeout_s
        messages = {
            id: Message(
                RecordDict({RECORD: ConfigRecord(dict(content))}),
                self.link.nodes[self.study.silos[id]],
                f"query.{action}",
                ttl=timeout + GRACE_S,
                group_id=where,
            )
            for id, content in contents.items()
        }
        replies = list(self.link.grid.send_and_receive(list(messages.values()), timeout=timeout))
        by_message = {reply.metadata.reply_to_message_id: reply for reply in replies}
        found: dict[int, dict[str, Any]] = {}
        for id, message in messages.items():
            said = self._read(id, by_message.get(message.metadata.message_id), where)
            if said is not None:
                found[id] = said
        return found

    def _read(self, id: int, reply: Message | None, where: str) -> dict[str, Any] | None:
        if reply is None:
            late = f"did not answer within {self.study.timeout_s:g} s"
            note_silence(self, id, late, where, failed=time.time())
            return None
        if reply.has_error():
            own = reply.metadata.src_node_id == self.link.nodes[self.study.silos[id]]
            note_silence(
                self, id, reply.error.reason or "failed", where, 0.0 if own else time.time()
            )
            return None
        return heed(self, id, reply.content[RECORD], where)
