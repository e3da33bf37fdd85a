"""Sphinx configuration: Markdown pages, furo theme, API reference from docstrings."""

from typing import Any

project = "usfa"
author = "The usfa developers"
copyright = "The usfa developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
add_module_names = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "usfa"
exclude_patterns = ["_build"]
suppress_warnings = ["myst.xref_missing"]  # links into the source tree are for readers of the repository


def _escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape absolute values in docstrings, which reStructuredText would read as substitutions."""
    lines[:] = [line.replace("|", r"\|").replace("*_", r"\*_") for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _escape_bars)
