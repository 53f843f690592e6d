"""Findings for people and for programs."""

from isolde.report.application import ApplicationFacts, application_document, render_application
from isolde.report.document import document
from isolde.report.matrix import LevelSample, matrix_document, render_matrix
from isolde.report.run import RunFacts, render_run, run_document
from isolde.report.terminal import render_report

__all__ = [
    "ApplicationFacts",
    "LevelSample",
    "RunFacts",
    "application_document",
    "document",
    "matrix_document",
    "render_application",
    "render_matrix",
    "render_report",
    "render_run",
    "run_document",
]
