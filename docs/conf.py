"""The documentation site (make docs): the pages beside this file, and what the code says itself."""

import gc
import os
import sys
from pathlib import Path

os.environ["FEDFB_CHECK_SHAPES"] = "1"  # annotations then keep their shapes, to be shown

import fedfb

gc.disable()  # pages are kept to the end: looking for what to drop takes a fifth of the time
sys.path.insert(0, str(Path(__file__).parent / "site"))

project, author, version = "fedfb", "the authors of fedfb", fedfb.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "filled"]
exclude_patterns = ["site"]

myst_heading_anchors = 3
highlight_language = "none"
smartquotes = False  # '--seeds' and 'clients/*.csv' are typed as they stand

napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields are listed below the class already
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
# Whatever a page or docstring points to must be found. A type in a signature may be of another
# library, or of a module that has no page.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(?!fedfb\.).*"),
    ("py:class", r"fedfb(\.\w+){3,}"),
    ("py:obj", r"typing\.Literal.*"),
    ("py:mod", r"fedfb\.secure\.\w+"),
]

html_theme = "furo"
html_title = "fedfb"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_copy_source = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
