"""Every command of README and of the pages is executed, in a directory with the files that it names.

Runs are shortened, and a server that stands for the reader's own is a private one. What a page shows of the output is compared by
the tests of that page.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isolde.databases.servers import Running
from running import isolde

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "tests" / "samples"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

ELSEWHERE = {
    "tutorial.md": "test_docs_tutorial.py runs all of it",
    "certify.md: $": "test_docs_certify.py compares what is printed",
}
NOT_ISOLDE = ("make ", "pytest ", "import ", "connection", "pip ")
DRIVER = "isolde run --driver MODULE --connect TEXT"
# What a placeholder of the pages stands for.
OWN = {
    "postgresql://user@host/name": "postgresql",
    "postgresql://…": "postgresql",
    "mariadb://user@host/name": "mariadb",
    "mariadb://root@localhost/test": "mariadb",
}
USUAL = (0, 1)
STATUSES = {
    # A synthetic history need not have an initial value for every key, nor a run decide everything in a second.
    "isolde check --level all history.parquet": (0, 1, 3),
    "isolde check --level si --level strict-ser *.jsonl": (0, 1, 3),
    "isolde check --no-certificate history.jsonl": (3,),
    # Random rounds: how many there are depends on the machine, and some hang on a plan that the server does not tell.
    "isolde run --start mariadb --workload sql": (0, 1, 3),
    'isolde run --start mariadb --workload sql --isolation "repeatable read" --time 60': (0, 1, 3),
    "isolde run duckdb: --workload sql --until-violation": (0, 1, 3),
}


def _commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.name in ELSEWHERE:
            continue
        for line in page.read_text("utf-8").splitlines():
            found = re.match(r"(?:    |\$ )(isolde .*)", line)
            if not found or (line.startswith("$") and f"{page.name}: $" in ELSEWHERE):
                continue
            text = re.sub(r"\s+# .*", "", found[1]).removesuffix(" &")
            yield from ((page.name, part.strip()) for part in text.split("&&"))


def _marked() -> list[object]:
    """Each command once, under the first page that shows it."""
    pages: dict[str, str] = {}
    for page, command in _commands():
        pages.setdefault(command, page)
    marked: list[object] = []
    for command, page in pages.items():
        marks = [pytest.mark.server] if any(word in command for word in ("--start", *OWN)) else []
        # Half a minute, and tests of the matrix run it anyway.
        marks += [pytest.mark.long] if "--matrix" in command else []
        marked.append(pytest.param(page, command, marks=marks, id=f"{page}: {command}"))
    return marked


def _block(page: str, kind: str, beginning: str = "") -> str:
    text = (ROOT / page).read_text("utf-8")
    found: list[str] = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    return next(one for one in found if one.startswith(beginning))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All files that the pages name."""
    where = tmp_path_factory.mktemp("reader")

    def made(*words: str) -> None:
        status, _, error = isolde(*words)
        assert status in USUAL, error

    def here(name: str) -> str:
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    made("generate", "--workload", "predicates", "--inject", "phantom", "-o", here("certified/history.jsonl"))
    shutil.copy(where / "certified" / "history.certificate.jsonl", where / "certified" / "told.jsonl")
    made("generate", "--inject", "lost-update", "--transactions", "200", "-o", here("big.jsonl"))
    for name in ("history.jsonl", "history.parquet", "history.jsonl.zst", "fork.parquet", "days/1.parquet"):
        made("convert", here("big.jsonl"), here(name))
    blind = ("--workload", "read-write", "--blind-writes", "0.6", "--keys", "20", "--versions", "0.9")
    made("generate", *blind, "--transactions", "60", "-o", here("blind.jsonl"))
    (where / "skew.txt").write_text(_block("README.md", "text", "initial:"))
    shutil.copy(SAMPLES / "append.edn", here("store/latest/history.edn"))
    made("convert", here("big.jsonl"), here("history.edn.gz"))
    made("convert", "--to", "cobra", here("big.jsonl"), here("cobra-logs"))

    made("run", "--workload", "bank", "--transactions", "60", "-o", here("run"))
    made("run", "--transactions", "200", "-o", here("soak"))
    for name in ("bank.jsonl", "shop.jsonl", "log.jsonl"):
        shutil.copy(where / "run" / "history.jsonl", where / name)
    (where / "deposits.py").write_text(_block("docs/explore.md", "python", "# deposits.py"))
    (where / "bank.py").write_text(_block("docs/explore.md", "python", "# bank.py"))
    (where / "seats.py").write_text(_block("docs/applications.md", "python"))
    for name in ("shop.py", "my_application.py"):
        (where / name).write_text(_block("docs/infer.md", "python"))
    (where / "two_terminals.json").write_text(_block("docs/schedules.md", "json"))
    (where / "postgresql.csv").write_text(SERVER_LOG)
    (where / "tables.sql").write_text("CREATE TABLE t (id INT PRIMARY KEY, a INT);\n")
    (where / "results").mkdir()
    made("check", here("skew.txt"), "--report", here("result.json"))
    shutil.copy(where / "result.json", where / "results" / "first.json")
    return where


