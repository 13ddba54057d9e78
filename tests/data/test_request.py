import subprocess
import sys

import pytest

import fedfb.data
from fedfb.data import BUILT_IN, DataRequest, check_request, load
from fedfb.errors import ConfigError


def test_a_request_needs_no_numpy():
    code = "import sys; from fedfb.data import BUILT_IN, DataRequest; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        fedfb.data.lod  # noqa: B018


@pytest.mark.parametrize("data", BUILT_IN)
def test_built_in_names_pass(data):
    check_request(DataRequest(data))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DataRequest("adlut"), "unknown data set 'adlut'; did you mean 'adult'"),
        (DataRequest("adult", clients=2), r"clients \(--clients\) does not apply to 'adult'"),
        (DataRequest("adult", label="y"), "label .* belongs to your own files"),
        (DataRequest("bank", client_column="job"), "--client-column"),
        (DataRequest("synthetic", sensitive=("a",)), "sensitive .* does not apply to 'synthetic'"),
        (DataRequest("rows.csv", label="y", rows=5), "rows .* belongs to data that are drawn"),
        (DataRequest("rows.csv"), r"your own files need label \(--label\)"),
        (DataRequest("rows.csv", label="y"), "need positive"),
        (DataRequest("rows.csv", label="y", positive="1"), "need sensitive"),
        (DataRequest("synthetic", rows=0), "rows is 0, expected at least 1"),
        (DataRequest("synthetic", test_rows=-1), "test_rows is -1, expected at least 1"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(request_, message):
    with pytest.raises(ConfigError, match=message):
        load(request_, split_seed=0)


def test_a_file_without_an_ending_is_found_by_its_existence(write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write("age,sex,y\n" + "1,F,1\n2,M,0\n" * 5, "rows")
    request = DataRequest("rows", label="y", positive="1", sensitive=("sex",))
    assert load(request, split_seed=0).client_names == ("rows",)
