"""Whatever a page names is there: tests, files, commands, flags, Python names, stated defaults."""

import ast
import re
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

from fedfb.algorithms import METHODS
from fedfb.cli.app import app
from fedfb.experiments.resolve import resolve
from fedfb.experiments.spec import Experiment
from fedfb.settings import flag_of, kind_of, read_word

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
HOMES = (ROOT, ROOT / "src/fedfb", ROOT / "src", ROOT / "tests", ROOT / "docs", ROOT / "benchmarks")

OTHERS = r"pip|uv|make|python3?|docker|openssl|sphinx|onnxruntime|git|sh|cat|nice|ssh|scp|curl"
"""Commands of others: their flags are theirs."""

FOREIGN = {"scoring", "check_classifiers_train", "customer_id", "Yes"}
"""Names of other programs and libraries, and values of made-up rows."""

MADE_UP = r"(runs|audits|clients|kept|demo|build|triage)/|[\w/]+/my_\w+\.py"
"""Files that commands on a page write, or that a page tells readers to write."""


def spans(text):
    """Return the pieces of code within a page's sentences and tables."""
    parser = MarkdownIt().enable("table")
    for block in parser.parse(text):
        for piece in block.children or ():
            if piece.type == "code_inline":
                yield piece.content


@cache
def words_of(path):
    """Return what a page says; of a source file, what its docstrings say."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return "\n".join(filter(None, map(ast.get_docstring, nodes)))


def cases(pattern, paths):
    """Return each page with the matches of a pattern in it, where there are any."""
    by_page = {path: sorted(set(re.findall(pattern, words_of(path)))) for path in paths}
    return [
        pytest.param(path, found, id=str(path.relative_to(ROOT)))
        for path, found in by_page.items()
        if found
    ]


@cache
def functions_by_file():
    files = sorted((ROOT / "tests").rglob("*.py"))
    return {f: set(re.findall(r"def (test_\w+)", f.read_text(encoding="utf-8"))) for f in files}


def files_called(name):
    """Return the files below tests that a name, or the end of a path, may mean."""
    return [path for path in functions_by_file() if f"/{path}".endswith(f"/{name}")]


@pytest.mark.parametrize(
    ("path", "found"), cases(r"\btest_\w+(?:\.py)?(?:::test_\w+)?", [*PAGES, *SOURCES])
)
def test_a_test_that_is_named_exists(path, found):
    everywhere = set().union(*functions_by_file().values())
    missing = []
    for name in found:
        file, _, test = name.rpartition("::")
        if test.endswith(".py"):
            there = bool(files_called(test))
        elif file:
            there = any(test in functions_by_file()[one] for one in files_called(file))
        else:
            there = test in everywhere or is_word(test)
        missing += [] if there else [name]
    assert missing == []


def commands(command=None, path=()):
    command = command or typer.main.get_command(app)
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


@cache
def flags_by_command():
    return {
        path: {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        for path, command in commands()
    }


def command_in(piece):
    """Return the command that a piece of code begins with, and its words."""
    words = piece.split()
    known = [p for p in flags_by_command() if tuple(words[1 : 1 + len(p)]) == p]
    return max(known, key=len), words


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_command_or_flag_that_is_named_exists(path):
    every = set().union(*flags_by_command().values())
    for piece in spans(words_of(path)):
        typed = re.findall(r"(?<![\w-])--[a-z][a-z-]*", piece)
        if re.match(rf"({OTHERS})\b", piece) or piece.startswith(".venv/bin/pip"):
            scripts = [
                ROOT / name for name in re.findall(r"\b(?:benchmarks|examples)/\S+\.py", piece)
            ]
            for flag in typed if scripts else ():
                assert flag in scripts[0].read_text(encoding="utf-8"), f"{path.name}: {piece}"
            continue
        if re.match(r"(\.venv/bin/)?fedfb( |$)", piece):
            command, words = command_in(piece)
            if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                assert command, f"{path.name}: {piece}: there is no such command"
            assert set(typed) <= flags_by_command()[command], f"{path.name}: {piece}"
        assert set(typed) <= every, f"{path.name} names {set(typed) - every} in {piece!r}"


@pytest.mark.parametrize(
    ("path", "found"),
    cases(
        r"(?<![\w./:*<>{-])(?:\w[\w.*-]*/)+[\w*.-]+\.(?:py|toml|md|c|h|svg|json|in|txt)\b",
        PAGES,
    ),
)
def test_a_file_that_is_named_exists(path, found):
    ours = [name for name in found if not re.match(MADE_UP, name)]
    homes = (*HOMES, path.parent)
    assert [name for name in ours if not any(any(home.glob(name)) for home in homes)] == []


def resolves(name):
    """Return True if a dotted name is a module, or leads from one to a value."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            annotated = getattr(value, "__annotations__", {})
            if not hasattr(value, part) and part not in annotated:
                return False
            value = getattr(value, part, None)
        return True
    return False