SERVER_LOG = (
    '2026-01-01 10:00:00.000 UTC,"me","db",10,"[local]",5.a,1,"idle",2026-01-01 09:00:00 UTC,3/1,0,LOG,00000,'
    '"statement: SELECT a FROM t WHERE id = 1",,,,,,,,,"psql","client backend",,0\n'
)


@pytest.mark.parametrize(("page", "command"), _marked())
def test_the_command_does_what_the_page_is_about(
    page: str,
    command: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if "MODULE" in command or "turso" in command:
        pytest.skip("a placeholder, or a driver that the tests do not install: tests of --driver run it with sqlite3")
    place = tmp_path / "reader"
    shutil.copytree(files, place)
    monkeypatch.chdir(place)
    if page == "certify.md":
        monkeypatch.chdir("certified")
    if page == "recovery.md":
        shutil.rmtree("run")
        Path("certified").rename("run")
    words = shlex.split(_shortened(command))
    for placeholder, kind in OWN.items():
        if placeholder in words:
            server: Callable[[str], Running] = request.getfixturevalue("server")
            words[words.index(placeholder)] = server(kind).url
    if ">" in words:
        words = words[: words.index(">")]
    if "-o" in words:
        shutil.rmtree(words[words.index("-o") + 1], ignore_errors=True)
    words = [found for word in words for found in (sorted(map(str, place.glob(word))) if "*" in word else [word])]
    status, out, error = isolde(*words[1:])
    assert status in STATUSES.get(command, USUAL), f"{status}\n{out}\n{error}"
    assert "Traceback" not in error


def _shortened(command: str) -> str:
    """The same for a second, or a few transactions."""
    if not command.startswith("isolde run") or "--schedule" in command or "--matrix" in command:
        return re.sub(r"--transactions \d+", "--transactions 300", command)
    command = re.sub(r"--time \d+", "--time 1", command)
    command = re.sub(r"--transactions \d+", "--transactions 300", command)
    if "--time" not in command and "--transactions" not in command:
        command += " --time 1"
    return command


def test_the_pages_have_commands() -> None:
    """So that a change of the pages' layout does not leave this file without anything to run."""
    assert len(set(_commands())) > 60


def test_a_certificate_that_a_shell_names_with_its_history_is_read_with_it(files: Path) -> None:
    paths = sorted(map(str, (files / "certified").glob("history*.jsonl")))
    assert len(paths) == 2
    together, alone = isolde("check", *paths), isolde("check", str(files / "certified" / "history.jsonl"))
    assert (together[0], together[2]) == (alone[0], alone[2]) == (1, "")


def test_a_log_of_sql_leads_to_the_verb_that_judges_it(files: Path) -> None:
    shown = isolde("check", str(files / "bank.jsonl"))[1]
    assert "'isolde audit' judges their answers" in " ".join(shown.split())
