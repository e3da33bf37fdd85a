"""Sphinx extension: links into the repository open as highlighted pages of the site, instead of downloads.

A link from a page to a file outside of docs/, or to a folder, gets a page `source/PATH.html`, with an anchor for each
line (`#L-12`). The API reference links to the same pages.
"""

from __future__ import annotations

import html
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
TEXT = {".cff", ".css", ".csv", ".html", ".js", ".json", ".md", ".py", ".toml", ".txt", ".yaml"}

LONGEST = 500_000


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-before-read-docs", _start)
    app.connect("doctree-read", _replace_links, priority=100)  # before Sphinx collects the downloads
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}


def page_of(path: Path) -> str:
    """The name of the page of a file or folder."""
    return f"source/{path.relative_to(ROOT).as_posix()}"


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The page and line of a documented object, for `sphinx.ext.linkcode`; pages with objects are at the top level."""
    thing: Any = importlib.import_module(info["module"])
    try:
        for name in info["fullname"].split("."):
            thing = getattr(thing, name)
        thing = inspect.unwrap(thing)
        path, (_, line) = Path(inspect.getfile(thing)), inspect.getsourcelines(thing)
    except (AttributeError, TypeError, OSError):  # fields and the like have no source
        return None
    if ROOT not in path.parents:
        return None
    _NEEDED.add(path)
    return f"{page_of(path)}.html#L-{line}"


_NEEDED: set[Path] = set()
"""Files and folders that pages link to, in this process."""


def _start(app: Sphinx, env: Any, names: Any) -> None:
    env.source_pages = getattr(env, "source_pages", set())


def _replace_links(app: Sphinx, tree: nodes.document) -> None:
    here = Path(app.env.doc2path(app.env.docname)).parent
    up = "../" * app.env.docname.count("/")
    for node in [*tree.findall(_leads_to_source)]:
        path = _target(here, node["reftarget"])
        if path is None:
            continue
        app.env.source_pages.add(path)  # type: ignore[attr-defined]
        link = nodes.reference("", "", internal=True, refuri=f"{up}{page_of(path)}.html")
        link += node.children
        node.replace_self(link)


def _leads_to_source(node: nodes.Node) -> bool:
    return isinstance(node, addnodes.download_reference | addnodes.pending_xref) and "reftarget" in node


def _target(here: Path, target: str) -> Path | None:
    """The file or folder that a link leads to, if it gets a page: text of any kind, except pages of the site itself."""
    path = (ROOT / "docs" / target[1:] if target.startswith("/") else here / target).resolve()
    return path if ROOT in path.parents and path.exists() and _is_shown(path) else None


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    todo = sorted(app.env.source_pages | _NEEDED)  # type: ignore[attr-defined]
    done: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in done:
            continue
        done.add(path)
        inside = [one for one in sorted(path.iterdir()) if _is_listed(one)] if path.is_dir() else []
        todo.extend(inside)
        body = _listing(inside) if path.is_dir() else _highlighted(path)
        name = path.relative_to(ROOT).as_posix()
        yield page_of(path), {"title": name, "body": f"<h1>{html.escape(name)}</h1>\n{body}"}, "page.html"


def _is_shown(path: Path) -> bool:
    """Text that is not too long for a page; other files stay downloads."""
    return path.is_dir() or (path.suffix in TEXT and path.stat().st_size < LONGEST)


def _is_listed(path: Path) -> bool:
    return not path.name.startswith((".", "_")) and _is_shown(path)


def _listing(paths: list[Path]) -> str:
    rows = "".join(
        f'<li><a href="{path.parent.name}/{path.name}.html">{html.escape(path.name)}{"/" * path.is_dir()}</a></li>\n'
        for path in paths
    )
    return f"<ul>\n{rows}</ul>"


def _highlighted(path: Path) -> str:
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:  # tables
        lexer = TextLexer()
    formatter = HtmlFormatter(cssclass="highlight", linenos="inline", lineanchors="L", wrapcode=True)
    return highlight(path.read_text("utf-8"), lexer, formatter)
