"""What answers come to at the end of a phase: a choice, an audit, what is achievable."""

import json
from pathlib import Path

import numpy as np

from fedfb.audit.model_rows import TEST_ROWS
from fedfb.audit.record import audit_of_sum
from fedfb.audit.rows import digest
from fedfb.audit.tables import read_tables
from fedfb.core import Arrays
from fedfb.data.encode import Encoder
from fedfb.errors import ConfigError, DataError
from fedfb.experiments.evaluation import counted_records
from fedfb.experiments.scores import FEWEST_ROWS
from fedfb.experiments.store import ENCODER, EXPERIMENT, MODELS
from fedfb.experiments.tune import HELD_OUT, Choice, candidates, pick
from fedfb.flower.events import Log
from fedfb.flower.results import Known, tell
from fedfb.flower.study import Study
from fedfb.flower.trial import Trial
from fedfb.notions import long_name
from fedfb.runtime import Trained

ONLY_SUMS = (
    "only the sum of the silos' tables is known: no silo's own figures, no client parity, and no "
    "leaving out of silos"
)


def picked(study: Study, trial: Trial, trained: Trained, tables: Arrays) -> Choice:
    """Pick a learning rate on the silos' validation rows, of which only sums are known."""
    confusion, losses = tables["confusion"], tables["losses"]
    rows = round(float(confusion[0].sum()))
    if not rows:
        raise ConfigError(
            f"a learning rate is picked on {HELD_OUT:.0%} of every silo's rows, and none has "
            "enough to spare one. Add rows, or give it (fedfb study init --lr)."
        )
    groups = [str(number) for number in range(confusion.shape[-1])]
    records = counted_records(confusion, None, groups, minimum=1)
    mean_losses = [float(own[0].sum() / rows) for own in losses]
    off = [told.get("off_target", 0.0) for told in tell(trial, trained)]
    notion = long_name(study.experiment.notion)
    found = candidates(trial.settings, [records], [mean_losses], [off], notion)
    return pick(found, rows)


def audited(study: Study, known: Known, kept: Path, log: Log) -> str:
    """Return the audit of the first setting as JSON, as fedfb audit --secure makes it.

    Where nothing can be said of these rows it is empty, and the log has the reason.
    """
    experiment, encoder = study.experiment, known.encoder
    about = {
        "kind": "model",
        "name": study.name,
        "notion": long_name(experiment.notion),
        "data": f"the files of {len(study.silos)} silos",
        "label": encoder.label,
        "positive": encoder.positive,
        "rows": TEST_ROWS,
        "decided_by": f"{experiment.algorithm}, {experiment.model}, seed {study.seed}",
        "baseline": None,
        "hashes": {name: digest(kept / name) for name in (MODELS, ENCODER, EXPERIMENT)},
    }
    total = read_tables({name: value[0] for name, value in known.tables.items()})
    groups = encoder.groups
    try:
        record = audit_of_sum(total, groups.names, groups.columns, about, study.silos)
    except DataError as error:
        log.write("not audited", f"there is no audit: {error}")
        return ""
    record["notes"] = [ONLY_SUMS]
    return json.dumps(record, indent=1, allow_nan=False)


def achieved(study: Study, encoder: Encoder, counts: Arrays, log: Log) -> str:
    """Return what fairness can be reached as JSON, as fedfb achievable --data tells it.

    Where a silo withheld its scores it is empty, and the log has the reason.
    """
    # Here: its solvers are slow to import, and only this needs them.
    from fedfb.experiments.achievable import achievable
    from fedfb.experiments.score_population import population_of, scored_from, told_of

    clients = tuple(study.silos[id] for id in np.ravel(counts["client"]).tolist())
    silent = [name for name, rows in zip(clients, counts["rows"], strict=True) if not rows.any()]
    if silent:
        log.write(
            "not told",
            f"what is achievable cannot be told: {', '.join(silent)} withheld their scores, having "
            f"fewer than {FEWEST_ROWS} rows of some group, and any. Merge groups in the schema.",
        )
        return ""
    scored = scored_from(counts["rows"], clients, encoder.groups.names)
    record = {**achievable(population_of(scored.counts)), **told_of(scored, study.seed)}
    return json.dumps(record, indent=1, allow_nan=False)
