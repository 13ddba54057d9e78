"""One client's training against torch 2.13.0 (float64), and the averages by hand."""

import numpy as np
import pytest

from fedfb.paper.released.rules import average_by_size, average_by_weight, first_clients
from fedfb.paper.released.training import (
    LocalRows,
    add_ones,
    draw_initial,
    loader_orders,
    margins,
    released_cross_entropy,
    train_released,
)

NUMBERS = np.arange(200)
X = np.column_stack([np.sin(NUMBERS + 1), np.cos(2 * NUMBERS), NUMBERS % 2])
Y = (NUMBERS**2 % 5 < 2).astype(int)
WEIGHTS = 1.0 + NUMBERS % 3

TORCH = {
    4: (
        *(0.0020409049, 0.2111116403, -0.3760139544, -0.4522676885),
        *(-0.4768699162, -0.2968370566, 0.1918219474, -0.323076584),
        *(-0.0721633397, 0.4722605491, -0.0344892622, -0.229458345),
        *(0.1657320397, -0.2002968137, -0.0387129922, 0.096016654),
        *(0.1002217077, 0.241310033, -0.367622208, -0.2390329698, -0.1597292574),
        *(0.0844973344, 0.4731156402, -0.073497806, 0.3952678125, 0.1320467887),
    ),
    0: (
        *(-0.0936257828, 0.2338042235, -0.3861327616, 0.07901927),
        *(-0.3355741923, -0.1464629774, 0.0657768457, 0.3673059284),
    ),
}
"""Layer by layer, each output's weights and bias, after five epochs at a rate of .01."""


def five_epochs(seeds: tuple[int, ...], hidden: int, dtype: str = "float64") -> np.ndarray:
    orders = np.stack([loader_orders(seed, len(Y), 5, 128, fillers=False) for seed in seeds])
    rows = LocalRows(add_ones(X, dtype), Y, orders)
    weights = np.tile(WEIGHTS, (len(seeds), 1)).astype(dtype)
    start = draw_initial(seeds, 3, hidden).astype(dtype)
    return train_released(start, rows, weights, 0.01, hidden, "weighted mean")


@pytest.mark.parametrize("hidden", TORCH)
def test_five_epochs_end_where_torch_does(hidden):
    np.testing.assert_allclose(five_epochs((0,), hidden)[0], TORCH[hidden], atol=1e-9)


def test_single_precision_stays_single_and_near():
    params = five_epochs((0,), 4, "float32")
    assert params.dtype == np.float32
    np.testing.assert_allclose(params[0], TORCH[4], atol=1e-5)


@pytest.mark.parametrize("hidden", [0, 4])
def test_seeds_trained_together_do_not_meet(hidden):
    together = five_epochs((3, 0), hidden)
    np.testing.assert_allclose(together[1], five_epochs((0,), hidden)[0], atol=1e-12)


@pytest.mark.parametrize("hidden", [0, 4])
def test_training_lowers_the_loss(hidden):
    x, start = add_ones(X, "float64"), draw_initial((0,), 3, hidden).astype(float)
    losses = [
        float(WEIGHTS @ released_cross_entropy(margins(params, x, hidden), Y)[0])
        for params in (start, five_epochs((0,), hidden))
    ]
    assert losses[1] < losses[0]


def test_the_first_client_falls_out_and_the_model_shrinks():
    """(6 + 2 * 10 + 3 * 20) / (5 + 2 + 3) = 8.6, where (5 * 6 + 80) / 10 = 11 is right."""
    models = [np.array([[value]]) for value in (6.0, 10.0, 20.0)]
    weights = np.array([[5.0, 2.0, 3.0]])
    assert average_by_weight(models, weights, "first-unweighted")[0, 0] == pytest.approx(8.6)
    assert average_by_weight(models, weights, "weighted")[0, 0] == pytest.approx(11.0)


def test_equal_models_shrink_by_the_first_clients_share():
    models = [np.array([[1.0]])] * 2
    averaged = average_by_weight(models, np.array([[400.0, 600.0]]), "first-unweighted")
    assert averaged[0, 0] == pytest.approx(601 / 1000)


def test_fedavg_drops_the_client_asked_first():
    """(10 + 5 * 6 + 3 * 20) / (5 + 3) = 12.5 where client 1 is first; right is 11."""
    models = [np.array([[value]]) for value in (6.0, 10.0, 20.0)]
    first = np.array([1])
    assert average_by_size(models, [5, 2, 3], first, "first-unweighted")[0, 0] == pytest.approx(
        12.5
    )
    assert average_by_size(models, [5, 2, 3], first, "weighted")[0, 0] == pytest.approx(11.0)


@pytest.mark.parametrize(("clients", "first"), [(3, [2, 0, 2, 1, 1]), (2, [1, 0, 1, 1, 1])])
def test_seeds_0_to_4_ask_these_clients_first(clients, first):
    assert first_clients((0, 1, 2, 3, 4), clients).tolist() == first
