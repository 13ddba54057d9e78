"""Rows drawn with roots of the covariances kept are those of numpy's own function."""

import numpy as np

from fedfb.data.datasets.synthetic import COVARIANCES, MEANS
from fedfb.paper.released.data import SEED, draw_released


def test_the_first_rows_are_those_of_multivariate_normal():
    rng = np.random.RandomState(SEED)
    y = rng.binomial(1, 0.6, 40)
    drawn = draw_released(40)
    np.testing.assert_array_equal(drawn.y, y)
    for x, label in zip(drawn.x, y, strict=True):
        expected = rng.multivariate_normal(MEANS[label], COVARIANCES[label])
        np.testing.assert_allclose(x[:2], expected, rtol=1e-6)
        rng.random_sample()  # the draw of the group
