"""Write tables and pictures of README and quickstart anew: what fedfb prints now (make readme).

Adult is downloaded, or read from the folder that FEDFB_DATA names.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ADULT = "compare --data adult --algorithms fedavg,cfl,fedfb --seeds 5 --no-store"


def main() -> None:
    adult = run_fedfb(ADULT, DOCS / "adult.png")
    # The README has room for the first table alone.
    table = adult[adult.index("Test rows") : adult.index("\n\nPaired")]
    write_block(DOCS.parent / "README.md", "adult", table)
    write_block(DOCS / "quickstart.md", "demo", run_fedfb("demo", DOCS / "accuracy-disparity.png"))


def run_fedfb(command: str, picture: Path) -> str:
    """Return what a command prints, without blanks at the ends of lines; keep its picture."""
    with tempfile.TemporaryDirectory() as folder:
        drawing = Path(folder) / picture.name
        words = [sys.executable, "-m", "fedfb", *command.split(), "--plot", str(drawing)]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        shutil.copyfile(drawing, picture)
    return "\n".join(line.rstrip() for line in output.strip("\n").splitlines())


def write_block(page: Path, name: str, block: str) -> None:
    """Replace what stands between a page's two marks of this name."""
    text = page.read_text(encoding="utf-8")
    marked = f"<!-- {name} -->\n```\n{block}\n```\n<!-- /{name} -->"
    text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _: marked, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
