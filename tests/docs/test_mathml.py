"""Equations on the site mean what their TeX means, also where the converter reads it otherwise."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "docs/site/mathml.py"


def written(tex):
    spec = spec_from_file_location("mathml", SOURCE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return re.sub(r"\s*\n\s*", "", module.mathml(tex, as_block=False))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (r"\tfrac12]", r"\tfrac{1}{2}]"),
        (r"\frac1{2n}", r"\frac{1}{2n}"),
        (r"\frac\lambda23", r"\frac{\lambda}{2}3"),
        (r"x^12", r"x^{1}2"),
        (r"\Big(a\Big)", "(a)"),
        (r"\operatorname*{mean}_a", r"\operatorname{mean}_a"),
    ],
)
def test_short_forms_are_read_as_tex_reads_them(short, long):
    assert written(short) == written(long)


def test_an_index_stands_beside_a_letter_with_an_accent_not_below_it():
    assert "<munder" not in written(r"\bar w_i")
    beside = r"<msub><mrow><mover.*</mover>.*</mrow><mi>i</mi></msub>"
    assert re.search(beside, written(r"\bar w_i"))
    assert "<msubsup><mrow><mover" in written(r"\hat\pi_l^t")


def test_a_half_is_one_over_two():
    assert "<mn>1</mn><mn>2</mn></mfrac>" in written(r"1[p\ge\tfrac12]")


def test_words_keep_their_underscores():
    assert "demographic_parity" in written(r"\texttt{demographic\_parity}")
