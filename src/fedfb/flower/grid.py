"""Flower's grid over the state of a SuperLink in this process: messages go through no network."""

import time
from collections.abc import Iterable
from typing import cast

from flwr.app import Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.server.superlink.linkstate import LinkState
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run

CONTENT_S = 10.0
"""How long the parts of a reply may come after it was announced."""


class LinkGrid(Grid):
    """A grid by which this process is the sender of every message and the reader of every reply."""

    def __init__(self, state: LinkState, run: Run) -> None:
        self.state = state
        self.set_run(run)

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return self.state.get_nodes(self._run.run_id)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Put messages where nodes find them; return their ids."""
        ids, run = [], self._run.run_id
        for message in messages:
            session = self.state.start_session(run)
            message.metadata.__dict__["_message_id"] = message.object_id
            bare, tree = remove_content_from_message(message), get_object_tree(message)
            stored, missing = self.state.store_message_and_object_tree(bare, tree, session)
            objects = get_all_nested_objects(message)
            for name in missing:
                self.state.store_object(run, session, name, objects[name].deflate())
            ids.append(message.metadata.message_id if stored else "")
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there; one of the SuperLink itself tells of an error."""
        store, found = self.state.object_store, []
        for reply in self.state.get_message_res(set(message_ids), self._run.run_id):
            if reply.has_error():
                found.append(reply)
                continue
            id = reply.metadata.message_id
            names = [tree.object_id for tree in iterate_object_tree(store.get_object_tree(id))]
            contents = {name: self._content(name) for name in names}
            if not all(contents.values()):
                continue
            store.delete(id)
            message = cast(Message, inflate_object_from_contents(id, contents))
            message.metadata.__dict__["_message_id"] = id
            found.append(message)
        self.state.delete_messages({reply.metadata.reply_to_message_id for reply in found})
        return found

    def _content(self, name: str) -> bytes:
        # A reply is announced before its parts arrive; of a node that dies in between none come.
        end = time.monotonic() + CONTENT_S
        while time.monotonic() < end:
            content = self.state.get_object(self._run.run_id, name)
            if content:
                return content
            time.sleep(0.01)
        return b""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and return the replies that come in time."""
        sent, replies = set(self.push_messages(messages)) - {""}, list[Message]()
        waiting = set(sent)
        end, pause = None if timeout is None else time.monotonic() + timeout, 0.005
        while waiting and (end is None or time.monotonic() < end):
            came = list(self.pull_messages(waiting))
            replies += came
            waiting -= {reply.metadata.reply_to_message_id for reply in came}
            time.sleep(pause)
            pause = min(pause * 1.3, 0.1)
        # What comes later finds no message that it answers, and is refused.
        self.state.delete_messages(waiting)
        for id in sent:
            self.state.object_store.delete(id)
        return replies
