"""Sphinx configuration: Markdown pages and notebooks, furo theme, API reference from docstrings."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import source_pages

project = "usfa"
author = "The usfa developers"
copyright = "The usfa developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.linkcode",
    "notebooks",
    "source_pages",
]
linkcode_resolve = source_pages.linkcode_resolve
default_role = "code"  # `x` in docstrings
autodoc_typehints = "description"
autodoc_member_order = "bysource"
add_module_names = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "usfa"
html_static_path = ["_static"]
html_css_files = ["usfa.css"]
exclude_patterns = ["_build", "results/room-agents/six-seeds"]  # model cards of agents are no pages


def _escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape absolute values in docstrings, which reStructuredText would read as substitutions."""
    lines[:] = [line.replace("|", r"\|").replace("*_", r"\*_") for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _escape_bars)
