"""The published data sets, counted; run where FEDFB_DATA names a folder with the files."""

import json

import numpy as np
import pytest

from fedfb.data import DataRequest, Encoder, Federation, encode_file, load, path_of
from fedfb.data.request import draws_rows
from fedfb.errors import ConfigError

# Whichever test is first reads a file, which takes more than a second.
pytestmark = [pytest.mark.usefixtures("published"), pytest.mark.slow]


def loaded(data: str, partition: str = "paper", split_seed: int = 0) -> Federation:
    request = DataRequest(data, partition=partition, sensitive_at_prediction=True)
    return load(request, split_seed)


def rows(federation: Federation) -> list[int]:
    return [len(client.y) for client in federation.clients]


def group_counts(federation: Federation) -> list[int]:
    return np.bincount(np.concatenate([client.group for client in federation.clients])).tolist()


def test_adult_has_the_published_counts():
    federation = loaded("adult")
    assert (sum(rows(federation)), len(federation.test.y)) == (32561, 16281)
    assert federation.group_names == ("Female", "Male")
    assert group_counts(federation) == [10771, 21790]
    assert np.bincount(federation.test.group).tolist() == [5421, 10860]
    assert federation.clients[0].x.shape[1] == 108
    positives = sum(int(client.y.sum()) for client in federation.clients)
    assert (positives, int(federation.test.y.sum())) == (7841, 3846)


def test_adult_client_0_holds_most_of_the_private_sector():
    federation = loaded("adult")
    private = federation.feature_names.index("workclass=Private")
    held = [int((client.x[:, private] == 1).sum()) for client in federation.clients]
    assert held[0] == round(0.8 * sum(held)) == 18157
    assert rows(federation) == [20130, 12431]
    test_share = federation.test.client[federation.test.x[:, private] == 1].mean()
    assert abs(test_share - 0.2) < 1e-3


def test_compas_has_the_published_counts():
    federation = loaded("compas")
    assert (rows(federation), len(federation.test.y)) == ([3747, 1302], 2165)
    counts = dict(zip(federation.group_names, group_counts(federation), strict=True))
    assert counts == {
        "sex=Female, race=African-American": 455,
        "sex=Female, race=Other": 509,
        "sex=Male, race=African-American": 2130,
        "sex=Male, race=Other": 1955,
    }
    assert np.bincount(federation.test.group).tolist() == [197, 234, 914, 820]
    assert federation.client_names == ("over 25", "25 and under")
    favourable = federation.clients[0].y[federation.clients[0].group == 0]
    assert favourable.mean() > 0.5


def test_compas_features_are_those_of_the_reference_less_what_training_rows_do_not_have():
    names = loaded("compas").feature_names
    kinds = {kind: sum(n.startswith(f"{kind}=") for n in names) for kind in ("age_cat", "group")}
    charges = sum(name.startswith("c_charge_desc=") for name in names)
    assert kinds == {"age_cat": 3, "group": 4}
    assert charges < 437
    assert len(names) == 5 + 3 + 2 + charges + 4


def test_compas_keeps_no_name_and_no_date():
    federation = loaded("compas")
    text = json.dumps(federation.encoder.to_dict())
    header, first, *_ = path_of("compas-scores-two-years.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True))
    assert cells["name"] not in text
    assert cells["dob"] not in text
    assert {column.name for column in federation.encoder.columns}.isdisjoint({"name", "dob", "id"})


def test_bank_has_the_published_counts():
    federation = loaded("bank")
    assert (sum(rows(federation)), len(federation.test.y)) == (31647, 13564)
    assert federation.clients[0].x.shape[1] == 42
    assert federation.group_names[0] == "age <= 32"
    assert federation.group_names[-1] == "age > 51"
    both = np.array(group_counts(federation)) + np.bincount(federation.test.group)
    assert both.tolist() == [11111, 7602, 8537, 9642, 8319]


def test_bank_clients_hold_the_stated_shares_of_loans():
    federation = loaded("bank")
    loan = federation.feature_names.index("loan=yes")
    held = np.array([(c.x[:, loan] == 1).sum() for c in federation.clients])
    np.testing.assert_allclose(held / held.sum(), [0.2, 0.6, 0.2], atol=1e-3)


def test_bank_is_split_by_the_seed():
    first, second = (loaded("bank", split_seed=seed).test.y for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("data", "sizes"),
    [("adult", [10771, 21790]), ("compas", [455, 509, 2130, 1955])],
)
def test_one_client_per_group(data, sizes):
    federation = loaded(data, "group")
    assert rows(federation) == sizes
    assert federation.client_names == federation.group_names
    np.testing.assert_array_equal(federation.test.client, federation.test.group)


def test_any_column_and_any_shares_can_make_clients():
    assert loaded("compas", "column:age_cat").client_names == (
        "25 - 45",
        "Greater than 45",
        "Less than 25",
    )
    half = loaded("compas", "shares:0.5,0.5/0.5,0.5/0.5,0.5/0.5,0.5")
    assert abs(rows(half)[0] - rows(half)[1]) <= 4


def test_raw_rows_of_bank_are_encoded_from_the_published_columns(tmp_path):
    federation = loaded("bank")
    encoder = Encoder.from_dict(json.loads(json.dumps(federation.encoder.to_dict())))
    lines = path_of("bank-full.csv").read_text().splitlines()[:201]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    raw = encode_file(encoder, tmp_path / "rows.csv")
    known = {row.tobytes() for part in (*federation.clients, federation.test) for row in part.x}
    assert all(row.tobytes() in known for row in raw.x)


def test_groups_of_adult_and_compas_may_be_formed_by_one_attribute():
    by_race = load(DataRequest("adult", sensitive=("race",)), 0)
    assert (by_race.group_names, group_counts(by_race)) == (("Other", "White"), [4745, 27816])
    assert "sex=Male" in by_race.feature_names
    by_sex = load(DataRequest("compas", sensitive=("sex",)), 0)
    assert (by_sex.group_names, group_counts(by_sex)) == (("Female", "Male"), [964, 4085])
    assert "race=Hispanic" in by_sex.feature_names
    crossed = load(DataRequest("compas", sensitive=("race", "sex")), 0)
    assert crossed.group_names == loaded("compas").group_names


def test_an_attribute_that_forms_no_groups_is_refused():
    with pytest.raises(ConfigError, match="by sex or race or sex,race, not by 'age'"):
        load(DataRequest("adult", sensitive=("age",)), 0)


@pytest.mark.parametrize("partition", ["paper", "group"])
@pytest.mark.parametrize("data", ["adult", "compas", "bank"])
def test_the_split_seed_has_an_effect_where_rows_are_drawn(data, partition):
    rows = [[c.x.sum() for c in loaded(data, partition, seed).clients] for seed in (0, 1)]
    assert (rows[0] != rows[1]) == draws_rows(DataRequest(data, partition=partition))
