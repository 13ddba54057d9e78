"""Known answers of torch 2.13.0 (CPU), which is no dependency."""

import numpy as np
import pytest

from fedfb.paper.released.training import (
    draw_linear,
    draw_words,
    loader_orders,
    random_int64,
    randperm,
    skip_randn,
    torch_generator,
)


def test_layers_begin_as_in_torch():
    rng = torch_generator(0)
    first, last = draw_linear(rng, 3, 4), draw_linear(rng, 4, 2)
    drawn = [*first.weight[0], *first.bias, *last.weight[0, :2], *last.bias]
    torch = [
        *(-0.004322517663240433, 0.3097158372402191, -0.4751853346824646),
        *(-0.55157071352005, -0.3823687434196472, -0.2379971146583557, 0.021387115120887756),
        *(0.19766759872436523, 0.30001139640808105, -0.08059167861938477, 0.05290704965591431),
    ]
    assert [float(value) for value in drawn] == torch


def test_a_wide_layer_begins_as_in_torch():
    rng = torch_generator(1)
    first, last = draw_linear(rng, 107, 4), draw_linear(rng, 4, 2)
    torch = [
        0.015518788248300552,
        -0.00862121768295765,
        -0.009761049412190914,
        -0.04747786745429039,
    ]
    assert first.bias.tolist() == torch
    assert last.bias.tolist() == [-0.39375734329223633, 0.48016005754470825]


@pytest.mark.parametrize("seed", [7, 2**40 + 7])
def test_a_permutation_is_torchs_and_takes_32_bits_of_the_seed(seed):
    assert randperm(torch_generator(seed), 8).tolist() == [7, 0, 3, 4, 1, 5, 2, 6]


def test_whole_numbers_are_torchs():
    rng = torch_generator(5)
    assert [random_int64(rng) for _ in range(2)] == [4095051218741643470, 6838803925648402109]


@pytest.mark.parametrize(
    ("rows", "fillers", "torch"),
    [
        (9, False, [[8, 4, 0, 1], [3, 5, 8, 0], [0, 8, 3, 5]]),
        (9, True, [[8, 4, 0, 1], [8, 2, 4, 6], [3, 5, 8, 4]]),
        (
            143,
            True,
            [[23, 64, 72, 20], [38, 1, 135, 141], [87, 77, 7, 14]],
        ),
        (
            173,
            True,
            [[121, 164, 51, 140], [133, 148, 30, 61], [19, 64, 113, 58]],
        ),
    ],
)
def test_a_loader_gives_rows_in_torchs_order(rows, fillers, torch):
    orders = loader_orders(3, rows, 3, 128, fillers)
    assert orders[:, :4].tolist() == torch
    assert all(sorted(order) == list(range(rows)) for order in orders.tolist())


@pytest.mark.parametrize(
    ("number", "once", "twice"),
    [(1, 4, 4), (2, 4, 8), (5, 12, 20), (15, 32, 60), (16, 16, 32), (17, 33, 66), (128, 128, 256)],
)
def test_normal_numbers_take_as_many_words_as_in_torch(number, once, twice):
    ahead = draw_words(torch_generator(5), 300)
    rng = torch_generator(5)
    kept = skip_randn(rng, number)
    copy = np.random.RandomState()
    copy.set_state(rng.get_state())
    assert int(draw_words(copy, 1)[0]) == int(ahead[once])
    skip_randn(rng, number, kept)
    assert int(draw_words(rng, 1)[0]) == int(ahead[twice])
