"""``fedfb demo``: the main job on built-in data, for a first look."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedfb.cli import comparing
from fedfb.cli.progress import talk

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

    drawing = find_spec("matplotlib") is not None
    if drawing:
        make_folder(plot.parent)
    # The paper gives the group to the model: only so its figures may stand beside ours.
    experiment = Experiment(model="mlp", seeds=tuple(range(5)), sensitive_at_prediction=True)
    methods = ["fedavg", "fedfb", "cfl"]
    comparing.compare_and_show(experiment, methods, plot if drawing else None, as_json=False)
    if not drawing:
        talk("Without matplotlib there is no picture: pip install 'fedfb[report]'.")
    talk(NEXT)
