"""Write examples/classifier.ipynb: the cells of examples/classifier.py with what they show.

Needs nbclient and ipykernel beside fedfb, which no other part of the project does:
pip install nbclient ipykernel pandas; python docs/write_notebook.py
"""

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def main() -> None:
    cells = read_cells((EXAMPLES / "classifier.py").read_text(encoding="utf-8"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    NotebookClient(notebook, record_timing=False).execute()
    # Numbers in place of random names: the same cells make the same file.
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    notebook.metadata = {"kernelspec": kernel}
    nbformat.write(notebook, EXAMPLES / "classifier.ipynb")


def read_cells(text: str) -> list[nbformat.NotebookNode]:
    """Return the cells of a program in which ``# %%`` opens a cell."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)[1:]
    return [
        new_markdown_cell(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE))
        if "markdown" in kind
        else new_code_cell(body.strip())
        for kind, body in zip(parts[::2], parts[1::2], strict=True)
    ]


if __name__ == "__main__":
    main()
