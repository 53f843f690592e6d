"""Findings for people and for programs."""

from isolde.report.document import document
from isolde.report.terminal import render_report

__all__ = ["document", "render_report"]
