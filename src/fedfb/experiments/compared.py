"""A comparison that is kept: by the store, so as not to train twice, or in a folder with models."""

from collections.abc import Sequence
from pathlib import Path

from fedfb.algorithms import find_method
from fedfb.experiments.compare import check_on_rows, for_methods
from fedfb.experiments.evaluation import Record
from fedfb.experiments.folders import COMPARISON, claim_empty
from fedfb.experiments.outcome import OnRound, load_federations, run
from fedfb.experiments.recorded import load_rows, report_of
from fedfb.experiments.records import Store
from fedfb.experiments.spec import Experiment
from fedfb.experiments.store import LEDGER, claim, save
from fedfb.files import write_json


def reports_of(
    experiment: Experiment,
    algorithms: Sequence[str],
    store: Store | None,
    on_round: OnRound = lambda progress: None,
) -> list[Record]:
    """Return the report of every method, training what the store does not have."""
    experiments = for_methods(experiment, algorithms)
    rows = load_rows(experiments[0])
    check_on_rows(experiments, rows.federations[experiment.seeds[0]])
    return [report_of(one, store, rows, on_round=on_round) for one in experiments]


def compare_into(
    folder: Path,
    experiment: Experiment,
    algorithms: Sequence[str],
    on_round: OnRound = lambda progress: None,
) -> list[Record]:
    """Train every method, keep each run in a folder of its own name, and return their reports."""
    reports = []
    experiments = for_methods(experiment, algorithms)
    if experiment.bits or any(find_method(name).most_groups for name in algorithms):
        check_on_rows(experiments, load_federations(experiments[0])[experiment.seeds[0]])
    with claim_empty(folder):
        for one in experiments:
            own = folder / one.algorithm
            with claim(own, one) as checkpoints:
                outcome = run(
                    one,
                    checkpoints=checkpoints,
                    ledger=own / LEDGER,
                    on_round=on_round,
                    warn=False,
                )
                save(outcome, own)
            reports.append(outcome.report)
        write_json(folder / COMPARISON, {"algorithms": list(algorithms)})
    return reports
