"""The docs as a site: no warning, no broken link or anchor, nothing from another host, Markdown beside the HTML."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from helpers.browser import opened

pytestmark = pytest.mark.claim("Documentation", "every link and anchor of the site leads somewhere, offline")

SECTION = re.compile(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)")
TREE = re.compile(r"(?ms)^```\{toctree\}\n:hidden:\n:caption: ([^\n]+)\n(.*?)^```$")
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
LOADED = {"stylesheet", "icon", "preload", "modulepreload"}  # relations of <link> whose target a browser loads
OTHER_HOST = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//")


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADS and LOADS[tag] in values:
            self.loads.append(values[LOADS[tag]])
        if tag == "link" and LOADED & set(values.get("rel", "").split()):
            self.loads.append(values["href"])


@pytest.fixture(scope="module")
def site(root, tmp_path_factory) -> Path:
    """The site, built as docs/README.md says. Notebooks are not executed (tests/test_notebooks.py)."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    built = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONWARNINGS": ""}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_site(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if site / "_static" not in path.parents}
    assert len(pages) > 50
    broken = defaultdict(set)
    for path, page in pages.items():
        for link in page.links + page.loads:
            address, anchor = urldefrag(link)
            if re.match(r"[a-z]+:", address):
                continue
            address = unquote(address.partition("?")[0])
            target = (path.parent / address).resolve() if address else path
            if not target.is_file() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken[path.relative_to(site).as_posix()].add(link)
    assert not broken

    loads = {link for page in pages.values() for link in page.loads if re.match(r"(?:[a-z]+:)?//", link)}
    sheets = {path for path in site.rglob("*.css") if OTHER_HOST.search(path.read_text())}
    assert not loads | sheets

    documents = {path.relative_to(site / "_sources").with_suffix("") for path in (site / "_sources").rglob("*.md")}
    assert not [document for document in documents if not (site / f"{document}.md").is_file()]
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())
    assert len(listed) > 40 and all((site / page).is_file() for page in listed)
    assert "# Training" in (site / "llms-full.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_the_site_in_a_browser(site, scheme, width):
    """No error in the console, nothing that is loaded from elsewhere, and no page that is wider than the window."""
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "offline": True}
    wide = []
    with opened(site / "index.html", site, **options) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        for path in sorted(site.glob("*.html")):
            page.goto(path.as_uri())
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                wide.append(path.name)
        page.goto(f"{(site / 'search.html').as_uri()}?q=microbatches")
        page.locator("#search-results li a").first.wait_for()
        assert page.locator("#search-results li a[href^='training.html']").count()
    assert wide == []


def test_the_contents_of_the_site_are_those_of_the_index(root):
    docs = root / "docs"
    sections = {}
    for title, text in SECTION.findall((docs / "README.md").read_text()):
        sections[title] = [path.removesuffix(".md") for path in re.findall(r"\]\(([^)#:]+\.md)\)", text)]
    trees = {
        title: [re.sub("^files/", "../", name) for name in names.split()]
        for title, names in TREE.findall((docs / "index.md").read_text())
    }
    assert trees == sections
