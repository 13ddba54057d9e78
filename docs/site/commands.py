"""Every command with its arguments and options, read off the command line itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from fedfb.cli.app import app
from fedfb.cli.options import GENERAL


def commands() -> str:
    return "\n\n".join(
        told(command.context_class(command, info_name=path))
        for path, command in every_command("fedfb", typer.main.get_command(app))
    )


def every_command(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    # Any: the types belong to click, which newer versions of typer contain.
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from every_command(f"{path} {name}", below)


def told(ctx: Any) -> str:
    command = ctx.command
    usage = command.get_usage(ctx).removeprefix("Usage: ")
    parts = [f"## {ctx.info_name}", f"```text\n{usage}\n```", description(command.help or "")]
    parts.append(f"```{{program}} {ctx.info_name}\n```")
    sections: dict[str, list[str]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        kind = "Arguments" if parameter.param_type_name == "argument" else GENERAL
        section = getattr(parameter, "rich_help_panel", None) or kind
        sections.setdefault(section, []).append(described(*record))
    for section, rows in sections.items():
        parts += [f"```{{rubric}} {section}\n```", *rows]
    return "\n\n".join(parts)


def description(text: str) -> str:
    """Return the help of a command as Markdown, its examples as lines to type."""
    before, *examples = text.split("Example: ")
    words = [plain(part) for part in before.strip().split("\n\n")]
    lines = "\n".join(" ".join(example.split()) for example in examples)
    return "\n\n".join([*words, f"```sh\n{lines}\n```"] if examples else words)


def described(flags: str, words: str) -> str:
    # That an argument is required is seen by its name, which stands without brackets.
    words = re.sub(r"\s*\\?\[required\]", "", words)
    return f"```{{option}} {flags}\n{plain(words)}\n```"


def plain(words: str) -> str:
    """Return words in which no sign has a meaning to Markdown."""
    return re.sub(r"([\\`*_<>\[\]#|{}$])", r"\\\1", " ".join(words.split()))
