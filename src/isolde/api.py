"""The functions of the library: what the verbs of the command line do, for Python programs. Nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from isolde._core import BUDGET, Columns
from isolde.campaigns.check import CheckOptions, check_columns
from isolde.engines.generate import generate as _generated
from isolde.errors import InputError, UsageError, not_written
from isolde.findings import Report
from isolde.formats import decode, encode
from isolde.formats import read as _read
from isolde.formats import write as _write
from isolde.formats.certificates import CertificateFile, PlacedCertificate, open_certificate, sidecar
from isolde.history import History, Transaction
from isolde.history.certificate import Certificate
from isolde.levels import Level
from isolde.report.any import as_text
from isolde.report.codec import read as _report_read

if TYPE_CHECKING:
    from isolde.campaigns.explore import ExploreListener
    from isolde.campaigns.options import Listener, RunOptions
    from isolde.engines.explore.program import Program
    from isolde.workloads.application import Application

Place: TypeAlias = str | Path
LevelName: TypeAlias = str | Level


class RunKeywords(TypedDict, total=False):
    """What :func:`run` takes beside the database. What is left out has the default of the command line.

    ``level``: what to decide; else what the database claims. ``listener`` is told about progress. ``sizes``, ``mix`` and
    ``levels`` are for applications: ``{"accounts": 10}``, ``{"withdraw": 0.5}``, ``{"withdraw": "read committed"}``; of the
    workload ``predicates``, ``mix`` may be the name of one. ``certify`` judges by the order that the database itself tells.
    """

    workload: str
    level: LevelName | Iterable[LevelName]
    sessions: int
    transactions: int
    seconds: float
    until_violation: bool
    timeout_s: float
    keys: int
    operations: int
    tables: int
    distribution: str
    exponent: float
    hot_keys: float
    hot_accesses: float
    concurrent: float
    blind_writes: float
    deletes: float
    sizes: Mapping[str, int]
    mix: Mapping[str, float] | str
    levels: Mapping[str, str]
    seed: int
    certify: bool
    predicates_by: Literal["core", "database"]
    faults: Iterable[str]
    output: Place
    keep: bool
    listener: Listener


class GenerateKeywords(TypedDict, total=False):
    """What :func:`generate` takes; ``inject`` are names of anomalies, put in once each on keys of their own."""

    workload: str
    level: str
    sessions: int
    transactions: int
    keys: int
    operations: int
    distribution: str
    exponent: float
    hot_keys: float
    hot_accesses: float
    concurrent: float
    abort_rate: float
    unknown_rate: float
    blind_writes: float
    versions: float
    inject: Iterable[str]
    seed: int


class CertificateKeywords(TypedDict, total=False):
    """What :func:`check` takes of certificates.

    ``certificate`` is what the database says of its own order, as a file or a :class:`Certificate`. The one that stands beside a
    history's file is taken by itself, unless it is ``False``. ``both`` asks the search by values, too, whatever it says.
    """

    certificate: Place | Certificate | Literal[False] | None
    both: bool


def check(
    history: Place | History | Iterable[Transaction],
    level: LevelName | Iterable[LevelName] = Level.SERIALIZABLE,
    *,
    session_order: bool = True,
    judge_aborted: bool = False,
    every: bool = False,
    order: bool = False,
    budget: int = BUDGET,
    **told: Unpack[CertificateKeywords],
) -> Report:
    """Does the history satisfy a level, or several, and if not, why?

    The history is a file in any format that Isolde reads, a :class:`History`, or transactions. Levels go by long or short name;
    ``"all"`` asks for every one that the history can decide. ``every`` asks for an anomaly of each strongly connected component,
    ``order`` for the order that explains a satisfied level; ``budget`` is the number of steps that a search may take.

    :class:`CertificateKeywords` says how it is judged by the database's own account of its order.
    """
    wanted = CheckOptions(
        _names(level), session_order, judge_aborted, every, order, budget, both=told.get("both", False)
    )
    certificate = told.get("certificate")
    placed: PlacedCertificate | CertificateFile | None = None
    if isinstance(certificate, Certificate):
        placed = PlacedCertificate(certificate)
    elif certificate:
        placed = open_certificate(str(certificate))
    if isinstance(history, str | Path):
        beside = sidecar(str(history)) if certificate is None else None
        placed = placed if beside is None else open_certificate(beside)
        return check_columns(_read(str(history)), wanted, str(history), placed).report
    return check_columns(_columns(history), wanted, certificate=placed).report


def run(
    url: str | None = None, *, start: str | None = None, isolation: str | None = None, **options: Unpack[RunKeywords]
) -> Report:
    """Does a database keep the isolation level that it promises? Runs a workload on it, records what it saw, and judges that.

    The database is at ``url``, or a private server of the kind ``start`` is started and ended again; without either it is an
    embedded SQLite. ``isolation`` is the level to run at, as the database calls it. :class:`RunKeywords` says the rest.
    """
    from isolde.campaigns.run import run as campaign
    from isolde.campaigns.target import Wanted

    asked, listener = _run_options(options)
    return campaign(Wanted(url=url, kind=start, isolation=isolation), asked, listener)


class ExploreKeywords(TypedDict, total=False):
    """What :func:`explore` takes beside the program and the levels; each is an option of ``isolde explore``.

    ``levels`` are those of single transactions, by name. ``budget`` is in calls of EXPLORE, ``seconds`` bound each level.
    """

    levels: Mapping[str, LevelName]
    against: LevelName
    base: str
    method: Literal["swapping", "dfs"]
    tables: Literal["rows", "set"]
    each_commit: bool
    budget: int
    seconds: float
    threads: int
    checkpoint: Place
    listener: ExploreListener


def explore(
    program: Program | Place,
    level: LevelName | Iterable[LevelName] = Level.READ_COMMITTED,
    **options: Unpack[ExploreKeywords],
) -> Report:
    """Can the transactions of a program break an assertion under a level, or several? Goes through everything that they can do.

    The program is a :class:`Program`, or a file that holds one. :class:`ExploreKeywords` says the rest.
    """
    from isolde.campaigns.explore import ExploreOptions
    from isolde.campaigns.explore import explore as campaign
    from isolde.engines.explore.files import programs_in

    _refuse_unknown(options, ExploreKeywords, "explore")
    if isinstance(program, str | Path):
        held = programs_in(str(program))
        if len(held) > 1:
            names = ", ".join(one.name for one in held)
            raise UsageError(f"{program} holds several programs ({names}); explore them one by one")
        program = held[0]
    if not isinstance(options.get("levels", {}), Mapping):
        raise UsageError("levels are those of single transactions, by name: {'withdraw': 'ser'}; level is that of all")
    against, checkpoint = options.get("against"), options.get("checkpoint")
    asked = ExploreOptions(
        levels=_names(level),
        own={name: _names(one)[0] for name, one in options.get("levels", {}).items()},
        base=options.get("base"),
        method=options.get("method", "swapping"),
        tables=options.get("tables", "rows"),
        against=None if against is None else _names(against)[0],
        each_commit=options.get("each_commit", False),
        calls_max=options.get("budget"),
        seconds=options.get("seconds"),
        threads=options.get("threads"),
        checkpoint=None if checkpoint is None else str(checkpoint),
    )
    return campaign(program, asked, options.get("listener"))


class AuditKeywords(TypedDict, total=False):
    """What :func:`audit` takes beside the log and the levels; each is an option of ``isolde audit``.

    ``definition="paper"`` takes the levels as the paper defines them. ``settings`` are those of a store model. ``order`` asks for
    the order that explains a satisfied level; ``budget`` and ``seconds`` bound the search for one level. ``heuristics`` are those
    of the paper that are used (``"h1,h2=8"``), ``encoding`` asks a solver about its definition.
    """

    definition: str
    settings: Mapping[str, str]
    session_order: bool
    skip_unsupported: bool
    budget: int
    seconds: float
    order: bool
    heuristics: str
    encoding: str


def audit(
    log: Place | History, level: LevelName | Iterable[LevelName] = (), **options: Unpack[AuditKeywords]
) -> Report:
    """Could a correct database have given these answers to these SQL transactions?

    The log is a file, or a :class:`History` of SQL statements. Levels are ``ser``, ``strict-ser``, ``si``, ``strict-si``,
    ``rc``, or a store model: ``postgresql:read-committed``. :class:`AuditKeywords` says the rest.
    """
    from isolde.campaigns.audit import AuditQuestion, audit_file, audit_history

    _refuse_unknown(options, AuditKeywords, "audit")
    given: dict[str, Any] = dict(options)
    given["settings"] = tuple(options.get("settings", {}).items())
    question = AuditQuestion(_names(level), **given)
    if isinstance(log, History):
        return audit_history(log, question)
    return audit_file(str(log), question)


class InferKeywords(TypedDict, total=False):
    """What :func:`infer` takes beside the application and the database; each is an option of ``isolde infer``.

    ``settings`` are the database's, by name; ``seconds`` bound the search for levels, ``smtlib`` is a directory for questions,
    ``cache`` one for their answers; ``confirm`` is the URL of a server that counterexamples are executed on, ``start`` the kind
    of one that is started for it.
    """

    settings: Mapping[str, str]
    invariants: Iterable[str]
    transactions: Iterable[str]
    candidates: Iterable[str]
    seconds: float
    smtlib: Place
    cache: Place
    from_populate: bool
    confirm: str
    start: str


def infer(application: Application | Place, database: str, **options: Unpack[InferKeywords]) -> Report:
    """Which is the weakest level of a database at which each transaction of an application is safe?

    The application is an ``isolde.workloads.application.Application``, the name of an included one, or a file that holds one.
    """
    from isolde.campaigns.infer import InferOptions
    from isolde.campaigns.infer import infer as campaign
    from isolde.levels.specifications import CANDIDATES
    from isolde.workloads.applications import application_named

    _refuse_unknown(options, InferKeywords, "infer")
    if isinstance(application, str | Path):
        application = application_named(str(application))
    smtlib, cache = options.get("smtlib"), options.get("cache")
    asked = InferOptions(
        database,
        settings=options.get("settings", {}),
        invariants=tuple(options.get("invariants", ())),
        transactions=tuple(options.get("transactions", ())),
        candidates=tuple(options.get("candidates", CANDIDATES)),
        seconds=options.get("seconds"),
        smtlib=None if smtlib is None else str(smtlib),
        cache=None if cache is None else str(cache),
        from_populate=options.get("from_populate", False),
        confirm=options.get("confirm"),
        start=options.get("start"),
    )
    return campaign(application, asked)


def matrix(url: str | None = None, *, start: str | None = None, **options: Unpack[RunKeywords]) -> Report:
    """Which anomalies does a database allow at which of its levels? Options are those of :func:`run` that make a workload."""
    from isolde.campaigns.run import matrix as campaign
    from isolde.campaigns.target import Wanted

    asked, listener = _run_options(options)
    return campaign(Wanted(url=url, kind=start), asked, listener)


def generate(output: Place | None = None, **options: Unpack[GenerateKeywords]) -> History | None:
    """A synthetic history: correct at a level, or with chosen anomalies; :class:`GenerateKeywords` says of what kind.

    With ``output`` it is written to a file, which may be as large as the disk; else it is given.
    """
    _refuse_unknown(options, GenerateKeywords, "generate")
    given = dict(options) | {"inject": list(options.get("inject", ()))}
    columns = _generated(**{**_GENERATED, **given})
    if output is None:
        return decode(columns)
    _write(columns, str(output))
    return None


_GENERATED: dict[str, Any] = {
    "workload": "mini",
    "level": "serializable",
    "sessions": 10,
    "transactions": 1000,
    "keys": 100,
    "operations": 4,
    "distribution": "uniform",
    "abort_rate": 0.0,
    "unknown_rate": 0.0,
    "seed": 0,
}


def convert(source: Place, target: Place, *, lossy: bool = False) -> tuple[str, ...]:
    """Reads a history and writes it in the format that the suffix of ``target`` names.

    Gives what the format could not carry, a sentence each; what would change verdicts is refused, or with ``lossy`` left out.
    """
    return _write(_read(str(source)), str(target), lossy=lossy)


def read(path: Place) -> History:
    """The history at ``path``, in any format that Isolde reads."""
    return decode(_read(str(path)))


def write(history: History, path: Place) -> tuple[str, ...]:
    """Writes a history in the format of the suffix; gives what that could not carry."""
    return _write(encode(history), str(path))


def save(report: Report, path: Place) -> None:
    """Keeps a report, with the transactions that it names, for :func:`load` and ``isolde show``.

    A name that ends in ``.html``, ``.xml`` or ``.sarif`` is a page, JUnit or SARIF, which are not read again.
    """
    from isolde.report.files import report_text

    try:
        Path(path).write_text(report_text(str(path), [report]), encoding="utf-8")
    except OSError as error:
        raise not_written(f"{path}: {error.strerror}", error) from None


def load(path: Place) -> Report:
    """A report that was kept."""
    try:
        return _report_read(Path(path).read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; expected a report") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def show(report: Report) -> str:
    """The report as the command line draws it."""
    return as_text(report)


def _names(level: LevelName | Iterable[LevelName]) -> tuple[str, ...]:
    levels = [level] if isinstance(level, str | Level) else list(level)
    return tuple(one.value if isinstance(one, Level) else one for one in levels)


def _columns(history: History | Iterable[Transaction]) -> Columns:
    return encode(history if isinstance(history, History) else History(tuple(history)))


def _refuse_unknown(options: Mapping[str, object], kind: Any, function: str) -> None:
    """A mistyped option is told, not passed over."""
    known = kind.__annotations__
    for name in options:
        if name not in known:
            raise UsageError(f"isolde.{function} has no option {name!r}; it has {', '.join(known)}")


_PLAIN = ("workload", "seed", "keep", "certify", "predicates_by", "tables")


def _run_options(options: RunKeywords) -> tuple[RunOptions, Listener | None]:
    """The keywords, put where the campaigns have them."""
    from isolde.campaigns.options import ApplicationOptions, Bounds, KeyOptions, RunOptions, sessions_of
    from isolde.engines.record import Fault
    from isolde.levels import level_named

    _refuse_unknown(options, RunKeywords, "run")
    faults = [fault.value for fault in Fault]
    for name in options.get("faults", ()):
        if name not in faults:
            raise UsageError(f"no fault '{name}'; there are {', '.join(faults)}")
    given: dict[str, Any] = {"sessions": sessions_of(options.get("workload", "")), **options}

    def part(kind: Any) -> Any:
        return kind(**{name: given[name] for name in kind.__dataclass_fields__ if name in given})

    def by_name(name: str) -> tuple[str, ...]:
        found = given.get(name, {})
        return (found,) if isinstance(found, str) else tuple(f"{key}={value}" for key, value in found.items())

    asked = RunOptions(
        levels=tuple(level_named(name) for name in _names(options.get("level", ()))),
        bounds=part(Bounds),
        of_keys=part(KeyOptions),
        of_application=ApplicationOptions(by_name("sizes"), by_name("mix"), by_name("levels")),
        faults=tuple(Fault(name) for name in options.get("faults", ())),
        output=Path(options["output"]) if "output" in options else None,
        **{name: given[name] for name in _PLAIN if name in given},
    )
    return asked, options.get("listener")
