"""docs/estimator.md: its code runs, and its list is complete."""

import re
from pathlib import Path

import sklearn

from fedfb.estimator import CLASSIFIERS

DOC = (Path(__file__).parents[2] / "docs" / "estimator.md").read_text(encoding="utf-8")


def test_the_code_runs_as_written():
    blocks = re.findall(r"<!-- run -->\n```python\n(.*?)```", DOC, re.DOTALL)
    assert len(blocks) == DOC.count("```python") == 3
    names: dict[str, object] = {}
    with sklearn.config_context():  # the second block switches routing on
        for block in blocks:
            exec(compile(block, "estimator.md", "exec"), names)
    assert names["search"].best_params_["target"] in (0.0, 0.05, 1.0)
    gap = names["model"].report().runs[0].disparity["demographic_parity"]
    assert names["model"].score(names["X"], names["y"]) > 0.6
    assert gap < 0.1
    assert len(names["content"]) > 1000


def test_every_class_is_listed():
    listed = re.findall(r"\w+Classifier", DOC.split("## Every method")[1])
    assert set(listed) == {one.__name__ for one in CLASSIFIERS}
