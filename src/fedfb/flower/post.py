"""Messages to silos and their replies: who answers in time, and what is noted of who does not."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from fedfb.errors import FedFBError
from fedfb.flower.events import Log
from fedfb.flower.link import Link
from fedfb.flower.study import Study

RECORD = "fedfb"
"""The name of the one record that a message carries."""


class StoppedBySiloError(FedFBError):
    """A silo refuses to go on, and says why."""


@dataclass(frozen=True)
class Post:
    """The way to the silos of a study. ``failed`` is when a silo last left a message unanswered."""

    study: Study
    link: Link
    log: Log
    failed: dict[int, float] = field(default_factory=dict)

    def present(self) -> list[int]:
        """Return the silos whose nodes are there, and were heard of since they last failed."""
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
                ttl=timeout + 60,
                group_id=where,
            )
            for id, content in contents.items()
        }
        replies = list(self.link.grid.send_and_receive(list(messages.values()), timeout=timeout))
        by_message = {reply.metadata.reply_to_message_id: reply for reply in replies}
        found: dict[int, dict[str, Any]] = {}
        for id, message in messages.items():
            reply = by_message.get(message.metadata.message_id)
            said = self._read(id, reply, where)
            if said is not None:
                found[id] = said
        return found

    def _read(self, id: int, reply: Message | None, where: str) -> dict[str, Any] | None:
        """Return what a silo said; None, and a note of it, where it is silent."""
        if reply is None:
            self.failed[id] = time.time()
            self._note(id, f"did not answer within {self.study.timeout_s:g} s", where)
            return None
        said: dict[str, Any] = {} if reply.has_error() else dict(reply.content[RECORD])
        if "stop" in said:
            self.log.write("stopped by silo", f"{where}: {said['stop']}")
            raise StoppedBySiloError(f"{where}: {said['stop']}")
        if reply.has_error() or "silent" in said:
            # Its node has told so itself: it is there, and may be asked again.
            self.failed[id] = 0.0
            why = said.get("silent") or f"failed: {reply.error.reason}"
            self._note(id, str(why), where)
            return None
        return said

    def _note(self, id: int, why: str, where: str) -> None:
        name = self.study.silos[id]
        self.log.write("silent", f"{where}: {name} {why}", silo=name, why=why)

    def names(self, ids: Iterable[int]) -> str:
        """Return the names of silos for a sentence."""
        return ", ".join(self.study.silos[id] for id in sorted(ids)) or "nobody"
