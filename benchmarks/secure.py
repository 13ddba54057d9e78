"""What a secure sum costs: CPU and bytes per client and round, against sending the vector as it is.

Usage: python benchmarks/secure.py [--repeat 3] [--large 1000]

One exchange of one round, everybody answers; then the same with a tenth dropping out before the
upload. Encoding into fixed point is part of the secure cost. Bytes are those that a client sends
(up) and receives (down); the plain way sends eight bytes a parameter and receives no answer.
Medians over the repeats; CPU time of this process, one thread. A client hashes the roster and
orders the ring once a roster, which is not in the table but in the line below it.
"""

import argparse
import math
import statistics
import time
from collections import defaultdict

import numpy as np

from fedfb import secure
from fedfb.secure import Kind

TURNS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.CONFIRMATION, Kind.REVEAL)


def make_federation(clients: int, parameters: int):
    server_key = secure.make_link_key()
    keys = [secure.make_client_keys(id) for id in range(clients)]
    plan = secure.make_plan(clients)
    server = secure.derive_public_key(server_key)
    roster = secure.make_roster(secure.draw_period(), server, [key.entry for key in keys], plan)
    memberships = {key.id: secure.accept(key, roster, server) for key in keys}
    bits = secure.choose_bits(1000.0, clients)
    parts = [secure.Part("params", (parameters,), bound=1000.0, bits=bits)]
    return server_key, memberships, secure.make_session(roster, 0, 0, parts)


def answer(turn: Kind, membership, state, message, upload, schema):
    if turn is Kind.KEYS:
        _, state, reply = secure.join(membership, message, schema)
        return state, reply
    if turn is Kind.SHARES:
        return secure.share(state, message)
    if turn is Kind.MASKED:
        return secure.mask(state, message, secure.encode(schema, upload))
    step = secure.confirm if turn is Kind.CONFIRMATION else secure.reveal
    return step(state, message)


def secure_cost(clients: int, parameters: int, lost: int) -> dict[str, float]:
    """Return CPU seconds of a client (median) and of the server, bytes up and down of a client."""
    server_key, memberships, session = make_federation(clients, parameters)
    rng = np.random.default_rng(0)
    uploads = {id: {"params": rng.normal(size=parameters)} for id in memberships}
    cpu, up, down, states = defaultdict(float), defaultdict(int), defaultdict(int), {}
    start = time.process_time()
    server, outgoing = secure.open_sum(session, server_key)
    in_clients = 0.0
    for turn in TURNS:
        for id, message in outgoing.items():
            if id < lost and turn >= Kind.MASKED:
                continue
            before = time.process_time()
            states[id], reply = answer(
                turn, memberships[id], states.get(id), message, uploads[id], session.schema
            )
            spent = time.process_time() - before
            cpu[id] += spent
            in_clients += spent
            up[id] += len(reply)
            down[id] += len(message)
            server = secure.receive(server, reply)
        server, outgoing = secure.advance(server)
    total = secure.unmask(server)
    decoded = secure.decode(session.schema, len(total.survivors), total.vector)["params"]
    whole = time.process_time() - start
    exact = sum(uploads[id]["params"] for id in total.survivors)
    assert np.allclose(decoded, exact, rtol=0, atol=1e-6)
    kept = list(total.survivors)
    return {
        "client": statistics.median(cpu[id] for id in kept),
        "server": whole - in_clients,
        "up": statistics.median(up[id] for id in kept),
        "down": statistics.median(down[id] for id in kept),
        "degree": session.roster.plan.degree,
        "threshold": session.roster.plan.threshold,
    }


def plain_cost(clients: int, parameters: int) -> dict[str, float]:
    """Return the same for vectors that are sent as they are, and added up."""
    rng = np.random.default_rng(0)
    uploads = [rng.normal(size=parameters) for _ in range(clients)]
    start = time.process_time()
    messages = [upload.tobytes() for upload in uploads]
    packed = time.process_time()
    np.sum([np.frombuffer(message) for message in messages], axis=0)
    end = time.process_time()
    return {
        "client": (packed - start) / clients,
        "server": end - packed,
        "up": len(messages[0]),
        "down": 0,
    }


def median_cost(measure, *arguments: int, repeat: int) -> dict[str, float]:
    runs = [measure(*arguments) for _ in range(repeat)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def roster_seconds(clients: int) -> float:
    """Return the CPU time that one client spends once on a roster it receives."""
    text = secure.write_roster(make_federation(clients, 1)[2].roster)
    start = time.process_time()
    roster = secure.read_roster(text)
    assert len(roster.neighbours) == clients
    return time.process_time() - start


def exact_bytes(clients: int, parameters: int, degree: int) -> tuple[int, int]:
    """Return what a client sends and receives if nobody drops out and no identity is pinned."""
    up = 8 * parameters + 171 * degree + 743
    down = 202 * degree + 3 * -(-clients // 8) + 606
    return up, down


HEAD = (
    "| clients | parameters | way | k | t | client CPU, ms | server CPU, ms | up, kB | down, kB |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def row(clients: int, parameters: int, way: str, cost: dict[str, float]) -> str:
    tied = f"{cost.get('degree', 0):.0f} | {cost.get('threshold', 0):.0f}"
    cpu = f"{1e3 * cost['client']:.2f} | {1e3 * cost['server']:.1f}"
    size = f"{cost['up'] / 1e3:.1f} | {cost['down'] / 1e3:.1f}"
    return f"| {clients} | {parameters} | {way} | {tied} | {cpu} | {size} |"


def print_growth(costs: dict[tuple[int, int], dict[str, float]], large: int) -> None:
    print(
        "\nbytes up = 8 p + 171 k + 743, down = 202 k + 3 ceil(n/8) + 606 (exactly, full turnout)"
    )
    print(f"a roster of {large}: {1e3 * roster_seconds(large):.0f} ms of CPU, once")
    for low, high in ((10, 50), (100, large)):
        if (low, 1000) in costs and (high, 1000) in costs and low < high:
            first, last = costs[low, 1000], costs[high, 1000]
            powers = {
                who: math.log(last[who] / first[who]) / math.log(high / low)
                for who in ("client", "server")
            }
            print(
                f"from {low} to {high} clients CPU grows like n^{powers['client']:.2f} for ", end=""
            )
            print(f"a client and n^{powers['server']:.2f} for the server")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", type=int, default=1000, help="the largest number of clients")
    arguments = parser.parse_args()
    sizes = [(5, 1000), (5, 1_000_000)]
    sizes += [(n, 1000) for n in (10, 20, 50, 100, 200, 500, 1000) if n <= arguments.large]
    costs: dict[tuple[int, int], dict[str, float]] = {}
    print(HEAD)
    for clients, parameters in sizes:
        repeat = arguments.repeat if clients <= 100 else 1
        plain = median_cost(plain_cost, clients, parameters, repeat=repeat)
        print(row(clients, parameters, "plain", plain))
        full = median_cost(secure_cost, clients, parameters, 0, repeat=repeat)
        print(row(clients, parameters, "secure", full))
        stated = exact_bytes(clients, parameters, int(full["degree"]))
        assert (full["up"], full["down"]) == stated, (full, stated)
        costs[clients, parameters] = full
        lost = max(1, clients // 10)
        short = median_cost(secure_cost, clients, parameters, lost, repeat=repeat)
        print(row(clients, parameters, f"secure, {lost} lost", short), flush=True)
    print_growth(costs, arguments.large)


if __name__ == "__main__":
    main()
