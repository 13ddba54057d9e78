"""Print the lowest versions that pyproject.toml declares, of the core and of the extras named."""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(extras: list[str]) -> list[str]:
    """Return ``name==bound`` for every ``name>=bound``; a missing bound is an error."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    bounds = [requirement.split(",")[0].partition(">=") for requirement in wanted]
    if without := [name for name, _, bound in bounds if not bound]:
        sys.exit(f"pyproject.toml declares no lowest version of {', '.join(without)}.")
    return sorted({f"{name}=={bound}" for name, _, bound in bounds})


print("\n".join(lowest(sys.argv[1:])))
