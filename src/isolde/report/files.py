"""Reports in files, by the ending of their names: what ``isolde show`` reads again, a page, or what a build server reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from isolde.errors import UsageError
from isolde.findings import Report

ENDINGS = {
    ".json": "for 'isolde show'",
    ".html": "a page that opens offline",
    ".xml": "JUnit XML",
    ".sarif": "SARIF",
}
PICTURES = (".svg", ".dot", ".gv")


def report_text(path: str, reports: Sequence[Report]) -> str:
    """What a file of this name is to hold; a name without a known ending is for ``isolde show``."""
    match PurePath(path).suffix.lower():
        case ".html" | ".htm":
            from isolde.report.html.page import page, pages

            return page(reports[0]) if len(reports) == 1 else pages(reports)
        case ".xml":
            from isolde.report.build_servers import junit

            return junit(reports)
        case ".sarif":
            from isolde.report.build_servers import sarif

            return sarif(reports)
        case _:
            from isolde.report.codec import write

            if len(reports) > 1:
                raise UsageError(
                    f"--report {path} keeps one result; use a file for each, or a name that ends in .html, .xml or .sarif"
                )
            return write(reports[0]) + "\n"


def takes_several(path: str) -> bool:
    """Whether a file of this name can hold several reports."""
    return PurePath(path).suffix.lower() in (".html", ".htm", ".xml", ".sarif")


def picture_text(path: str, report: Report) -> str | None:
    """The first counterexample as the picture that the name of the file asks for; ``None`` if it has no transactions."""
    from isolde.report.picture import dot, first_drawing, svg

    drawing = first_drawing(report)
    if drawing is None:
        return None
    return svg(drawing) if PurePath(path).suffix.lower() == ".svg" else dot(drawing)
