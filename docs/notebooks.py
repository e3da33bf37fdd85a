"""Sphinx extension: notebooks (.ipynb) as pages, with their saved outputs. Nothing is executed.

`run_notebook.py` executes a notebook and saves its outputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class NotebookParser(MystParser):
    """Turns a notebook into Markdown, and parses that."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        super().parse("\n\n".join(markdown_of(json.loads(inputstring))), document)


def markdown_of(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                yield _printed(output["text"])
            elif "image/png" in output["data"]:
                yield f"![{''.join(output['data']['text/plain'])}](data:image/png;base64,{output['data']['image/png']})"
            else:
                yield _printed(output["data"]["text/plain"])


def _printed(lines: list[str]) -> str:
    return f"```text\n{''.join(lines).rstrip()}\n```"
