"""Copies of training rows among test rows: they make intervals too short and figures too good."""

from collections.abc import Iterable
from math import factorial

import numpy as np

from fedfb.data.federation import Federation
from fedfb.shapes import Array, Num

LEAST_SHARE = 0.02
"""A smaller share of copies hardly changes a figure."""

_TEST = np.uint64(1)
"""The bit of a hash that says that a row is a test row."""

HIGHEST = 8
"""Rows that occur more often than this are left out of the test."""


def copied_share(federation: Federation) -> float | None:
    """Return the share of test rows with a copy in training; None where chance may explain it.

    A copy has the same features, label and group. Tables of few categories have equal rows by
    chance, which is no fault: see :func:`beyond_chance`.
    """
    test = federation.test
    if not len(test.y):
        return None
    hashes = [row_hashes(c.x, c.y, c.group) & ~_TEST for c in federation.clients]
    hashes.append(row_hashes(test.x, test.y, test.group) | _TEST)
    rows = np.sort(np.concatenate(hashes))  # equal rows are neighbours, those of training first
    firsts = np.flatnonzero(np.append(True, (rows[1:] ^ rows[:-1]) > _TEST))
    in_training = (rows[firsts] & _TEST) == 0
    copies = np.add.reduceat(rows & _TEST, firsts)[in_training].sum()
    share = float(copies / len(test.y))
    if share < LEAST_SHARE:
        return None
    times = np.diff(np.append(firsts, len(rows)))
    return share if beyond_chance(np.bincount(times, minlength=HIGHEST + 2)) else None


def beyond_chance(rows_by_times: Num[Array, " m"]) -> bool:
    r"""Return True if rows repeat more often than independent draws can explain.

    Let :math:`f_m` be the number of different rows that occur m times. If rows are drawn
    independently from any population, :math:`m!\,f_m\approx\sum_v\lambda_v^me^{-\lambda_v}` with
    the expected number :math:`\lambda_v` of each row, so that by Cauchy and Schwarz

    .. math:: (m!\,f_m)^2\le (m-1)!\,f_{m-1}\;(m+1)!\,f_{m+1}

    whatever the columns are. Where every row is written twice, :math:`f_2` is large and
    :math:`f_1=f_3=0`. Each f is taken two standard deviations in favour of chance.

    >>> beyond_chance(np.array([0, 9000, 700, 90, 20, 0])), beyond_chance(np.array([0, 0, 500, 0]))
    (False, True)
    """
    f = np.concatenate([rows_by_times, np.zeros(HIGHEST + 2)]).astype(np.float64)
    high, low = f + 2 * np.sqrt(f) + 3, np.maximum(f - 2 * np.sqrt(f) - 3, 0)
    return any(
        (factorial(m) * low[m]) ** 2
        > factorial(m - 1) * high[m - 1] * factorial(m + 1) * high[m + 1]
        for m in range(2, HIGHEST + 1)
    )


def row_hashes(x: Array, y: Num[Array, " n"], group: Num[Array, " n"]) -> Num[Array, " n"]:
    """Return a hash of 64 bits for every row. Equal rows have equal hashes.

    Args:
        x: features.
        y: label of each row.
        group: group of each row.

    """
    width = 8 // x.itemsize  # features that one hashed number holds
    padding = -x.shape[1] % width
    hashes = np.zeros(len(y), np.uint64)
    for begin in range(0, len(y), 8192):  # few rows at a time, so that a copy stays in the cache
        part = slice(begin, begin + 8192)
        features = np.pad(x[part], ((0, 0), (0, padding))) + 0.0  # -0.0 equals 0.0
        columns = [*features.view(np.uint64).T.copy(), y[part], group[part]]
        hashes[part] = mix_columns(columns, len(features))
    return hashes


def mix_columns(columns: Iterable[Array], rows: int) -> Num[Array, " n"]:
    """Return a hash of 64 bits of the rows of columns, which hold whole numbers."""
    hashes = np.zeros(rows, np.uint64)
    for place, column in enumerate(columns):
        factor = np.uint64(0x9E3779B97F4A7C15 + 2 * place)
        hashes = (hashes ^ np.asarray(column).astype(np.uint64, copy=False)) * factor
        hashes ^= hashes >> np.uint64(29)
    return hashes
