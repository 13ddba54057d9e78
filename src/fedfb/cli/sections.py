"""The help of a command in plain sections: its own options first, then those of an experiment."""

from typing import Any

from typer.core import TyperCommand

OWN = "Options"
COLUMN = 26
"""The widest that the column of flags grows; a longer flag gets a line of its own."""


class Sections(TyperCommand):
    """A command whose help lists options by section; arguments are told in its description.

    Typer has no plain sections, only drawn panels, which leave half of 80 columns for the words.
    """

    # Any: the types are those of click, which newer versions of typer carry inside themselves.
    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section of options after the other."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            written = option.get_help_record(ctx)
            if written is not None and option.param_type_name == "option":
                section = getattr(option, "rich_help_panel", None) or OWN
                sections.setdefault(section, []).append(written)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=COLUMN)
