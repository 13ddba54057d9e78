"""The documentation site is built without a warning, and tells all that there is to tell."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from fedfb.algorithms import METHODS
from fedfb.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
HOMES = ("fedfb", "fedfb.core", "fedfb.estimator", "fedfb.data")
PACKAGES = (*HOMES, "fedfb.algorithms", "fedfb.engine", "fedfb.errors", "fedfb.models")
PACKAGES += ("fedfb.notions", "fedfb.privacy", "fedfb.runtime", "fedfb.secure", "fedfb.theory")
FETCHING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "srcset"}


class Page(NamedTuple):
    ids: set[str]
    links: list[str]
    fetched: list[str]


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.page = Page(set(), [], [])

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if "id" in found:
            self.page.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.page.links.append(found["href"])
        if FETCHING.get(tag) in found:
            self.page.fetched.append(found[FETCHING[tag]])


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def is_elsewhere(address):
    return bool(re.match(r"(\w+:)?//|mailto:|data:", address))


def dead_ends(path, page, pages):
    """Return the links and files of a page that lead nowhere."""
    for address in (*page.links, *page.fetched):
        if is_elsewhere(address):
            continue
        name, _, anchor = address.partition("#")
        target = (path.parent / name.partition("?")[0]).resolve() if name else path
        if not target.exists() or (anchor and anchor not in pages[target].ids):
            yield f"{path.name}: {address}"


def commands_in(*path):
    """Yield a command and all below it, each with its options, as their printed help lists them."""
    told = CliRunner().invoke(app, [*path, "--help"]).output
    sections = told[re.search(r"^\w.*:$", told, re.MULTILINE).start() :]
    _, _, listed = sections.partition("\nCommands:\n")
    below = re.findall(r"^  (\S+)", listed, re.MULTILINE)
    options = re.findall(r"^  --([\w-]+)", sections, re.MULTILINE)
    yield path, options
    for name in below:
        yield from commands_in(*path, name)


def untold_options(page):
    for path, options in commands_in():
        command = "-".join(("fedfb", *path))
        wanted = [command, *(f"cmdoption-{command}-{option}" for option in options)]
        yield from (name for name in wanted if name not in page.ids)


def exported(package):
    """Return the names that a package hands on: those it lists, or imports under their own name."""
    home = import_module(package)
    text = Path(home.__file__).read_text(encoding="utf-8")
    imported = [name for name, same in re.findall(r"import (\w+) as (\w+)", text) if name == same]
    made = re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE)
    names = getattr(home, "__all__", [*imported, *made])
    return [name for name in names if not name.startswith("_")]


def untold_names(ids):
    for package in PACKAGES:
        for name in exported(package):
            if not any(f"{home}.{name}" in ids for home in (package, *HOMES)):
                yield f"{package}.{name}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_is_whole(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    site = tmp_path / "site"
    built = subprocess.run([*command, DOCS, site], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    pages = {path.resolve(): read(path) for path in site.rglob("*.html")}

    assert [end for path, page in pages.items() for end in dead_ends(path, page, pages)] == []
    assert [at for page in pages.values() for at in page.fetched if is_elsewhere(at)] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(.?https?:|@import", style.read_text(encoding="utf-8")), style

    contents = {link.partition("#")[0] for link in pages[(site / "index.html").resolve()].links}
    written = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {str(name) for name in written} - contents == {"index.html"}

    assert len(list(commands_in())) > len(app.registered_commands) > 10
    assert list(untold_options(pages[(site / "commands.html").resolve()])) == []
    assert set(METHODS) - pages[(site / "algorithms.html").resolve()].ids == set()
    told = [pages[path.resolve()].ids for path in (site / "api").glob("*.html")]
    assert list(untold_names(set().union(*told))) == []

    equations = (site / "algorithms.html").read_text(encoding="utf-8")
    assert equations.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') > 20
