"""A network for fedfb: fedfb run --data adult --model nets:build, typed where this file is."""

from torch import nn


def build(features: int) -> nn.Module:
    """Three layers with dropout, and one logit per row."""
    return nn.Sequential(
        *(nn.Linear(features, 64), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2)),
        nn.Linear(32, 1),
    )
