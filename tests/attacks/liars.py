"""Lying servers against unmodified clients: what leaves the clients is written down, and searched.

A liar either runs a program of its own (``ServerCarrier`` with other exchanges), or changes what it
sends to a client (``change``). The clients are those of fedfb, with their own keys and right pins.
"""

from dataclasses import replace
from types import SimpleNamespace

import msgspec

from fedfb.experiments.spec import Experiment
from fedfb.secure import Kind
from fedfb.study import server as server_side
from fedfb.study.wire import SINGLE
from study.by_hand import CLIENTS, Network, make, run_by_hand, serve

QUICK = Experiment(algorithm="fedfb", rounds=2, local_epochs=2, lr=(0.02,), solver="local")

SHORT = {"timeout_s": 1.0, "wait_s": 2.0}
"""A study that fails soon, because its server lies."""


def prepare(folder, experiment=QUICK, **terms):
    return make(folder, experiment, **{**SHORT, **terms})


def masked_places(ends, name=None):
    """Return the exchanges for which a client has sent a masked vector or a single upload."""
    return sorted(
        {
            request.turn.number
            for id, request in ends.network.requests
            if request.state == "answered"
            and request.turn.kind in (Kind.SHARE_LIST, SINGLE)
            and (name is None or CLIENTS[id] == name)
        }
    )


def answered(ends, kind, number):
    """Return the clients that answered a turn of an exchange."""
    return {
        CLIENTS[id]
        for id, request in ends.network.requests
        if request.state == "answered" and request.turn.kind == kind
        and request.turn.number == number
    }  # fmt: skip


def notes(made, words):
    """Return the clients whose owner was told these words."""
    return {name for name, lines in made.notes.items() if any(words in line for line in lines)}


def run_program(made, monkeypatch, plan, **more):
    """Run a server whose program plans other exchanges; ``plan`` changes each of them."""
    honest = server_side.ServerCarrier.carry

    def carry(self, planned):
        return honest(self, plan(planned))

    monkeypatch.setattr(server_side.ServerCarrier, "carry", carry)
    return run_by_hand(made, **more)


def change_field(**fields):
    """Return a copy of a response with other fields."""
    return lambda response: msgspec.structs.replace(response, **fields)


__all__ = [
    "CLIENTS", "QUICK", "Network", "SimpleNamespace", "answered", "change_field", "make",
    "masked_places", "notes", "prepare", "replace", "run_by_hand", "run_program", "serve",
]  # fmt: skip
