"""Commands about methods and exchanges: ``fedfb explain``, ``list``, ``check`` and ``ledger``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta

from fedfb.cli.options import experiment_options
from fedfb.errors import DataError
from fedfb.experiments.spec import Experiment
from fedfb.settings import convert_value, read_annotation

WITHOUT = (
    *("algorithm", "data", "query", "label", "positive", "sensitive", "client_column", "test"),
    *("schema", "ignore", "bins", "merge", "dates"),
    *("partition", "clients", "groups", "heterogeneity", "rows", "test_rows", "split_seed"),
    *("sensitive_at_prediction", "seeds", "accuracy_floor", "precision", "minimum_group", "rest"),
    *("q", "resplit", "optimiser", "weight_decay", "batch", "engine", "features"),
)
"""Settings that do not change what is exchanged."""


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
    """Show what clients send, and whether sums are enough.

    The command makes a short run with these settings on random rows, and reads its ledger.

    Example: fedfb explain fedfb --notion dp --groups 4
    """
    from dataclasses import replace

    from fedfb.experiments.explain import explain as explain_method
    from fedfb.report.ledger import exchanges_record as as_record
    from fedfb.report.ledger import print_explained

    for flag, value, least in (
        ("groups", groups, 2),
        ("clients", clients, 2),
        ("features", features, 1),
    ):
        convert_value(flag, value, read_annotation(Annotated[int, Meta(ge=least)]))
    explained = explain_method(replace(experiment, algorithm=algorithm), groups, clients, features)
    if as_json:
        typer.echo(json.dumps(as_record(explained), indent=1))
    else:
        print_explained(algorithm, explained)


if TYPE_CHECKING:
    from fedfb.algorithms import Method

DATA_SETS = {
    "synthetic": "the paper's two Gaussians; 2-3 groups, 2-4 clients, drawn on the spot",
    "adult": "income over 50K; sex; 2 clients by work class",
    "compas": "no new offence in two years; sex x race (4 groups); 2 clients by age",
    "bank": "subscribes a deposit; age quintile (5 groups); 3 clients by loan",
    "example1": "a population of the paper's theory: one client much wider than the other",
    "fig1b": "the same: two clients far apart, each with nearly equal groups",
    "fig1c": "the same: two clients whose groups are reversed",
    "fig2": "the same: as fig1c, with shares of the groups to choose (--q .3,.7)",
    "fig3": "the same: a third client (--q .3,.5,.7)",
}
NOTIONS = {
    "dp": "demographic parity: equal rates of positive decisions",
    "eo": "equal opportunity: equal true positive rates",
    "eod": "equalized odds: equal true and false positive rates",
    "cp": "client parity: equal losses of the clients",
}
MODELS = {
    "logistic": "logistic regression",
    "mlp": "multilayer perceptron, --hidden sizes (default one layer of 4)",
    "module:function": "your own torch network (docs/torch.md)",
}


def show(
    algorithms: Annotated[
        bool, typer.Option("--algorithms", help="Show what each algorithm exchanges and needs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List data sets, algorithms, notions and models.

    Example: fedfb list --algorithms
    """
    from fedfb.algorithms import METHODS
    from fedfb.report.text import print_catalogue

    if algorithms:
        return show_algorithms(as_json)
    methods = {m.name: f"{m.summary}; {cite(m)}" for m in METHODS.values()}
    sections = {"algorithms": methods, "notions": NOTIONS, "data": DATA_SETS, "models": MODELS}
    if as_json:
        typer.echo(json.dumps(sections, indent=1))
    else:
        print_catalogue(sections)


def cite(method: "Method") -> str:
    """Return the paper of a method; 'after' marks a method built from a description only."""
    return f"after {method.paper}" if method.reconstruction else method.paper


def show_algorithms(as_json: bool) -> None:
    """Print the notions, limits, exchanges and needs of every algorithm."""
    from fedfb.algorithms import METHODS
    from fedfb.experiments.explain import explain
    from fedfb.experiments.spec import Experiment
    from fedfb.report.ledger import exchanges_record as as_record
    from fedfb.report.ledger import print_methods

    explanations = [
        (method, explain(Experiment(algorithm=method.name, notion=method.notions[0])))
        for method in METHODS.values()
    ]
    if as_json:
        records = {
            m.name: {"paper": cite(m), **as_record(explained)} for m, explained in explanations
        }
        typer.echo(json.dumps(records, indent=1))
    else:
        print_methods(explanations)


def check(
    method: Annotated[
        str, typer.Argument(help="A Python file with a METHOD, or a method of fedfb list.")
    ],
) -> None:
    """Check your own method, and list what is broken.

    METHOD is a Python file that defines a method (docs/extend.md), or a name from fedfb list. The
    output has one line per check. The exit code is 1 if a check failed.

    Example: fedfb check mine.py
    """
    from fedfb.algorithms import METHODS, register
    from fedfb.algorithms.method import read_methods
    from fedfb.experiments.conformance import checks, failure_of

    registered = METHODS.get(method)
    methods = (registered,) if registered else read_methods(Path(method))
    failed = 0
    for entry in methods:
        register(entry)
        for name, run_check in checks(entry):
            failure = failure_of(run_check)
            failed += failure is not None
            verdict = "passed" if failure is None else f"BROKEN: {failure}"
            typer.echo(f"{entry.name}, {name}: {verdict}")
    if failed:
        raise typer.Exit(1)


def ledger(
    run: Annotated[Path, typer.Argument(help="The folder of a run: its --out.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with every message, instead of tables.")
    ] = False,
) -> None:
    """Show what left the clients in a run and reached the server.

    RUN is the folder of fedfb run --out, also of a run that was stopped.

    Example: fedfb ledger runs/mine
    """
    from fedfb.data.request import BUILT_IN
    from fedfb.experiments.run_folder import LEDGER, read_experiment
    from fedfb.files import interpreting
    from fedfb.report.ledger import as_record, print_ledger
    from fedfb.runtime.ledger import EXPECTED_LEDGER, read_ledger

    path = run / LEDGER
    if not path.is_file():
        raise DataError(
            f"{run} holds no ledger (no {LEDGER}). Name the folder of a run: fedfb run ... --out "
            "FOLDER writes one."
        )
    accounts = read_ledger(path)
    published = read_experiment(run).data in BUILT_IN
    with interpreting(path, EXPECTED_LEDGER):
        record = as_record(accounts, published)
    if as_json:
        typer.echo(json.dumps(record, indent=1))
    else:
        print_ledger(accounts, published)