@pytest.mark.parametrize(
    ("path", "found"),
    cases(r"(?<![\w./~-])fedfb(?:\.[A-Za-z_]\w*)+(?!\w*[/@-])", [*PAGES, *SOURCES]),
)
def test_a_python_name_that_is_named_resolves(path, found):
    ours = [
        name for name in found if not name.endswith((".py", ".toml", ".git", ".c", ".h", ".sha256"))
    ]
    assert [name for name in ours if not resolves(name)] == []


@cache
def vocabulary():
    """Return every word of our code, settings and examples; what only a test names is not ours."""
    folders = ("src", "examples", "benchmarks", "docs/site")
    texts = [
        path.read_text(encoding="utf-8")
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".c", ".h", ".css", ".js", ".html")
        and path != Path(__file__)
    ]
    texts += [words_of(ROOT / name) for name in ("pyproject.toml", "Makefile", "setup.py")]
    return set(re.findall(r"[A-Za-z_][\w-]*\w|\w", "\n".join(texts)))


def is_word(name):
    return name in vocabulary() or name in FOREIGN


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_name_in_code_letters_occurs_in_the_code(path):
    """Methods, notions, values, fields, functions: a name of one word, or words with dots."""
    missing = []
    for piece in spans(words_of(path)):
        if re.fullmatch(r"[A-Za-z_][\w-]*(\.[A-Za-z_]\w*)*(\(\))?", piece):
            names = piece.removesuffix("()").removesuffix(".py").split(".")
            of_tests = piece.startswith("test_")  # looked for above
            missing += [] if of_tests or all(map(is_word, names)) else [piece]
    assert missing == []


DEFAULT = re.compile(
    r"`--([a-z-]+)`(?:[^`.|\n]{0,40}?)\((?:the )?default:? `?([\w.,]+)`?[;)]"
    r"|`--([a-z-]+) ([\w.,]+)` \(the default\)"
)


@pytest.mark.parametrize(("path", "found"), cases(DEFAULT, PAGES))
def test_a_default_that_is_stated_is_the_codes(path, found):
    by_flag = {flag_of(field.name)[2:]: field for field in fields(Experiment)}
    usual = {**vars(resolve(Experiment())), "signal_loss": "zero_one"}
    for flag, value, other, its_value in found:
        field = by_flag.get(flag or other)
        if field is not None:
            stated = read_word(value or its_value, kind_of(field))
            default = usual[field.name] if field.default in (None, ()) else field.default
            assert stated == default, f"{path.name}: --{flag or other} {value or its_value}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_value_that_is_called_the_default_is_that_of_a_setting(path):
    usual = {*map(str, vars(resolve(Experiment())).values()), "zero_one"}
    called = re.findall(r"\bdefault is `(\w+)`", words_of(path))
    assert [value for value in called if value not in usual] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_method_that_is_denied_does_not_exist(path):
    denied = re.findall(r"\bhas (?:no|none of) ([A-Za-z][\w+-]*)", words_of(path))
    assert [name for name in denied if name.lower().replace("+", "-") in METHODS] == []


def test_pages_name_much():
    pieces = [piece for path in PAGES for piece in spans(words_of(path))]
    assert len(pieces) > 800
    assert not is_word("no_name_of_ours")
    assert not resolves("fedfb.run.nothing")
    assert resolves("fedfb.notions.DemographicParity.rates")
