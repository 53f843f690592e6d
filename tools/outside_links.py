"""For mkdocs: pages link to files of the project that are no pages; on the site such a link is the name of the file."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The page with links that leave the documentation written out."""
    here = posixpath.dirname(page.file.src_uri)

    def told(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(here, link[2]))
        return link[0] if not place.startswith("..") else f"{link[1]} (`{place.lstrip('./')}`)"

    return _LINK.sub(told, markdown)
