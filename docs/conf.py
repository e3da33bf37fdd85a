"""Sphinx configuration: Markdown pages, furo theme."""

project = "usfa"
author = "The usfa developers"
copyright = "The usfa developers"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "usfa"
exclude_patterns = ["_build"]
suppress_warnings = ["myst.xref_missing"]  # links into the source tree are for readers of the repository
