"""``fedfb demo``: the main job on built-in data, for a first look."""

from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli import comparing
from fedfb.cli.progress import talk
from fedfb.extras import is_installed, missing_message

NEXT = """
What to type next (in this folder: .venv/bin/fedfb ...):
  fedfb run --data adult --notion eo --seeds 5 --out runs/adult
  fedfb run --data 'silos/*.csv' --label approved --positive yes --sensitive sex
  fedfb compare --help
  fedfb list"""


def demo(
    plot: Annotated[
        Path,
        typer.Option(
            help="Draw into this PNG or SVG (default demo/accuracy-disparity.png).",
            show_default=False,
        ),
    ] = Path("demo/accuracy-disparity.png"),
) -> None:
    """Compare FedAvg, FedFB and CFL on synthetic data.

    It downloads nothing and takes less than a minute.

    Example: fedfb demo
    """
    from fedfb.experiments.spec import Experiment
    from fedfb.files import make_folder

    drawing = is_installed("matplotlib")
    if drawing:
        make_folder(plot.parent)
    # The paper gives the group to the model: only so its figures may stand beside ours.
    experiment = Experiment(model="mlp", seeds=tuple(range(5)), sensitive_at_prediction=True)
    methods = ["fedavg", "fedfb", "cfl"]
    comparing.compare_and_show(experiment, methods, plot if drawing else None, as_json=False)
    if not drawing:
        talk(f"There is no picture: {missing_message('report', 'it', ['matplotlib'])}")
    talk(NEXT)
