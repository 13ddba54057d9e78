"""``fedfb list``: what there is to choose from."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedfb.algorithms import Method

DATA = {
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
    "module:function": "a torch network of your own (docs/torch.md)",
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
    from fedfb.report.tables import print_catalogue

    if algorithms:
        return show_algorithms(as_json)
    methods = {m.name: f"{m.summary}; {cited(m)}" for m in METHODS.values()}
    sections = {"algorithms": methods, "notions": NOTIONS, "data": DATA, "models": MODELS}
    if as_json:
        typer.echo(json.dumps(sections, indent=1))
    else:
        print_catalogue(sections)


def cited(method: "Method") -> str:
    """Return a method's paper; what is built from a description only says so."""
    return f"after {method.paper}" if method.reconstruction else method.paper


def show_algorithms(as_json: bool) -> None:
    """Print for every algorithm its notions, limits, exchanges and what it needs of them."""
    from fedfb.algorithms import METHODS
    from fedfb.experiments.explain import explain
    from fedfb.experiments.spec import Experiment
    from fedfb.report.exchanges import as_record, print_methods

    found = [
        (method, explain(Experiment(algorithm=method.name, notion=method.notions[0])))
        for method in METHODS.values()
    ]
    if as_json:
        records = {m.name: {"paper": cited(m), **as_record(explained)} for m, explained in found}
        typer.echo(json.dumps(records, indent=1))
    else:
        print_methods(found)
