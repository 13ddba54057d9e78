"""The counts of the released data: by client, group and batch."""

import os

import numpy as np
import pytest

from fedfb.errors import ConfigError
from fedfb.paper.released import load_released
from fedfb.paper.released.data import count_cells, hold_out_last_tenth, pool_clients
from fedfb.paper.released.training import BATCH

COUNTS = {
    "synthetic": {
        "features": 3,
        "groups": [1409, 2091],
        "positive": [0.262, 0.824],
        "test": [583, 917],
        "clients": [1326, 1191, 983],
        "batches": [10, 9, 7],
    },
    "synthetic-low": {"clients": [1154, 1155, 1191]},
    "synthetic-2": {"groups": [943, 1390], "test": [427, 573], "clients": [843, 1490]},
    "synthetic-4": {"groups": [1839, 2828], "test": [801, 1199], "clients": [932, 934, 933, 1868]},
    "adult": {
        "features": 107,
        "groups": [10771, 21790],
        "positive": [0.109, 0.306],
        "test": [5421, 10860],
        "clients": [20129, 12432],
        "batches": [142, 88],
    },
    "compas": {
        "features": 448,
        "groups": [1955, 2130, 509, 455],
        "positive": [0.607, 0.454, 0.668, 0.651],
        "test": [820, 914, 234, 197],
        "clients": [3747, 1302],
        "batches": [27, 10],
    },
    "bank": {
        "features": 38,
        "groups": [7765, 5353, 6015, 6718, 5796],
        "positive": [0.141, 0.109, 0.090, 0.092, 0.148],
        "test": [3346, 2249, 2522, 2924, 2523],
        "clients": [14287, 5724, 11636],
        "batches": [101, 41, 82],
    },
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_those_of_the_released_code(name):
    if not name.startswith("synthetic") and not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
    data = load_released(name)
    cells = count_cells(pool_clients(data.clients), data.groups)
    found = {
        "features": data.test.x.shape[1],
        "groups": cells.sum(axis=0).astype(int).tolist(),
        "positive": np.round(cells[1] / cells.sum(axis=0), 3).tolist(),
        "test": np.bincount(data.test.group).tolist(),
        "clients": [len(client.y) for client in data.clients],
        "batches": [-(-len(hold_out_last_tenth(client)[0].y) // BATCH) for client in data.clients],
    }
    assert {key: found[key] for key in COUNTS[name]} == COUNTS[name]


def test_clients_hold_the_released_shares_of_each_group():
    held = [np.bincount(client.group).tolist() for client in load_released("synthetic").clients]
    assert held == [[281, 1045], [564, 627], [564, 419]]


def test_the_slip_leaves_the_third_client_without_group_1():
    held = [np.bincount(c.group, minlength=2) for c in load_released("synthetic-high-slip").clients]
    assert held[2].tolist() == [141, 0]


def test_every_row_is_dealt_once():
    data = load_released("synthetic")
    x = pool_clients(data.clients).x
    assert len(np.unique(x, axis=0)) == len(x) == 3500


def test_the_group_is_the_last_feature():
    data = load_released("synthetic")
    np.testing.assert_array_equal(data.test.x[:, -1], data.test.group)


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'adult'"):
        load_released("adults")


FAIRFED = {
    "adult-0_1": (104, [884, 29967, 492, 435, 4399]),
    "adult-5000": (104, [667, 684, 673, 677, 674]),
    "compas-10": (454, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAIRFED)
def test_the_setting_of_fairfed_has_the_released_sizes(name):
    if not os.environ.get("FEDFB_DATA"):
        pytest.skip("FEDFB_DATA does not name a folder with the published files")
    features, sizes = FAIRFED[name]
    data = load_released(name)
    assert data.test.x.shape[1] == features
    assert len(data.clients) == 5
    if sizes:
        assert [len(client.y) for client in data.clients] == sizes
        assert set(pool_clients(data.clients).group.tolist()) == {0, 1}
        assert set(data.test.group.tolist()) == {0, 1, 2, 3, 4}
        assert len(np.unique(pool_clients(data.clients).x, axis=0)) <= 1350
