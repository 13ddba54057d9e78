"""``fedfb list``: what there is to choose from."""

import json
from typing import Annotated

import typer

DATA = {
    "synthetic": "the paper's two Gaussians; 2-3 groups, 2-4 clients, drawn on the spot",
    "adult": "income over 50K; sex; 2 clients by work class",
    "compas": "no new offence in two years; sex x race (4 groups); 2 clients by age",
    "bank": "subscribes a deposit; age quintile (5 groups); 3 clients by loan",
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
}


def show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """List data sets, algorithms, notions and models.

    Example: fedfb list
    """
    from fedfb.algorithms import METHODS
    from fedfb.report.tables import print_catalogue

    algorithms = {m.name: f"{m.summary}; {m.paper}" for m in METHODS.values()}
    sections = {"algorithms": algorithms, "notions": NOTIONS, "data": DATA, "models": MODELS}
    if as_json:
        typer.echo(json.dumps(sections, indent=1))
    else:
        print_catalogue(sections)
