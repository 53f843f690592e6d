"""What tests of certificates share: a history and its certificate to verdicts."""

from __future__ import annotations

from pathlib import Path

from isolde.campaigns.check import CheckOptions, check_columns
from isolde.findings import Report, Verdict
from isolde.formats import encode
from isolde.formats.certificates import PlacedCertificate, open_certificate, write_certificate
from isolde.history import History
from isolde.history.certificate import Certificate

LEVELS = (
    "read-uncommitted",
    "pl-2",
    "read-committed",
    "read-atomic",
    "causal",
    "prefix",
    "repeatable-read",
    "snapshot-isolation",
    "serializable",
    "strict-snapshot-isolation",
    "strict-serializable",
)


def certified(
    history: History,
    certificate: Certificate,
    names: tuple[str, ...] = ("serializable",),
    *,
    session_order: bool = True,
) -> Report:
    """What is found at these levels."""
    options = CheckOptions(names, session_order=session_order)
    return check_columns(encode(history), options, certificate=PlacedCertificate(certificate)).report


def certified_by_file(history: History, certificate: Certificate, names: tuple[str, ...], folder: Path) -> Report:
    """The same by the certificate's file, of which the core reads what is plain itself."""
    path = str(folder / "told.jsonl")
    write_certificate(certificate, path)
    return check_columns(encode(history), CheckOptions(names), certificate=open_certificate(path)).report


def verdicts(
    history: History, certificate: Certificate, names: tuple[str, ...] = LEVELS, *, session_order: bool = True
) -> dict[str, bool | None]:
    """By level: whether it is satisfied; ``None`` if it is left open."""
    found = certified(history, certificate, names, session_order=session_order).findings
    return {one.level.value: {Verdict.SATISFIED: True, Verdict.VIOLATED: False}.get(one.verdict) for one in found}
