"""Identifiers, dates, free text and mixtures are noticed; features are left alone."""

import uuid

import numpy as np
import pytest

from fedfb.data.suspicion import suspicion
from fedfb.tables.cells import SourceColumn

RNG = np.random.default_rng(0)


def suspect(name, files):
    doubt = suspicion(name, [SourceColumn.of(cells) for cells in files])
    return None if doubt is None else doubt.what


def whole(numbers) -> list[str]:
    return [str(int(number)) for number in numbers]


WORDS = ["the", "payment", "came", "late", "again", "this", "month", "thanks"]
NO_FEATURES = {
    "rows counted": ("n", whole(range(500)), "identifier"),
    "counted from 1000, shuffled": ("n", whole(RNG.permutation(300) + 1000), "identifier"),
    "drawn without repetition": ("n", whole(RNG.permutation(50_000)[:4000]), "identifier"),
    "named id": ("patient_id", whole(RNG.integers(10**9, 10**10, 40)), "identifier"),
    "named in capitals": ("customerID", whole(RNG.integers(10**9, 10**10, 40)), "identifier"),
    "codes": ("customer", [f"K-{i:05}" for i in range(60)], "identifier"),
    "uuids": ("x", [str(uuid.UUID(int=i)) for i in range(60)], "identifier"),
    "days": ("opened", [f"2024-0{1 + i % 9}-1{i % 10}" for i in range(60)], "date"),
    "moments": ("t", [f"2024-01-{1 + i % 28:02}T10:{i % 60:02}:00" for i in range(60)], "date"),
    "European days": ("t", [f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(60)], "date"),
    "American days": ("t", [f"{1 + i % 12}/{1 + i % 28}/99" for i in range(60)], "date"),
    "days in a number": ("t", [f"2024{1 + i % 12:02}{1 + i % 28:02}" for i in range(60)], "date"),
    "remarks": ("said", [" ".join(RNG.permutation(WORDS)[:6]) for _ in range(60)], "free text"),
    "one cell is no number": ("income", [*whole(RNG.permutation(9999)[:59]), "l2"], "'l2'"),
    "dollars": ("x", [f"${i}.50" for i in range(40)] * 2, "signs in them"),
    "percent": ("x", [f"{i}%" for i in range(40)] * 2, "signs in them"),
}
FEATURES = {
    "income in whole dollars": ("income", whole(RNG.normal(40_000, 9000, 300))),
    "income that never repeats": ("income", whole(RNG.permutation(200_000)[:300])),
    "distinct fractions": ("x", [repr(float(x)) for x in RNG.normal(size=5000)]),
    "age": ("age", whole(RNG.integers(18, 90, 4000))),
    "year": ("year", whole(RNG.integers(1950, 2020, 400))),
    "few rows": ("n", whole(range(15))),
    "forty rows in a row": ("age", whole(range(40))),
    "id that repeats": ("branch_id", whole(RNG.integers(0, 12, 400))),
    "postcodes": ("zip", whole(RNG.integers(10_000, 99_999, 2000))),
    "towns": ("town", list(RNG.choice(["Ulm", "Bad Homburg", "Köln"], 60))),
    "short answers": ("why", list(RNG.choice(["to buy a new car for me", "none"], 60))),
    "codes of both kinds": ("code", list(RNG.choice(["1", "2", "3", "A7"], 60))),
    "classes in percent": ("rate", list(RNG.choice(["10%", "20%", "25%"], 60))),
    "fractions as text": ("x", list(RNG.choice(["1/2", "3/4"], 60))),
    "empty": ("x", [""] * 60),
}


@pytest.mark.parametrize("case", NO_FEATURES)
def test_what_is_no_feature_is_noticed(case):
    name, cells, word = NO_FEATURES[case]
    assert word in suspect(name, [cells])
    with_gaps = ["" if i % 9 == 4 else cell for i, cell in enumerate(cells)]
    assert word in suspect(name, [with_gaps])


@pytest.mark.parametrize("case", FEATURES)
def test_features_are_left_alone(case):
    name, cells = FEATURES[case]
    assert suspect(name, [cells]) is None


def test_identifiers_that_every_client_counts_anew_are_noticed():
    assert "identifier" in suspect("n", [whole(range(150)), whole(range(120))])
    assert "identifier" in suspect("who", [[f"p{i}" for i in range(30)]] * 3)


def test_measured_whole_numbers_are_never_taken_for_identifiers():
    """Independent draws: that 2,000 columns show no repetition has a chance below 1e-15."""
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        rows, high = int(rng.integers(20, 400)), int(10 ** rng.uniform(1, 7))
        assert suspect("amount", [whole(rng.integers(0, high, rows))]) is None
