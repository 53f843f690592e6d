"""Findings for people and for programs. ``any`` draws whatever report there is."""

from isolde.report.document import document
from isolde.report.terminal import render_report

__all__ = ["document", "render_report"]
