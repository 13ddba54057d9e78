"""Every import that a page shows works: a renamed name would leave the page behind."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _shown_imports():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            try:
                tree = ast.parse(block)
            except SyntaxError:  # a sketch with gaps; the tests of its page know it
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedfb"):
                    for name in node.names:
                        yield page.relative_to(ROOT).as_posix(), node.module, name.name


@pytest.mark.parametrize(("page", "module", "name"), sorted(set(_shown_imports())))
def test_an_import_that_a_page_shows_works(page, module, name):
    loaded = importlib.import_module(module)
    if not hasattr(loaded, name):
        importlib.import_module(f"{module}.{name}")
