"""Federations to audit: rows with labels, crossed groups, decisions and scores."""

import numpy as np

from fedfb.audit.result import About
from fedfb.audit.rows import AuditedRows, Subject

ABOUT = About(
    kind="scores",
    name="drawn",
    notion=None,
    data="drawn rows",
    label="y",
    positive="1",
    rows="all rows",
    decided_by="score of at least 0.5",
    baseline="other",
    hashes={},
)
GROUPS = ("sex=F, race=B", "sex=F, race=W", "sex=M, race=B", "sex=M, race=W")


def client(rng, sizes, scores=True, baseline=False):
    """Draw one client's rows, so many of each group; later groups are favoured."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    y = (rng.random(len(group)) < 0.35 + 0.08 * group).astype(np.int64)
    score = np.clip(0.3 + 0.25 * y + 0.05 * group + rng.normal(0, 0.2, len(group)), 0, 1)
    other = (rng.random(len(group)) < 0.3 + 0.4 * y).astype(float) if baseline else None
    return AuditedRows(y, group, (score >= 0.5).astype(float), score if scores else None, other)


def federation(sizes, seed=0, names=GROUPS, **options):
    """Return a subject with one client for every row of ``sizes[client][group]``."""
    rng = np.random.default_rng(seed)
    clients = {f"client {place}": client(rng, row, **options) for place, row in enumerate(sizes)}
    return Subject(clients, tuple(names), ("sex", "race"), ABOUT)


def pooled(subject):
    """Return all rows as one client's."""
    parts = list(subject.clients.values())
    return AuditedRows(
        *(
            None if parts[0][place] is None else np.concatenate([part[place] for part in parts])
            for place in range(len(AuditedRows._fields))
        )
    )
