"""Pages of the site for files of the repository that the docs link to: configs, studies, tests.

The docs link to such files by relative paths, which a code host resolves. The site has a page for each of them under
`files/`, and the links lead there: a Markdown file becomes a page as it lies, any other text file a page with its text.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FILES = DOCS / "files"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)(?=[)#])")
FENCE = re.compile(r"(?ms)^(`{3,}|~{3,}).*?^\1\s*?$|`[^`\n]+`")
LANGUAGES = {".py": "python", ".sh": "sh", ".yaml": "yaml", ".toml": "toml"}
IMAGES = (".png", ".svg")
SHOWN = {DOCS / "README.md": DOCS / "index.md"}  # which includes it


def links(text: str) -> list[str]:
    """The relative paths that a Markdown text links to, outside its code."""
    return LINK.findall(FENCE.sub("", text))


def linked_files(page: Path) -> set[Path]:
    """The files of the repository outside the docs that a Markdown file links to, without images."""
    targets = {(page.parent / link).resolve() for link in links(page.read_text())}
    return {path for path in targets if path.is_file() and DOCS not in path.parents and path.suffix not in IMAGES}


def repository_files() -> set[Path]:
    """All files outside the docs that have a page: linked by a page of the docs, or by a Markdown file with a page."""
    pages = {path for path in DOCS.glob("*.md")}
    files: set[Path] = set()
    while pages:
        targets = set().union(*map(linked_files, pages)) - files
        files |= targets
        pages = {path for path in targets if path.suffix == ".md"}
    return files


def page_of(path: Path) -> Path:
    """The Markdown file below `docs/` that shows a file of the repository."""
    page = FILES / path.relative_to(ROOT)
    return page if path.suffix == ".md" else page.with_name(f"{page.name}.md")


def relinked(text: str, source: Path, page: Path) -> str:
    """The text of the Markdown file `source` as the text of `page`: its relative links lead to pages of the site."""

    def target(match: re.Match[str]) -> str:
        path = (source.parent / match[1]).resolve()
        outside = path.is_file() and ROOT in path.parents and DOCS not in path.parents
        shown = page_of(path) if outside and path.suffix not in IMAGES else SHOWN.get(path, path)
        return os.path.relpath(shown, page.parent) if path.exists() else match[1]

    ends = [0, *(end for match in FENCE.finditer(text) for end in match.span()), len(text)]
    parts = [text[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    return "".join(LINK.sub(target, part) if i % 2 == 0 else part for i, part in enumerate(parts))


def page_text(path: Path) -> str:
    """The Markdown of the page that shows a file of the repository."""
    text = path.read_text()
    if path.suffix == ".md":
        return "---\norphan: true\n---\n\n" + relinked(text, path, page_of(path))
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text) or [""]))
    name = path.relative_to(ROOT).as_posix()
    return f"---\norphan: true\n---\n\n# {name}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}{fence}\n"


def write_pages(app: Sphinx, config: object) -> None:
    """Writes the pages of all linked files, before Sphinx looks for documents, and removes all other pages."""
    pages = {page_of(path): page_text(path) for path in repository_files()}
    for page in set(FILES.rglob("*.md")) - set(pages):
        page.unlink()
    for page, text in pages.items():
        page.parent.mkdir(parents=True, exist_ok=True)
        if not page.exists() or page.read_text() != text:  # unchanged pages are not built again
            page.write_text(text)


def lead_to_pages(app: Sphinx, docname: str, content: list[str]) -> None:
    """Changes the links of a document of the docs while Sphinx reads it."""
    page = Path(app.env.doc2path(docname))
    if page.parent == DOCS:
        content[0] = relinked(content[0], page, page)


def lead_includes_to_pages(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    """The same for a file that a document includes."""
    source = (DOCS / path).resolve()
    content[0] = relinked(content[0], source, Path(app.env.doc2path(docname)))


def write_markdown(app: Sphinx, exception: Exception | None) -> None:
    """Writes each page as Markdown beside its HTML."""
    if exception is None and app.builder.name == "html":
        for docname in app.env.found_docs:
            page = Path(app.env.doc2path(docname))
            copy = Path(app.outdir, f"{docname}.md")
            copy.write_text(relinked(page.read_text(), page, page) if page.parent == DOCS else page.read_text())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", write_pages)
    app.connect("source-read", lead_to_pages)
    app.connect("include-read", lead_includes_to_pages)
    app.connect("build-finished", write_markdown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
