"""Findings for people and for programs."""

from isolde.report.document import document
from isolde.report.run import RunFacts, render_run, run_document
from isolde.report.terminal import render_report

__all__ = ["RunFacts", "document", "render_report", "render_run", "run_document"]
