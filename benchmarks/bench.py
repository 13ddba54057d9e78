"""Measure everything and write docs/performance.md, anew after every part.

Usage: python benchmarks/bench.py [--quick] [--large] [--only growth,cold_start] [--out FILE]

All of it takes about 20 minutes on two idle cores; --quick, one turn each, a few minutes.
"""

import argparse
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from measure import HERE, MissingError
from page import Section, whole

PARTS = (
    "cold_start",
    "reading",
    "against_numpy",
    "against_torch",
    "against_machine",
    "against_declearn",
    "growth",
)
QUICK = "**A quick look: one turn each, small sizes.**"


def measured(part: str, work: Path, quick: bool, large: bool) -> Section:
    """Return a part's section, or why it could not be measured."""
    module = import_module(part)
    try:
        options = {"large": True} if large and part == "reading" else {}
        return module.section(work, quick, **options)
    except MissingError as reason:
        return Section(module.TITLE, f"Not measured: {reason}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one turn each, small sizes")
    parser.add_argument("--large", action="store_true", help="read 10,000,000 rows too (2 GB)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "performance.md")
    chosen = parser.parse_args()
    sections = []
    figures = chosen.out.with_suffix("")
    figures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for part in chosen.only.split(","):
            start = time.monotonic()
            print(f"{part} ...", file=sys.stderr)
            sections.append(measured(part, Path(work), chosen.quick, chosen.large))
            chosen.out.write_text(whole(sections, QUICK if chosen.quick else ""), encoding="utf-8")
            for drawing in Path(work).glob("*.svg"):
                shutil.copy(drawing, figures)
            print(f"{part}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(chosen.out)


if __name__ == "__main__":
    main()
