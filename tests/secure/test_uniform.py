"""What the server sees of one client is uniform, whatever the client sent.

Seeds are fixed. Each test fails for a right program with a chance below 1e-4 (stated beside it),
all of them together below 1e-3.
"""

import numpy as np
import pytest
from scipy import stats

from fedfb.secure import Kind
from fedfb.secure.messages import LAYOUT
from secure.clients import federation, record, seeded

WORDS = 50_000
FED = federation(3, words=WORDS)
INPUTS = {
    "zeros": np.zeros(WORDS, dtype=np.uint64),
    "ones": np.ones(WORDS, dtype=np.uint64),
    "largest": np.full(WORDS, 2**64 - 1, dtype=np.uint64),
    "counting": np.arange(WORDS, dtype=np.uint64),
}


def view_of(fed, vectors, seed, client=1):
    """Return the masked vector that the server receives from one client."""
    sent, _ = record(fed, vectors, seeded(seed))
    masked = next(m for m in sent if m.kind is Kind.MASKED and m.client == client)
    return np.frombuffer(masked.message[LAYOUT.size + 4 : -32], "<u8")


@pytest.mark.parametrize("name", INPUTS)
def test_bytes_of_a_masked_vector_are_uniform(name):
    """Chi-square with 255 degrees of freedom at each of 8 places; 8 x 1e-5 a test."""
    view = view_of(FED, dict.fromkeys(FED.memberships, INPUTS[name]), seed=name)
    for column in view.view(np.uint8).reshape(WORDS, 8).T:
        assert stats.chisquare(np.bincount(column, minlength=256)).pvalue > 1e-5


def test_one_word_is_uniform_across_sums():
    """Kolmogorov-Smirnov over 300 sums with fresh keys, the same input; 1e-5."""
    fed = federation(3, words=1)
    vectors = dict.fromkeys(fed.memberships, np.array([12345], dtype=np.uint64))
    words = [int(view_of(fed, vectors, seed=f"sum {number}")[0]) for number in range(300)]
    assert stats.kstest(np.array(words) / 2.0**64, "uniform").pvalue > 1e-5


@pytest.mark.parametrize("bit", [0, 31, 63])
def test_the_view_is_independent_of_the_input(bit):
    """Contingency of one bit of the input and the same of the view; 1e-5 each."""
    rng = np.random.default_rng(bit)
    vectors = {id: rng.integers(0, 2**64, WORDS, dtype=np.uint64) for id in FED.memberships}
    view = view_of(FED, vectors, seed=bit)
    table = np.zeros((2, 2))
    np.add.at(table, tuple((v >> np.uint64(bit)) & np.uint64(1) for v in (vectors[1], view)), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_the_view_is_the_input_shifted_by_what_does_not_depend_on_it():
    """With the same keys: so any input is as likely as any other, given the view."""
    masks = [
        view_of(FED, dict.fromkeys(FED.memberships, value), seed="same") - value
        for value in INPUTS.values()
    ]
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])
