"""``fedfb demo``: the main job on built-in data, for a first look."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli import comparing
from fedfb.cli.progress import talk

NEXT = """
What to type next:
  fedfb run --data adult --algorithm fedfb --notion eo --seeds 5 --out runs/adult
  fedfb run --data 'silos/*.csv' --label approved --positive yes --sensitive sex,race
  fedfb compare --help        fedfb list        (in this folder: .venv/bin/fedfb)"""


def demo(
    plot: Annotated[Path, typer.Option(help="Where to draw the picture.")] = Path(
        "demo/accuracy-disparity.png"
    ),
) -> None:
    """Compare FedAvg, FedFB and CFL on synthetic data: no download, under a minute.

    Example: fedfb demo
    """
    from fedfb.experiments.spec import Experiment

    plot.parent.mkdir(parents=True, exist_ok=True)
    comparing.compare_and_show(
        Experiment(model="mlp", seeds=tuple(range(5))),
        ["fedavg", "fedfb", "cfl"],
        plot,
        as_json=False,
    )
    talk.print(NEXT, highlight=False)
