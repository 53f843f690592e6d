"""Findings for people and for programs. What needs databases (``run``, ``matrix``, ``application``) is imported by name."""

from isolde.report.document import document
from isolde.report.terminal import render_report

__all__ = ["document", "render_report"]
