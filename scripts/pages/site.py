"""Pages of the site whose text is elsewhere: README.md is the first page, and
CONTRIBUTING.md and CHANGELOG.md are pages of the project.

A hook of mkdocs (mkdocs.yml). Links of these files begin at the root of the repository,
links of the pages at their own place.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each of these files."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=_linked(text, "", page)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turns links to these files into links to their pages."""
    path = page.file.src_uri
    if path in PAGES.values():
        return markdown
    return _linked(markdown, f"docs/{path}", path)


def _linked(text: str, source: str, page: str) -> str:
    """The text of ``source``, a path from the root, with links as from ``page``."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        place = PAGES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(place, posixpath.dirname(page) or '.')}"

    return _LINK.sub(link, text)
