"""Any report, by what it is about: the text and the document of the verb that made it."""

from __future__ import annotations

from typing import Any

from isolde.findings import (
    ApplicationFacts,
    ApplicationSubject,
    Assignments,
    HistorySubject,
    MatrixFacts,
    Met,
    Report,
    RunFacts,
    SqlRunFacts,
    TrialsFacts,
)
from isolde.report.application import application_document, render_application
from isolde.report.document import document
from isolde.report.general import general_document, render_general
from isolde.report.infer import infer_document, render_infer
from isolde.report.matrix import matrix_document, render_matrix
from isolde.report.run import render_run, render_sql_run, run_document, sql_run_document
from isolde.report.terminal import render_report
from isolde.report.trials import render_trials, trials_document
from isolde.visible import Paint


def as_text(report: Report, paint: Paint = lambda text, _: text, *, all_cases: bool = False) -> str:
    """The report for a terminal."""
    if (matrix := report.fact(MatrixFacts)) is not None:
        return render_matrix(matrix, paint)
    if (trials := report.fact(TrialsFacts)) is not None:
        return render_trials(trials)
    if report.fact(ApplicationFacts) is not None:
        text = render_application(report, paint)
        # Certified: what it promises was decided of the history, too.
        certified = isinstance(report.subject, HistorySubject)
        return f"{text}\n{render_report(report, paint, all_cases=all_cases)}" if certified else text
    if isinstance(report.subject, HistorySubject):
        text = render_report(report, paint, all_cases=all_cases)
        return text if (run := report.fact(RunFacts)) is None else f"{render_run(run, report.fact(Met))}\n{text}"
    if _is_infer(report):
        return render_infer(report, paint)
    text = render_general(report, paint)
    if (run := report.fact(RunFacts)) is not None:
        return f"{render_run(run)}\n{text}"
    return text if (sql := report.fact(SqlRunFacts)) is None else f"{render_sql_run(sql)}\n{text}"


def as_document(report: Report) -> dict[str, Any]:
    """What ``--json`` prints of it."""
    if (matrix := report.fact(MatrixFacts)) is not None:
        return matrix_document(matrix)
    if (trials := report.fact(TrialsFacts)) is not None:
        return trials_document(trials)
    if report.fact(ApplicationFacts) is not None:
        certified = isinstance(report.subject, HistorySubject)
        return application_document(report) | (document(report) if certified else {})
    if isinstance(report.subject, HistorySubject):
        run = report.fact(RunFacts)
        return ({} if run is None else run_document(run)) | document(report)
    if _is_infer(report):
        return infer_document(report)
    if (run := report.fact(RunFacts)) is not None:
        return run_document(run) | general_document(report)
    sql = report.fact(SqlRunFacts)
    return ({} if sql is None else sql_run_document(sql)) | general_document(report)


def _is_infer(report: Report) -> bool:
    return isinstance(report.subject, ApplicationSubject) and report.fact(Assignments) is not None
