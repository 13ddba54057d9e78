"""Settings that have an effect, and those that have none and are refused."""

from collections.abc import Sequence
from dataclasses import Field, fields, replace
from typing import Any, Literal

from fedfb.algorithms import METHODS, Method, find_method
from fedfb.algorithms.method import OuterRule
from fedfb.data.request import draws_rows
from fedfb.errors import ConfigError, unknown_name
from fedfb.experiments.spec import Experiment
from fedfb.models import is_own
from fedfb.settings import flag_of, setting_of

ACROSS_CLIENTS = ("participation", "dropout", "scaling")
"""Settings of how clients work together: they mean nothing where all rows are in one place."""


def outer_rule(experiment: Experiment, method: Method) -> OuterRule | None:
    """Return how the method finds its weights: the rule asked for, or a step if ``alpha`` is set.

    >>> outer_rule(Experiment(), find_method("fedfb"))
    'solve'
    """
    rule = _wanted_rule(experiment, method)
    if rule is None:
        return None
    if rule not in method.outer_rules:
        what = f"rule (--outer) of {method.name}"
        raise ConfigError(unknown_name(what, rule, method.outer_rules))
    if rule != "solve" and (experiment.target or experiment.cost is not None):
        raise ConfigError(
            f"--target and --cost need weights that are solved for, and --outer {rule} moves them "
            "by a step (--alpha asks for it). Leave out --alpha and --outer."
        )
    if experiment.target and experiment.cost is not None:
        raise ConfigError("--target and --cost both say how fair to be. Give one of them.")
    return rule


def _wanted_rule(experiment: Experiment, method: Method) -> OuterRule | None:
    if not method.outer_rules:
        return None
    return experiment.outer or ("step" if experiment.alpha else method.outer_rules[0])


BY_SUMS = ("newton", "lbfgs")
"""The solvers that fit by sums, without local training."""

OF_LOCAL_TRAINING = ("local_epochs", "batch", "optimiser", "scaling", "lr")
"""Settings of local training: a fit by sums has none of them."""


def solver_of(experiment: Experiment) -> Literal["newton", "lbfgs", "local"] | None:
    """Return what fits the model; None for a method that cannot be asked.

    By default models are fitted by sums, logistic regressions exactly, where a plain weighted fit
    is what the method asks for, and no setting of local training is given.

    >>> [solver_of(Experiment(**some)) for some in ({}, {"model": "mlp"}, {"lr": (0.01,)})]
    ['newton', 'lbfgs', 'local']
    """
    method, usual = find_method(experiment.algorithm), Experiment()
    if forms_that_read(method, "solver") is None:
        return None
    network = experiment.model != "logistic"
    local = (
        is_own(experiment.model)
        or (network and experiment.participation < 1)
        or experiment.privacy_epsilon is not None
        or experiment.timing != "post"
        or experiment.tune
        or _wanted_rule(experiment, method) not in (None, "solve")
        or any(getattr(experiment, name) != getattr(usual, name) for name in OF_LOCAL_TRAINING)
    )
    return experiment.solver or ("local" if local else "lbfgs" if network else "newton")


def refuse_fit(experiment: Experiment) -> None:
    """Refuse a fit by sums where there is none."""
    solver, reason = experiment.solver, None
    if solver not in BY_SUMS:
        return
    if solver == "newton" and experiment.model != "logistic":
        reason = f"fits logistic regressions, and this model is {experiment.model}"
    elif is_own(experiment.model):
        reason = f"fits logistic and mlp, and {experiment.model} is a torch model"
    elif solver == "lbfgs" and experiment.participation < 1:
        reason = "fits the rows of all clients, and --participation leaves a share of them"
    elif solver == "lbfgs" and experiment.privacy_epsilon is not None:
        reason = "uploads some hundred gradients, and noise would hide each of them"
    elif experiment.privacy_epsilon is not None:
        reason = (
            "uploads all second derivatives. Noise that hides a row in so many numbers would hide "
            "the model too; private training clips and hides gradients"
        )
    elif experiment.timing != "post":
        reason = f"fits in several exchanges, and --timing {experiment.timing} asks for one"
    if reason:
        raise ConfigError(
            f"--solver {solver} {reason}. Leave out --solver, or give --solver local."
        )


def refuse_too_many(method: Method, groups: int) -> None:
    """Refuse a method for more groups than it can compare."""
    if method.most_groups is not None and groups > method.most_groups:
        raise ConfigError(
            f"{method.name} compares at most {method.most_groups} groups, and these data have "
            f"{groups}. Name fewer sensitive attributes, or choose another method (fedfb list)."
        )


def without_effect(experiment: Experiment) -> dict[str, str]:
    """Return the settings that are given and have no effect, each with the sentence that says so.

    A value equal to the default counts as not given.

    >>> without_effect(Experiment(hidden=(8,)))["hidden"]
    '--hidden has no effect with --model logistic. Leave it out, or give --model mlp.'
    """
    return {
        declared.name: reason
        for declared in fields(experiment)
        if getattr(experiment, declared.name) != declared.default
        and (reason := _why_not(experiment, declared))
    }


