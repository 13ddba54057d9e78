"""Fill pages where a line says so: <!-- filled: commands -->, methods, names of a module, pages.

What is filled in comes from the code as it is now, so no page can fall behind it.
"""

import re
from pathlib import Path
from typing import Any

from commands import commands
from methods import methods
from names import in_short, names


def pages(caption: str, *wanted: str) -> str:
    """Return a table of contents of those pages that exist; nothing where none does."""
    there = [name for name in wanted if (Path(__file__).parents[1] / f"{name}.md").is_file()]
    listed = "\n".join(there)
    return f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n\n{listed}\n```" if there else ""


FILL = {"commands": commands, "methods": methods, "names": names, "pages": pages}
PLACE = re.compile(r"^<!-- filled: (\w+) ?([\w. -]*) -->$", re.MULTILINE)


def fill(app: Any, docname: str, source: list[str]) -> None:
    source[0] = PLACE.sub(lambda place: FILL[place[1]](*place[2].split()), source[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", in_short)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
