"""Comparison of final states."""

import numpy as np


def assert_same_bits(state, expected):
    """Compare the arrays of two states, bit by bit."""
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], np.asarray(value), err_msg=name)
