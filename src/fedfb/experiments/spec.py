"""An experiment: all that determines a result, as one frozen value that reads and writes TOML."""

import hashlib
import json
from dataclasses import Field, dataclass, fields
from inspect import cleandoc
from math import inf
from typing import Annotated, Any, Literal

from msgspec import Meta

from fedfb.data.request import DATA, DRAWN, DataRequest, hide_secrets
from fedfb.settings import (
    Assignments,
    Seeds,
    convert_value,
    describe_arguments,
    kind_of,
    setting,
    setting_of,
)

METHOD, SIGNAL, RUN = "Method", "Signal and weights", "Run"
PRIVACY = "Privacy"


@dataclass(frozen=True)
class Experiment(DataRequest):
    """Data, method and settings of a run.

    The fields are the flags of ``fedfb run`` and the keys of its TOML.

    >>> Experiment(data="synthetic", seeds=(0,), alpha=(0.1, 0.5)).batch
    128
    """

    split_seed: Annotated[int, Meta(ge=0)] | None = setting(
        None,
        "The seed that draws test rows and clients (default 0; drawn data and --resplit: the run's "
        "own seed)",
        DATA,
    )
    algorithm: str = setting("fedfb", "See fedfb list", METHOD)
    notion: str = setting("dp", "dp, eo, eod, cp: what is to be equal", METHOD)
    model: Literal["logistic", "mlp"] | str = setting(
        "logistic",
        "Logistic regression, a multilayer perceptron, or what a function of yours builds in torch",
        METHOD,
        or_own="MODULE:FUNCTION",
    )
    hidden: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1)] = setting(
        (4,), "mlp: sizes of the hidden layers", METHOD, needs=("model", ("mlp",))
    )
    variant: str | None = setting(None, "A form of the method other than its usual one", METHOD)
    outer: Literal["solve", "step", "paper"] | None = setting(
        None,
        "fedfb, cfl: how the weights are found (default solve; with --alpha, step)",
        METHOD,
        by_method=True,
    )
    target: tuple[Annotated[float, Meta(ge=0, le=1)], ...] = setting(
        (),
        "fedfb, cfl, fedfb-thresholds, hardt: the disparity to train to; several make a grid "
        "(default 0)",
        METHOD,
        by_method=True,
    )
    cost: Annotated[float, Meta(ge=0, le=1)] | None = setting(
        None,
        "In place of a target: the accuracy that fairness may cost (.01: one point)",
        METHOD,
        by_method=True,
    )
    alpha: tuple[Annotated[float, Meta(ge=0)], ...] = setting(
        (),
        "Step of the fairness weights; several make a grid (default: fedfb and cfl .5, for cp 2; "
        "else the method's, fedfb list)",
        METHOD,
        by_method=True,
    )
    knobs: Assignments = setting(
        (),
        "The method's own knobs, such as q=0.1,1; several values make a grid",
        METHOD,
        flags=("--set",),
    )
    lr: tuple[Annotated[float, Meta(gt=0)], ...] = setting(
        (),
        "Learning rate of local training; several make a grid (default: chosen on validation rows; "
        "under privacy the method's)",
        METHOD,
    )
    rounds: Annotated[int, Meta(ge=1)] | None = setting(
        None,
        "Communication rounds (default 10, or the method's; 1 for exact fits with fixed weights)",
        METHOD,
    )
    participation: Annotated[float, Meta(gt=0, le=1)] = setting(
        1.0, "Share of the clients that take part in a round", METHOD, by_method=True
    )
    dropout: Annotated[float, Meta(ge=0, le=0.9)] = setting(
        0.0,
        "Share of a round's clients that stop sending in the middle of it",
        METHOD,
        by_method=True,
    )
    secure: bool = setting(False, "Mask what clients send: the server receives only sums", METHOD)
    solver: Literal["newton", "lbfgs", "local"] | None = setting(
        None,
        "newton: fit a logistic regression exactly, by sums; lbfgs: fit a network by summed "
        "gradients; local: clients train, the server averages (default newton or lbfgs where "
        "nothing asks for local training)",
        METHOD,
        by_method=True,
    )
    local_epochs: Annotated[int, Meta(ge=1)] = setting(
        30, "Passes over its rows that a client makes in a round", METHOD, by_method=True
    )
    batch: Annotated[int, Meta(ge=1)] = setting(128, "Rows in a minibatch", METHOD, by_method=True)
    optimiser: Literal["adam", "sgd"] = setting("adam", "Local solver", METHOD, by_method=True)
    weight_decay: Annotated[float, Meta(ge=0)] = setting(
        0.0, "L2 penalty of local training", METHOD, by_method=True
    )
    scaling: Literal["mass", "sample"] = setting(
        "mass",
        "Weight of a client in the average: its weighted rows (mass), or its rows (sample)",
        METHOD,
        by_method=True,
    )
    signal_loss: Literal["zero_one", "prob", "ce"] | None = setting(
        None,
        "Loss in the signal (default zero_one; where a step is taken: prob; for cp and with "
        "--outer paper: ce)",
        SIGNAL,
        by_method=True,
    )
    normalise: Literal["none", "l2"] = setting(
        "none", "Divide the signal by its length, as the paper does, or not", SIGNAL, by_method=True
    )
    decay: Literal["const", "inv_sqrt", "inv"] = setting(
        "inv_sqrt", "How the step shrinks", SIGNAL, by_method=True
    )
    timing: Literal["post", "piggyback", "local"] = setting(
        "post",
        "The model that the signal is of: the new one (post), the received one (piggyback), or "
        "each client's (local)",
        SIGNAL,
        by_method=True,
    )
    period: Annotated[int, Meta(ge=1)] = setting(
        1,
        "Rounds between two moves of lambda, the paper's k",
        SIGNAL,
        flags=("--k",),
        by_method=True,
    )
    bits: Annotated[int, Meta(ge=1, le=32)] | None = setting(
        None, "Quantise the uploads of the signal to so many bits", SIGNAL, by_method=True
    )
    bits_mode: Literal["per_value", "per_round"] = setting(
        "per_value", "Bits for each value, or for a round", SIGNAL, needs=("bits", ())
    )
    rounding: Literal["nearest", "stochastic"] = setting(
        "nearest", "Rounding of quantised values", SIGNAL, needs=("bits", ())
    )
    reference: Literal["auto", "first", "mean"] = setting(
        "auto",
        "Compare groups with the first or with their mean (auto: the mean of more than two)",
        SIGNAL,
        by_method=True,
    )
    privacy_epsilon: Annotated[float, Meta(gt=0, extra={"infinite": True})] | None = setting(
        None,
        "Hide every single row: the epsilon of differential privacy (inf: no clipping, no noise)",
        PRIVACY,
    )
    privacy_delta: Annotated[float, Meta(gt=0, le=0.9)] = setting(
        1e-05, "The delta that goes with it", PRIVACY, needs=("privacy_epsilon", ())
    )
    privacy_clip: Annotated[float, Meta(gt=0)] = setting(
        1.0, "Length to which the gradient of a row is cut", PRIVACY, needs=("privacy_epsilon", ())
    )
    privacy_signals: Annotated[float, Meta(gt=0, le=0.9)] = setting(
        0.3,
        "The part of epsilon for counts, signals and histograms, as if nothing else were sent",
        PRIVACY,
        needs=("privacy_epsilon", ()),
    )
    privacy_level: Literal["record", "client"] = setting(
        "record",
        "Hide single rows (record), or all of a client's rows together (client)",
        PRIVACY,
        needs=("privacy_epsilon", ()),
    )
    seeds: Seeds = setting((0,), "Seeds to train with: 5 means 0 to 4; 100:110 is 100 to 109", RUN)
    leave_out_clients: bool = setting(
        False,
        "Train without each client in turn too, and report figures on the client that was left out",
        RUN,
    )
    tune: bool = setting(
        False,
        "Choose alpha and lr on validation rows: from the values given, else from the paper's grid",
        RUN,
    )
    accuracy_floor: Annotated[float, Meta(ge=0, le=1)] = setting(
        0.25,
        "With --tune: the least accuracy of a choice, from 0 (the majority's) to 1 (the best)",
        RUN,
        needs=("tune", (True,)),
        by_method=True,
    )
    precision: Literal["float32", "float64"] = setting(
        "float32", "Arithmetic of local training", RUN
    )
    engine: Literal["auto", "native", "numpy"] = setting(
        "auto", "What trains: compiled code or numpy (auto: compiled code where there is any)", RUN
    )

    def __post_init__(self) -> None:
        """Refuse values out of range; a whole number stands for a decimal one where one belongs.

        A function that builds a model is kept by its name; an infinite epsilon asks for nothing.
        """
        hide_secrets(self)
        if callable(self.model):
            from fedfb.models import name_of

            object.__setattr__(self, "model", name_of(self.model))
        if self.privacy_epsilon == inf:
            for declared in fields(self):
                if setting_of(declared).panel == PRIVACY:
                    object.__setattr__(self, declared.name, declared.default)
        for declared in fields(self):
            value, own = getattr(self, declared.name), setting_of(declared).or_own
            value = convert_value(declared.name, value, kind_of(declared), own)
            object.__setattr__(self, declared.name, value)

    @property
    def request(self) -> DataRequest:
        """The part that names the data."""
        return DataRequest(**{f.name: getattr(self, f.name) for f in fields(DataRequest)})

    @property
    def hash(self) -> str:
        """A short name of all but the seeds: runs of equal hash and seed are the same run.

        Reports, cards, exports and the store show that of the resolved experiment, in which it does
        not matter whether a usual value was typed or left out.
        """
        content = {
            f.name: getattr(self, f.name)
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


class Resolved(Experiment):
    """An experiment in which nothing is open that its method decides.

    Only ``resolve`` (``experiments/resolve.py``) makes one; what trains takes no other.
    """

    rounds: int
    variant: str


ADDED = (
    *("minimum_group", "rest", "query", "client_rows", "dates"),
    *("separator", "decimal", "thousands", "encoding"),
    "leave_out_clients",
)
"""Settings, beside those of privacy, that experiments written before did not have."""


def _is_usual_addition(experiment: Experiment, declared: Field[Any]) -> bool:
    """Return True for a later setting at its default: hashes written before it must not change."""
    if declared.name == "solver":  # every experiment before it trained locally
        return experiment.solver not in ("newton", "lbfgs")
    added = declared.name in ADDED or setting_of(declared).panel == PRIVACY
    return added and bool(getattr(experiment, declared.name) == declared.default)


Experiment.__doc__ = (
    f"{cleandoc(Experiment.__doc__ or '')}\n\n{describe_arguments(fields(Experiment))}"
)
