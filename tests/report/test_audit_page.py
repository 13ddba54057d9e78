"""An audit's page and card: whole, escaped, and readable for every kind of audit."""

import re

import pytest
from msgspec import structs

from audited import federation
from fedfb.audit.card import NOT_STATED, card_as_markdown, make_card
from fedfb.audit.page import audit_page
from fedfb.audit.record import audit
from fedfb.audit.text import headline, print_audit
from fedfb.report.html import render
from report.browser import CHROMIUM, MISSING, browser

PLOTS = "[...document.querySelectorAll('.plot')].filter((p) => p.getClientRects().length)"
HOSTILE = '<script>alert("x")</script>'
SIZES = [[60, 90, 40, 80], [120, 30, 70, 50], [45, 60, 55, 200]]
KINDS = {
    "whole": {},
    "no scores": {"scores": False},
    "baseline": {"baseline": True},
}


def audited(sizes=SIZES, secure=False, intended_use=None, **options):
    record = audit(federation(sizes, **options), secure=secure)
    return structs.replace(record, card=make_card(record, None, intended_use))


def page_of(record):
    return render(audit_page(record))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("secure", [False, True])
def test_every_kind_of_audit_has_a_page_and_a_table(kind, secure, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    record = audited(secure=secure, **KINDS[kind])
    text = page_of(record)
    assert "nan" not in re.sub(r"<[^>]*>", "", text).lower().split()
    assert ("Clients</h2>" in text) != secure
    assert ("Calibration</h2>" in text) == (kind != "no scores")
    assert ("Beside other</h2>" in text) == (kind == "baseline")
    print_audit(record)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "four-fifths" in printed.lower()


def test_a_page_needs_nothing_from_elsewhere_and_has_no_id_twice():
    text = page_of(audited())
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_names_are_escaped():
    names = (f"sex=F, race={HOSTILE}", "sex=F, race=W", f"sex=M, race={HOSTILE}", "sex=M, race=W")
    record = audited(names=names, intended_use=HOSTILE)
    assert HOSTILE not in page_of(record)
    assert HOSTILE not in card_as_markdown(HOSTILE, record.card)


def test_hidden_groups_alone_still_have_a_page():
    record = audited([[9, 8, 7, 9]])
    assert headline(record).startswith("Not estimable")
    assert "Not estimable" in page_of(record)


def test_a_card_says_what_is_not_stated():
    assert make_card(audited(), None, None)["Intended use"] == [NOT_STATED]
    assert make_card(audited(), None, "for tests")["Intended use"] == ["for tests"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_a_browser_complains_of_nothing_and_the_page_fits(tmp_path):
    path = tmp_path / "audit.html"
    path.write_text(page_of(audited(baseline=True)), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        for width in (1280, 390):
            tab.open(path, width, dark=width == 390)
            assert tab.complaints() == []
            assert tab.requests() == [path.as_uri()]
            assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert tab.evaluate(f"{PLOTS}.length") == 2
            assert tab.evaluate(f"{PLOTS}[0].querySelectorAll('.point').length") == 12
            tab.evaluate(f"{PLOTS}[0].querySelector('[tabindex=\"0\"]').focus()")
            said = tab.evaluate(f"{PLOTS}[0].querySelector('.tip').textContent")
            assert said.startswith("sex=F, race=B, favourable decisions: .")
