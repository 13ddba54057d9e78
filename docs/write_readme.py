"""Write the README's table and picture anew: they are what ``fedfb demo`` makes (make readme)."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
README, PICTURE = DOCS.parent / "README.md", "accuracy-disparity.png"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / PICTURE
        command = [sys.executable, "-m", "fedfb", "demo", "--plot", str(drawn)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        shutil.copyfile(drawn, DOCS / PICTURE)
    table = "\n".join(line.rstrip() for line in told.strip("\n").splitlines())
    part = f"<!-- demo -->\n```\n{table}\n```\n<!-- /demo -->"
    text = README.read_text(encoding="utf-8")
    written = re.sub(r"<!-- demo -->.*?<!-- /demo -->", lambda _: part, text, flags=re.DOTALL)
    README.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
