"""Pieces of docs/performance.md: a section with its tables, and the claims it bears out or not."""

import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple


class Claim(NamedTuple):
    """Something that the library says of its speed, and what was found."""

    what: str
    asked: str
    measured: str
    holds: bool


class Section(NamedTuple):
    title: str
    text: str
    claims: tuple[Claim, ...] = ()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Describe processor, cores and memory, without the machine's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}"
    flags = [flag for flag in ("avx2", "fma", "avx512f") if flag in fields.get("flags", "").split()]
    return (
        f"{fields.get('model name', platform.processor())} ({model}; {', '.join(flags)}), "
        f"{os.cpu_count()} cores, {memory:.0f} GB"
    )


def versions() -> str:
    ours = [f"{name} {version(name)}" for name in ("fedfb", "numpy")]
    return ", ".join([f"Python {platform.python_version()}", *ours])


def whole(sections: Sequence[Section], note: str = "") -> str:
    """Return the page: how it was measured, the claims, then every section."""
    claims = [claim for section in sections for claim in section.claims]
    rows = [[c.what, c.asked, c.measured, "yes" if c.holds else "**no**"] for c in claims]
    head = [
        "# Performance",
        "Written by `make bench`; do not edit by hand.",
        f"Measured {date.today():%Y-%m-%d} on {machine()}. {versions()}.",
        "Everything compared was run in turns in one session, each time in a fresh process, and is "
        "compared by CPU time (all threads, children included). A factor is the median of the "
        "turns' ratios, with the smallest and the largest in brackets.",
        *([note] if note else []),
    ]
    if claims:
        head.append(table(["what", "asked for", "measured", "holds"], rows))
    parts = [f"## {section.title}\n\n{section.text}" for section in sections]
    return "\n\n".join([*head, *parts]) + "\n"
