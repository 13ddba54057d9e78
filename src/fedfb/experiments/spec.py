"""An experiment: all that determines a result, as one frozen value that reads and writes TOML."""

import hashlib
import json
from dataclasses import Field, asdict, dataclass, fields
from math import inf
from typing import Any

from fedfb.data.request import DRAWN, DataRequest
from fedfb.experiments import settings as s
from fedfb.experiments.settings import setting

DATA, METHOD, SIGNAL, RUN = "Data", "Method", "Signal and weights", "Run"
PRIVACY = "Privacy"


@dataclass(frozen=True)
class Experiment:
    """Data, method and settings of a run.

    The fields are the flags of ``fedfb run`` and the keys of its TOML.

    >>> Experiment(data="synthetic", seeds=(0,), alpha=(0.1, 0.5)).batch
    128
    """

    data: str = setting(
        "synthetic",
        "A name (fedfb list), or your own files, CSV or Parquet: 'silos/*.csv'",
        DATA,
        s.text,
    )
    label: str | None = setting(None, "Own files: the column to predict", DATA, s.text)
    positive: str | None = setting(None, "Own files: its favourable value", DATA, s.text)
    sensitive: tuple[str, ...] = setting(
        (),
        "Sensitive columns; several are crossed (sex,race). Own files, adult, compas",
        DATA,
        s.names,
    )
    client_column: str | None = setting(
        None, "Own files: the column that names the client, for one file", DATA, s.text
    )
    schema: str | None = setting(
        None, "Own files: what the columns are, as a file (fedfb schema infer)", DATA, s.text
    )
    ignore: tuple[str, ...] = setting((), "Own files: columns to leave out", DATA, s.names)
    bins: tuple[str, ...] = setting(
        (), "Own files: ranges of a sensitive number, 'age: 25,40'", DATA, s.declarations
    )
    merge: tuple[str, ...] = setting(
        (),
        "Own files: values that become one group (or label), 'race: Asian+Other=rest'",
        DATA,
        s.declarations,
    )
    minimum_group: int = setting(
        10,
        "Least training rows, over all clients, of a group (cp: of a client) that is compared",
        DATA,
        s.whole,
        low=1,
    )
    rest: str | None = setting(
        None,
        "Own files, adult, compas: merge the groups that are smaller into one of this name",
        DATA,
        s.text,
    )
    test: str | None = setting(
        None, "Own files: test rows (default: 30% of each client)", DATA, s.text
    )
    partition: str = setting(
        "paper",
        "paper, group, column:NAME, shares:.5,.5/.2,.8 (a list a group) or dirichlet:.5,5",
        DATA,
        s.text,
    )
    clients: int | None = setting(
        None, "synthetic: 2, 3 or 4 clients", DATA, s.whole, low=2, high=4
    )
    groups: int = setting(2, "synthetic: 2 or 3 groups", DATA, s.whole, low=2, high=3)
    heterogeneity: str = setting(
        "medium",
        "synthetic: how unlike the clients are",
        DATA,
        s.text,
        choices=("low", "medium", "high"),
    )
    q: tuple[float, ...] = setting(
        (), "fig2, fig3: share of group 1 in each client", DATA, s.numbers, low=0.0, high=1.0
    )
    rows: int | None = setting(None, "Drawn data: training rows", DATA, s.whole, low=20)
    test_rows: int | None = setting(None, "Drawn data: test rows", DATA, s.whole, low=20)
    split_seed: int | None = setting(
        None,
        "Fixes rows and clients (default 0; drawn data and --resplit: the run's own seed)",
        DATA,
        s.whole,
        low=0,
    )
    resplit: bool = setting(
        False,
        "adult, compas, bank: draw 70% of the rows to train on, anew for every seed",
        DATA,
        s.yes_or_no,
    )
    sensitive_at_prediction: bool = setting(
        False,
        "Whether the group is an input of the model, and is known when it decides",
        DATA,
        s.yes_or_no,
        in_words=True,
    )

    algorithm: str = setting("fedfb", "See fedfb list", METHOD, s.text)
    notion: str = setting("dp", "dp, eo, eod, cp: what is to be equal", METHOD, s.text)
    model: str = setting(
        "logistic",
        "Logistic regression, a multilayer perceptron, or what a function of yours builds in torch",
        METHOD,
        s.text,
        choices=("logistic", "mlp"),
        or_own="MODULE:FUNCTION",
    )
    hidden: tuple[int, ...] = setting(
        (4,),
        "mlp: sizes of the hidden layers",
        METHOD,
        s.wholes,
        low=1,
        needs=("model", ("mlp",)),
    )
    variant: str | None = setting(
        None, "A form of the method other than its usual one", METHOD, s.text
    )
    outer: str | None = setting(
        None,
        "fedfb, cfl: how the weights are found (default solve; with --alpha, step)",
        METHOD,
        s.text,
        choices=("solve", "step", "paper"),
        by_method=True,
    )
    target: tuple[float, ...] = setting(
        (),
        "fedfb, cfl, fedfb-thresholds, hardt: the disparity to train to; several make a grid "
        "(default 0)",
        METHOD,
        s.numbers,
        low=0.0,
        high=1.0,
        by_method=True,
    )
    cost: float | None = setting(
        None,
        "In place of a target: the accuracy that fairness may cost (.01: one point)",
        METHOD,
        s.number,
        low=0.0,
        high=1.0,
        by_method=True,
    )
    alpha: tuple[float, ...] = setting(
        (),
        "Step of the fairness weights; several make a grid (default: fedfb and cfl .5, for cp 2; "
        "else the method's, fedfb list)",
        METHOD,
        s.numbers,
        low=0.0,
        by_method=True,
    )
    knobs: tuple[str, ...] = setting(
        (),
        "The method's own knobs, such as q=0.1,1; several values make a grid",
        METHOD,
        s.assignments,
        flags=("--set",),
    )
    lr: tuple[float, ...] = setting(
        (),
        "Learning rate; several make a grid (default: chosen on validation rows by methods that "
        "take a target, else the method's)",
        METHOD,
        s.numbers,
        above=0.0,
    )
    rounds: int | None = setting(
        None, "Communication rounds (default 10, or the method's)", METHOD, s.whole, low=1
    )
    participation: float = setting(
        1.0,
        "Share of the clients that take part in a round",
        METHOD,
        s.number,
        above=0.0,
        high=1.0,
        by_method=True,
    )
    dropout: float = setting(
        0.0,
        "Share of a round's clients that fall silent in the middle of it",
        METHOD,
        s.number,
        low=0.0,
        high=0.9,
        by_method=True,
    )
    secure: bool = setting(
        False, "Mask what clients send: the server receives only sums", METHOD, s.yes_or_no
    )
    local_epochs: int = setting(
        30,
        "Passes over its rows that a client makes in a round",
        METHOD,
        s.whole,
        low=1,
        by_method=True,
    )
    batch: int = setting(128, "Rows in a minibatch", METHOD, s.whole, low=1, by_method=True)
    optimiser: str = setting(
        "adam", "Local solver", METHOD, s.text, choices=("adam", "sgd"), by_method=True
    )
    weight_decay: float = setting(
        0.0, "L2 penalty of local training", METHOD, s.number, low=0.0, by_method=True
    )
    scaling: str = setting(
        "mass",
        "Weight of a client in the average: its weighted mass, or rows",
        METHOD,
        s.text,
        choices=("mass", "sample"),
        by_method=True,
    )

    signal_loss: str | None = setting(
        None,
        "Loss in the signal (default zero_one; where a step is taken: prob; for cp and with "
        "--outer paper: ce)",
        SIGNAL,
        s.text,
        choices=("zero_one", "prob", "ce"),
        by_method=True,
    )
    normalise: str = setting(
        "none",
        "Divide the signal by its length, as the paper does, or not",
        SIGNAL,
        s.text,
        choices=("none", "l2"),
        by_method=True,
    )
    decay: str = setting(
        "inv_sqrt",
        "How the step shrinks",
        SIGNAL,
        s.text,
        choices=("const", "inv_sqrt", "inv"),
        by_method=True,
    )
    timing: str = setting(
        "post",
        "Where the signal is taken",
        SIGNAL,
        s.text,
        choices=("post", "piggyback", "local"),
        by_method=True,
    )
    period: int = setting(
        1,
        "Rounds between two moves of lambda, the paper's k",
        SIGNAL,
        s.whole,
        low=1,
        flags=("--k",),
        by_method=True,
    )
    bits: int | None = setting(
        None,
        "Quantise what a client says of the signal",
        SIGNAL,
        s.whole,
        low=1,
        high=32,
        by_method=True,
    )
    bits_mode: str = setting(
        "per_value",
        "Bits for each value, or for a round",
        SIGNAL,
        s.text,
        choices=("per_value", "per_round"),
        needs=("bits", ()),
    )
    rounding: str = setting(
        "nearest",
        "Rounding of quantised values",
        SIGNAL,
        s.text,
        choices=("nearest", "stochastic"),
        needs=("bits", ()),
    )
    reference: str = setting(
        "auto",
        "Compare groups with the first or with their mean (auto: the mean of more than two)",
        SIGNAL,
        s.text,
        choices=("auto", "first", "mean"),
        by_method=True,
    )

    privacy_epsilon: float | None = setting(
        None,
        "Hide every single row: the epsilon of differential privacy (inf: no clipping, no noise)",
        PRIVACY,
        s.number,
        above=0.0,
        infinite=True,
    )
    privacy_delta: float = setting(
        1e-5,
        "The delta that goes with it",
        PRIVACY,
        s.number,
        above=0.0,
        high=0.9,
        needs=("privacy_epsilon", ()),
    )
    privacy_clip: float = setting(
        1.0,
        "Length to which the gradient of a row is cut",
        PRIVACY,
        s.number,
        above=0.0,
        needs=("privacy_epsilon", ()),
    )
    privacy_signals: float = setting(
        0.3,
        "Share of epsilon that counts, signals and histograms alone would cost",
        PRIVACY,
        s.number,
        above=0.0,
        high=0.9,
        needs=("privacy_epsilon", ()),
    )
    privacy_level: str = setting(
        "record",
        "Hide single rows (record), or all of a client's rows together (silo)",
        PRIVACY,
        s.text,
        choices=("record", "silo"),
        needs=("privacy_epsilon", ()),
    )

    seeds: tuple[int, ...] = setting((0,), "5 means 0..4; 100:110 is a range", RUN, s.seeds, low=0)
    tune: bool = setting(
        False,
        "Choose alpha and lr on validation rows: from the values given, else from the paper's grid",
        RUN,
        s.yes_or_no,
    )
    accuracy_floor: float = setting(
        0.25,
        "Tuning: least share of the way from majority to best accuracy",
        RUN,
        s.number,
        low=0.0,
        high=1.0,
        needs=("tune", (True,)),
        by_method=True,
    )
    precision: str = setting(
        "float32", "Arithmetic of local training", RUN, s.text, choices=("float32", "float64")
    )
    engine: str = setting(
        "auto",
        "What trains: compiled code or numpy (auto: compiled code where there is any)",
        RUN,
        s.text,
        choices=("auto", "native", "numpy"),
    )

    def __post_init__(self) -> None:
        """Refuse values out of range.

        A function that builds a model is kept by its name; an infinite epsilon asks for nothing.
        """
        if callable(self.model):
            from fedfb.models.own import name_of

            object.__setattr__(self, "model", name_of(self.model))
        if self.privacy_epsilon == inf:
            for declared in fields(self):
                if s.setting_of(declared).panel == PRIVACY:
                    object.__setattr__(self, declared.name, declared.default)
        for declared in fields(self):
            s.check_value(declared.name, getattr(self, declared.name), s.setting_of(declared))

    @property
    def request(self) -> DataRequest:
        """The part that names the data."""
        wanted = {declared.name for declared in fields(DataRequest)}
        return DataRequest(**{k: v for k, v in asdict(self).items() if k in wanted})

    @property
    def hash(self) -> str:
        """A short name of all but the seeds: runs of equal hash and seed are the same run.

        Reports, cards, exports and the store show that of the resolved experiment, in which it does
        not matter whether a usual value was typed or left out.
        """
        content = {
            f.name: _canonical(self, f)
            for f in fields(self)
            if f.name != "seeds" and not _is_usual_addition(self, f)
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def split_of(self, seed: int) -> int:
        """Return the seed of rows and clients.

        The declared one; else, on data drawn or split on the spot, the run's own; else 0.
        """
        if self.split_seed is not None:
            return self.split_seed
        return seed if self.data in DRAWN or self.resplit else 0


ADDED = ("minimum_group", "rest")
"""Settings, beside those of privacy, that experiments written before did not have."""


def _is_usual_addition(experiment: Experiment, declared: Field[Any]) -> bool:
    """Return True for a later setting at its default: hashes written before it must not change."""
    added = declared.name in ADDED or s.setting_of(declared).panel == PRIVACY
    return added and bool(getattr(experiment, declared.name) == declared.default)


def _canonical(experiment: Experiment, declared: Field[Any]) -> Any:
    """Return a setting's value as floats where floats belong: 1 and 1.0 are the same setting."""
    value, parse = getattr(experiment, declared.name), s.setting_of(declared).parse
    if parse is s.numbers:
        return tuple(map(float, value))
    return float(value) if parse is s.number and value is not None else value
