"""The documentation site, built as `make docs` does: no warnings, no dead links, no downloads of source."""

import json
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent
GROUPS = ["Start", "Guides", "Reference", "Results"]


class Page(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.downloads, self.captions, self.inside = [], set(), [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        if tag == "a" and "download" in (found.get("class") or "").split():
            self.downloads.append(found["href"])
        self.inside = found.get("class") if tag in {"p", "span"} else self.inside

    def handle_data(self, data):
        if self.inside == "caption-text":
            self.captions.append(data)
            self.inside = None


@cache
def pages_of(site):
    return {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html")}


def dead_links(site):
    """(page, link) of every link inside of the site that leads to no file, or to no anchor of it."""
    pages = pages_of(site)
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc or link in {"#", ""}:
                continue
            other = (path.parent / unquote(target.path)).resolve() if target.path else path
            anchor = unquote(target.fragment)
            if not other.is_file() or (other in pages and anchor and anchor not in pages[other].anchors):
                yield str(path.relative_to(site)), link


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site").resolve()
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "docs", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return folder


def test_no_link_is_dead(site):
    assert sorted(set(dead_links(site))) == []


def test_pages_are_grouped_and_the_glossary_is_first(site):
    text = (site / "index.html").read_text("utf-8")
    assert Page(text).captions[:4] == GROUPS
    tree = text[text.index("sidebar-tree") :]
    assert tree.index("glossary.html") < tree.index("quickstart.html") < tree.index("tutorial.html")


def test_links_to_source_open_as_pages(site):
    """Only what is no text, or too long for a page, is a download."""
    pages = pages_of(site).values()
    linked = {link for page in pages for link in page.links if "source/" in link}
    assert len(linked) > 100
    assert [link for page in pages for link in page.downloads if link.endswith((".py", ".md", ".yaml"))] == []
    learner = (site / "source/src/usfa/learning/learner.py.html").read_text("utf-8")
    assert 'id="L-1"' in learner
    assert "class</span>" in learner


def test_the_reference_links_to_lines(site):
    links = Page((site / "api.html").read_text("utf-8")).links
    lines = [link for link in links if link.startswith("source/src/usfa/") and "#L-" in link]
    assert len(lines) > 60
    path, _, line = next(link for link in lines if "runs/exporting.py" in link).partition(".html#L-")
    source = (ROOT / path.removeprefix("source/")).read_text("utf-8").splitlines()
    assert source[int(line) - 1].startswith("def export(")


def test_the_notebook_is_a_page_with_its_outputs(site):
    text = (site / "tutorial.html").read_text("utf-8")
    assert "Writing garden.py" in text
    assert text.count("<img") >= 2


def test_long_lines_of_code_are_wrapped(site):
    style = (site / "_static" / "usfa.css").read_text("utf-8")
    assert "white-space: pre-wrap" in style[style.index(".highlight pre {") :].partition("}")[0]
    assert "usfa.css" in (site / "tutorial.html").read_text("utf-8")


def test_the_check_of_links_can_fail(tmp_path):
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y">b</a> <a href="#x">a</a> <img src="no.png">')
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a> <a href="https://elsewhere">e</a>')
    assert sorted(dead_links(tmp_path)) == [("a.html", "b.html#y"), ("a.html", "no.png")]


# --- the tutorial ---

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path):
    """Every cell runs without a warning, in a new directory, and gives outputs of the kinds that are saved."""
    words = [sys.executable, "-W", "error", str(ROOT / "docs" / "run_notebook.py"), str(NOTEBOOK), "--check"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    rows = {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines() if " in mud" in line}
    assert list(rows) == ["in a hurry", "and with clean shoes", "for the flowers"]
    assert rows["in a hurry"][0] == "3"  # the shortest way, through the mud
    assert int(rows["for the flowers"][5]) > 10
    assert (tmp_path / "runs" / "garden" / "agent" / "weights.safetensors").exists()


def test_the_tutorial_is_a_notebook_that_was_run():
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
