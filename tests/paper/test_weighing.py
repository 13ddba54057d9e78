"""Lambda's steps by hand."""

from dataclasses import replace

import numpy as np
import pytest

from fedfb.errors import ConfigError
from fedfb.paper.released.rules import Flags, make_flags, make_many_group_rule, make_two_group_rule

COUNTS = np.array([[40.0, 10.0], [20.0, 30.0]])
"""Group 0 has 60 rows, group 1 has 40."""


def test_two_groups_begin_with_the_share_of_each_label():
    rule = make_two_group_rule(Flags(), COUNTS)
    np.testing.assert_allclose(rule.start, [[2 / 3, 1 / 4], [1 / 3, 3 / 4]])
    np.testing.assert_allclose(rule.weights(rule.start[None])[0], [[50 / 60, 50 / 40]] * 2)


def test_two_groups_step_forth():
    rule = make_two_group_rule(Flags(), COUNTS)
    losses = np.array([[[60.0, 0.0], [0.0, 0.0]]])
    np.testing.assert_allclose(
        rule.step(np.array([[[0.6, 0.3], [0.4, 0.7]]]), losses, 0.2, 2)[0],
        [[0.5, 0.4], [0.5, 0.6]],
    )


@pytest.mark.parametrize(
    ("return_step", "expected"),
    [("mixed", [[0.7, 0.3], [0.3, 0.7]]), ("mirrored", [[0.7, 0.2], [0.3, 0.8]])],
)
def test_two_groups_step_back(return_step, expected):
    rule = make_two_group_rule(Flags(return_step=return_step), COUNTS)
    losses = np.array([[[0.0, 0.0], [60.0, 0.0]]])
    found = rule.step(np.array([[[0.6, 0.3], [0.4, 0.7]]]), losses, 0.2, 2)[0]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("changes", "gain", "bound"),
    [
        ({}, 2 * (40 / 60 - 10 / 40), [1.2, 1.2]),
        ({"constant": "once"}, 40 / 60 - 10 / 40, [1.2, 1.2]),
        ({"bound": "own-group"}, 2 * (40 / 60 - 10 / 40), [1.2, 0.8]),
        ({"step": "normalised"}, 1.0, [1.2, 1.2]),
    ],
)
def test_many_groups_step_by_the_constant_where_nothing_is_lost(changes, gain, bound):
    flags = replace(Flags(signal="cross-entropy"), **changes)
    rule = make_many_group_rule(flags, COUNTS, clients=2)
    np.testing.assert_allclose(rule.weights(rule.start[None])[0], np.full((2, 2), 1 / 100))
    moved = rule.step(rule.start[None], np.zeros((1, 2, 2)), 0.1, 4)[0]
    lam_0 = [0.6 - 0.05 * gain, 0.4 + 0.05 * gain]
    np.testing.assert_allclose(moved, [lam_0, np.array(bound) - lam_0])


def test_many_groups_of_2021_compare_losses_towards_label_one():
    rule = make_many_group_rule(Flags(), COUNTS, clients=2)
    losses = np.array([[[6.0, 4.0], [6.0, 0.0]]])
    moved = rule.step(rule.start[None], losses, 1.0, 1)[0]
    np.testing.assert_allclose(moved[0], [0.5, 0.5])  # f = 12 / 60 - 4 / 40 = 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"average": "weighted"}, "did you mean 'averaging'"),
        ({"averaging": "right"}, "unknown value of averaging"),
    ],
)
def test_unknown_flags_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_flags("fedfb", 2, changes)


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'fedfb'"):
        make_flags("fedfp", 2, {})
