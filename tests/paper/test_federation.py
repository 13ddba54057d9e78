"""The released code's rows as our methods read them."""

import numpy as np
import pytest

from fedfb.experiments.outcome import run
from fedfb.experiments.spec import Experiment
from fedfb.paper.released import as_federation, load_released
from fedfb.tables.table import Table


@pytest.fixture(scope="module")
def rows():
    return load_released("synthetic")


def test_every_client_keeps_its_rows_and_test_rows_belong_to_none(rows):
    federation = as_federation(rows)
    for client, own in zip(federation.clients, rows.clients, strict=True):
        for found, expected in zip((client.x, client.y, client.group), own, strict=True):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(federation.test.x, rows.test.x)
    assert set(federation.test.client) == {-1}


def test_the_encoder_reads_features_as_they_are(rows):
    federation = as_federation(rows)
    x, group = rows.test.x, rows.test.group
    columns = dict(zip(federation.feature_names, x.astype(str).astype(object).T, strict=True))
    table = Table({**columns, "group": group.astype(str).astype(object)})
    np.testing.assert_array_equal(federation.encoder.encode(table), x)
    np.testing.assert_array_equal(federation.encoder.groups.group_of(table), group)


def test_fedavg_on_them_has_the_printed_figures(rows):
    """Table 1 prints .886 / .406: its wrong average hardly matters where clients are alike."""
    seeds = (0, 1, 2, 3, 4)
    found = run(
        Experiment(algorithm="fedavg", lr=(0.01,), seeds=seeds),
        federations=dict.fromkeys(seeds, as_federation(rows)),
    ).summaries[0]
    assert found.accuracy.mean == pytest.approx(0.886, abs=0.005)
    assert found.disparity["demographic_parity"].mean == pytest.approx(0.406, abs=0.02)