def share_settings(experiment: Experiment, algorithms: Sequence[str]) -> list[Experiment]:
    """Return one experiment for each method, with the settings that the method reads.

    A setting or knob that no method reads is refused.

    Args:
        experiment: settings for all methods together.
        algorithms: names of the methods.
    """
    requests = [replace(experiment, algorithm=name) for name in algorithms]
    idle = [without_effect(request) for request in requests]
    of_none = [
        name for name in idle[0] if name != "knobs" and all(name in reasons for reasons in idle)
    ]
    for name in of_none:
        # What a method reads in another form of it helps more than that others do not read it.
        able = (
            forms_that_read(find_method(request.algorithm), name) is not None
            for request in requests
        )
        raise ConfigError(max(zip(able, idle, strict=True), key=lambda pair: pair[0])[1][name])
    knobs = [
        {name for name in _knob_names(request) if is_read(request, name)} for request in requests
    ]
    return [
        _drop_idle(replace(request, knobs=_assignments(request, read_knobs, set().union(*knobs))))
        for request, read_knobs in zip(requests, knobs, strict=True)
    ]


def _drop_idle(experiment: Experiment) -> Experiment:
    """Return the experiment without settings that have no effect.

    Without --bits, --bits-mode has no effect either: settings are dropped until all have one.
    """
    usual: dict[str, Any] = {declared.name: declared.default for declared in fields(Experiment)}
    while idle := without_effect(experiment).keys() - {"knobs"}:
        experiment = replace(experiment, **{name: usual[name] for name in idle})
    return experiment


def is_read(experiment: Experiment, name: str) -> bool:
    """Return whether the method reads a setting or knob, in this variant and outer rule.

    Args:
        experiment: names the method, its variant and its outer rule.
        name: of a field of :class:`Experiment`, or of a knob.
    """
    return not _unread(experiment, name, "")


def _knob_names(experiment: Experiment) -> list[str]:
    """Return the knobs that are set and that the method has."""
    names = [assignment.partition("=")[0] for assignment in experiment.knobs]
    return [name for name in names if name in find_method(experiment.algorithm).knobs]


def _assignments(experiment: Experiment, read_knobs: set[str], of_all: set[str]) -> tuple[str, ...]:
    """Return the knobs that a method reads, and those that none does: they are refused."""
    names = {assignment: assignment.partition("=")[0] for assignment in experiment.knobs}
    return tuple(
        assignment for assignment, name in names.items() if name in read_knobs or name not in of_all
    )


def _why_not(experiment: Experiment, declared: Field[Any]) -> str:
    setting, flag = setting_of(declared), flag_of(declared.name)
    if setting.needs is not None:
        name, values = setting.needs
        value, other = getattr(experiment, name), flag_of(name)
        if not values and value is None:
            return f"{flag} has no effect without {other}. Leave it out, or give {other}."
        if values and value not in values:
            wanted = other if values == (True,) else f"{other} {' or '.join(map(str, values))}"
            with_what = "without " + other if values == (True,) else f"with {other} {value}"
            return f"{flag} has no effect {with_what}. Leave it out, or give {wanted}."
    if declared.name == "lr" and solver_of(experiment) in BY_SUMS:
        return _unread(experiment, "lr", flag)
    if declared.name == "split_seed" and not draws_rows(experiment.request):
        return (
            f"{flag} has no effect: test rows and clients are those of the files, and nothing is "
            "drawn. Leave it out."
        )
    if declared.name == "knobs":
        reasons = (_unread(experiment, knob, f"--set {knob}") for knob in _knob_names(experiment))
        return next(filter(None, reasons), "")
    return _unread(experiment, declared.name, flag) if setting.by_method else ""


def _unread(experiment: Experiment, name: str, flag: str) -> str:
    """Return why the method does not read a setting or knob, "" if it does."""
    method = find_method(experiment.algorithm)
    variant, rule = experiment.variant or method.variants[0], _wanted_rule(experiment, method)
    if name in OF_LOCAL_TRAINING and (solver := solver_of(experiment)) in BY_SUMS:
        return (
            f"{flag} has no effect with --solver {solver}, which fits by sums, without local "
            "training. Leave it out, or give --solver local."
        )
    if name in ACROSS_CLIENTS and method.is_pooled(variant):
        return f"{flag} has no effect with {method.name}: all rows are in one place. Leave it out."
    if name == "scaling" and experiment.notion == "cp" and rule == "solve":
        return (
            f"{flag} has no effect with --notion cp and --outer solve: all rows of a client have "
            "one weight. Leave it out."
        )
    forms = forms_that_read(method, name)
    if forms is None:
        others = [
            other.name for other in METHODS.values() if forms_that_read(other, name) is not None
        ]
        return (
            f"{flag} has no effect with {method.name}. Leave it out, or choose a method that reads "
            f"it: {', '.join(others)}."
        )
    if not forms or variant in forms or rule in forms:
        return ""
    kind, now = ("--outer", rule) if forms[0] in method.outer_rules else ("--variant", variant)
    return (
        f"{flag} has no effect with {method.name} and {kind} {now}. Leave it out, or give "
        f"{' or '.join(f'{kind} {form}' for form in forms)}."
    )


def forms_that_read(method: Method, name: str) -> tuple[str, ...] | None:
    """Return the variants or outer rules in which a method reads a setting or knob.

    Empty means all of them; None means that the method never reads it.
    """
    stepping = tuple(rule for rule in method.outer_rules if rule != "solve")
    match name:
        case "outer":
            return () if method.outer_rules else None
        case "target" | "cost":
            return () if "target" in method.knobs else None
        case "alpha":
            return method.reads.get(name, stepping) if name in method.knobs else None
        case "accuracy_floor":  # it is for a choice by disparity, not for the target of a search
            return stepping if method.fair and (stepping or not method.outer_rules) else None
        case "participation" | "dropout":
            return ()
        case _:
            return method.reads.get(name, () if name in method.knobs else None)
