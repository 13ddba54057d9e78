"""A tiny reproduction, as the command leaves it behind."""

import json
from pathlib import Path

from fedfb.experiments.compare import Cause
from fedfb.paper.reproduce import reproduce
from fedfb.paper.targets import Target, TargetLine


def reproduced(folder: Path) -> None:
    """Reproduce two tiny targets, a table and curves, as the command does."""
    rows = (
        TargetLine(
            "FedFB, ours", {"algorithm": "fedfb"}, "fedfb", causes=(Cause("rule", "CFL", "CFL"),)
        ),
        TargetLine("CFL", {"algorithm": "cfl", "target": [0.0, 0.2]}, "cfl"),
    )
    column = (TargetLine("synthetic", {"data": "synthetic"}, "synthetic"),)
    small = {"rows": 200, "test_rows": 100, "rounds": 2, "local_epochs": 1}
    for name, kind, own in (("table1", "table", rows[:1]), ("figure-lr", "curves", rows)):
        target = Target(name, f"A tiny {kind}", kind, "tab:dp_mlp", own, column, small)
        found = reproduce(target, folder, quick=True)
        (folder / f"{name}.json").write_text(json.dumps([found]))
