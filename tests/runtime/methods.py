"""Methods as users get them, built for tiny federations."""

from fedfb.experiments.conformance.playing import engine, notion_of
from fedfb.experiments.effect import share_settings
from fedfb.experiments.resolve import given_grid, resolve
from fedfb.experiments.spec import Experiment
from fedfb.experiments.train import build as build_method


def build(case, clients, **changes):
    """Return the algorithm of a method, notion and variant as ``fedfb run`` would build it."""
    experiment = Experiment(
        algorithm=case.method.name,
        notion=case.notion,
        variant=case.variant,
        lr=(0.05,),
        local_epochs=1,
        batch=12,
        sensitive_at_prediction=True,
        **changes,
    )
    # A method of single steps reads no epochs and no batch.
    [experiment, _] = share_settings(experiment, [case.method.name, "fedavg"])
    experiment = resolve(experiment)
    notion, settings = notion_of(case, clients), given_grid(experiment)[:1]
    return build_method(experiment, engine(), notion, settings)
