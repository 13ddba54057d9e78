"""(d) Against declearn's FedFB with its torch back end, on the same synthetic two-group task."""

import sys
from pathlib import Path

from measure import HERE, PEERS_PYTHON, cpu, factor, in_turns, peer_versions, said, spread
from page import Claim, Section, table

from tables import encoded

ROUNDS = 10
TITLE = "Against declearn's FedFB"


def section(work: Path, quick: bool) -> Section:
    peers = peer_versions("torch", "declearn")
    folder, rounds = encoded(work / "synthetic", "synthetic"), 1 if quick else ROUNDS
    count = ["--rounds", str(rounds)]
    ours = [sys.executable, HERE / "train_fedfb.py", folder, *count, "--runs"]
    samples = in_turns(
        {
            "fedfb, 1 run": [*ours, "1"],
            "fedfb, 24 runs": [*ours, "24"],
            "declearn, 1 run": [PEERS_PYTHON, HERE / "peers" / "declearn_fedfb.py", folder, *count],
        },
        1 if quick else 3,
    )
    theirs = samples["declearn, 1 run"]
    rows = []
    for name, own in samples.items():
        trained, whole = said(own, "train_cpu_s"), cpu(own)
        training = factor(said(theirs, "train_cpu_s"), trained)
        found = [spread(trained), str(training), spread(whole), str(factor(cpu(theirs), whole))]
        rows.append([name, *found, spread([sample.wall_s for sample in own])])
    head = ["", "training, CPU s", "factor", "whole process, CPU s", "factor", "wall s"]
    text = (
        f"{peers}. Synthetic data, two groups, three clients, MLP(4), demographic parity, {rounds} "
        "rounds of 30 epochs. declearn runs a server and three clients as processes that talk over "
        "websockets, with its own settings (alpha .005; its heartbeat of one second is most of the "
        "wall time); its training time is that of these processes. The factor is declearn's one "
        "run against fedfb's one run, or against fedfb's whole grid of 24."
    )
    one = factor(said(theirs, "train_cpu_s"), said(samples["fedfb, 1 run"], "train_cpu_s"))
    claim = Claim(
        "times faster than declearn's FedFB, one run (training)", "stated", str(one), True
    )
    return Section(TITLE, f"{text}\n\n{table(head, rows)}", (claim,))
