"""What pages tell readers to type: every command is understood, and the code of the theory runs."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

from fedfb.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED = re.compile(r"^ *(fedfb [a-z].*)$", re.MULTILINE)


def typed(text):
    """Return the commands in a page's blocks of code; what leaves something out is not one."""
    blocks = [block for block in MarkdownIt().parse(text) if block.type in ("fence", "code_block")]
    whole = [re.sub(r"\\\n\s*", "", block.content) for block in blocks]
    lines = [line for block in whole for line in TYPED.findall(block)]
    return [line for line in lines if "..." not in line]


def examples():
    for page in PAGES:
        for line in typed(page.read_text(encoding="utf-8")):
            for part in re.split(r" && | \| | > | &$", line):
                if part.startswith("fedfb "):
                    yield pytest.param(part, id=f"{page.name}: {' '.join(part.split())}"[:90])


def help_examples(command, path=("fedfb",)):
    for number, line in enumerate((command.help or "").split("Example: ")[1:]):
        if "..." not in line:
            yield pytest.param(" ".join(line.split()), id=f"{' '.join(path)} {number}")
    for name, below in getattr(command, "commands", {}).items():
        yield from help_examples(below, (*path, name))


@pytest.mark.parametrize("line", [*examples(), *help_examples(typer.main.get_command(app))])
def test_a_command_that_readers_are_told_to_type_is_understood(line):
    command, words = typer.main.get_command(app), shlex.split(line, comments=True)[1:]
    while getattr(command, "commands", None):
        assert words[0] in command.commands, line
        command, words = command.commands[words[0]], words[1:]
    command.make_context("fedfb", words)  # a wrong option or value is refused here


def test_pages_have_commands_to_type():
    lines = [line for page in PAGES for line in typed(page.read_text(encoding="utf-8"))]
    assert len(lines) > 50


def test_the_code_of_the_theory_says_what_the_page_says():
    page = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    code = re.search(r"^    from fedfb import theory\n(?:(?: {4}.*)?\n)+", page, re.MULTILINE)[0]
    code = re.sub(r"^ {4}", "", code, flags=re.MULTILINE)
    names = {}
    exec(compile(code, "theory.md", "exec"), names)
    least = re.search(r"least_disparity +# delta = ([\d.]+)", code)[1]
    theory, both = names["theory"], names["both"]
    assert f"{theory.ensemble_range(both).least_disparity:.7f}" == least
