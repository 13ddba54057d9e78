"""Tables as others have them are handed over by one command more."""

import csv
import io

import numpy as np
import pytest

from cli.test_unseen_tables import QUICK, credit, education, health
from export.test_onnx import typed_as_read
from fedfb.export.handover import take_over
from fedfb.export.to_onnx import run_onnx

MIXED = (
    "--algorithm",
    "fedfb-thresholds",
    "--variant",
    "mixed",
    "--sensitive-at-prediction",
    "yes",
)


@pytest.mark.parametrize("table", [credit, health, education])
def test_a_table_is_handed_over_by_commands(fedfb_command, tmp_path, table):
    data, flags, frame = table(tmp_path)
    said = fedfb_command("run", "--data", data, *flags, *QUICK, *MIXED, "--out", "kept")
    assert said.code == 0, said.err
    for to in ("onnx", "skops", "json"):
        said = fedfb_command("export", "kept", "--to", to)
        assert said.code == 0, said.err
    frame.tail(60).to_csv(tmp_path / "new.csv", index=False)
    printed = fedfb_command("predict", "kept", "new.csv").out
    ours = [(float(s), float(d)) for s, d in list(csv.reader(io.StringIO(printed)))[1:]]
    hand = take_over(tmp_path / "kept")
    content = (tmp_path / "kept/model.onnx").read_bytes()
    found = run_onnx(content, typed_as_read(hand, tmp_path / "new.csv"))
    np.testing.assert_allclose(np.array(found)[:, 0], np.transpose(ours), rtol=0, atol=1.5e-6)
