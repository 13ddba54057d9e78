"""``fedfb explain``: what a run of a method exchanges."""

import json
from typing import Annotated

import typer

from fedfb.cli.options import experiment_options
from fedfb.experiments.settings import Setting, check_value, whole
from fedfb.experiments.spec import Experiment

WITHOUT = (
    *("algorithm", "data", "label", "positive", "sensitive", "client_column", "test"),
    *("schema", "ignore", "bins", "merge"),
    *("partition", "clients", "groups", "heterogeneity", "rows", "test_rows", "split_seed"),
    *("sensitive_at_prediction", "seeds", "accuracy_floor", "precision", "minimum_group", "rest"),
    *("q", "resplit", "optimiser", "weight_decay", "batch", "engine"),
)
"""Settings that change nothing about what is exchanged."""


@experiment_options(*WITHOUT)
def explain(
    experiment: Experiment,
    algorithm: Annotated[str, typer.Argument(help="A method, see fedfb list.")],
    groups: Annotated[
        int, typer.Option(metavar="N", help="Number of groups (default 2).", show_default=False)
    ] = 2,
    clients: Annotated[
        int, typer.Option(metavar="N", help="Number of clients (default 3).", show_default=False)
    ] = 3,
    features: Annotated[
        int, typer.Option(metavar="N", help="Number of features (default 8).", show_default=False)
    ] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what clients send and what the method needs of it.

    A short run with these settings is made on random rows, and its ledger is read.

    Example: fedfb explain fedfb --notion dp --groups 4
    """
    from dataclasses import replace

    from fedfb.experiments.explain import explain as explain_method
    from fedfb.report.exchanges import as_record, print_explained

    for flag, value, least in (
        ("groups", groups, 2),
        ("clients", clients, 2),
        ("features", features, 1),
    ):
        check_value(flag, value, Setting("", "", whole, low=least))
    chosen = replace(experiment, algorithm=algorithm)
    explained = explain_method(chosen, groups, clients, features)
    if as_json:
        typer.echo(json.dumps(as_record(explained), indent=1))
    else:
        print_explained(algorithm, explained)
