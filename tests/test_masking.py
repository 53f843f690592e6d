"""Passwords are neither shown nor recorded, however they are written, and recordings are their user's alone."""

from __future__ import annotations

import json
import os
import stat
import string
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolde.databases.servers import Running
from isolde.databases.servers.process import free_port
from isolde.masking import hide, masked_connect, masked_url, secrets_of
from running import ISOLDE, isolde

SECRET = "S3cretW0rd"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@@host/db",
        f"postgresql://me:a/{SECRET}@host/db",
        f"postgresql://me:a?{SECRET}@host/db",
        f"postgresql://me:a#{SECRET}@host/db",
        f"postgresql://me:a:{SECRET}@host/db",
        f"redis://:{SECRET}@host/0",
        f"postgresql://host/db?password={SECRET}",
        f"postgresql://host/db?user=me&Password={SECRET}&sslmode=disable",
        f"postgresql://host/db?pass%77ord={SECRET}",
        f"postgresql://host/db?password=a#{SECRET}",
        f"postgresql://host/db?password=a;{SECRET}",
        f"postgresql://host/db?sslpassword={SECRET}",
        f"mariadb://host/db?passwd={SECRET}&x=1",
        f"mariadb://host/db?pwd={SECRET}",
        f"jdbc:h2:tcp://host/x;USER=sa;PASSWORD={SECRET}",
        f"libsql://host?authToken={SECRET}",
    ],
)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    assert SECRET not in masked_url(url)
    assert SECRET not in masked_connect(url)
    assert SECRET not in hide(f"could not use {url}: '{SECRET}' is wrong", secrets_of(url))


@pytest.mark.parametrize(
    "text",
    [
        f"host=h password={SECRET} dbname=x",
        f"host=h password = '{SECRET} and more' dbname=x",
        f"host=h PASSWORD=a;{SECRET} dbname=x",
        f"DRIVER={{X}};SERVER=h;UID=u;PWD={{a}}}}{SECRET}}};Encrypt=yes",
        f"DRIVER={{X}};SERVER=h;UID=u;PWD={SECRET}",
        f"scott/{SECRET}@host",
        f"jdbc:derby:db;user=me;password={SECRET}",
        json.dumps({"database": "x", "password": SECRET}),
        json.dumps({"database": "x", "passwd": SECRET, "user": "me"}),
        json.dumps({"jclassname": "X", "url": "jdbc:x", "driver_args": ["sa", SECRET]}),
        json.dumps({"jclassname": "X", "url": "jdbc:x", "driver_args": {"user": "sa", "password": SECRET}}),
        json.dumps({"url": f"jdbc:h2:mem:x;PASSWORD={SECRET}"}),
        json.dumps({"dsn": f"scott/{SECRET}@host"}),
        json.dumps({"key_of_my_own": SECRET}),
        '{"password": "' + SECRET,
    ],
)
def test_what_a_driver_is_given_is_shown_without_secrets(text: str) -> None:
    assert SECRET not in masked_connect(text)


def test_what_is_harmless_is_still_shown() -> None:
    assert masked_connect("turso.db") == "turso.db"
    shown = masked_connect('{"database": "file:x?mode=memory&cache=shared", "uri": true, "timeout": 10}')
    assert json.loads(shown) == {"database": "file:x?mode=memory&cache=shared", "uri": True, "timeout": 10}
    assert masked_url("mariadb://root@a,b/test?wsrep_sync_wait=15") == "mariadb://root@a,b/test?wsrep_sync_wait=15"


@given(
    password=st.text(st.sampled_from(string.printable.strip()), max_size=12).map(lambda t: f"Q9{t}9Q"),
    form=st.sampled_from(
        ["postgresql://me:{}@host/db", "postgresql://host/db?password={}", "mariadb://host/db?user=a&passwd={}"]
    ),
)
def test_no_password_leaves_a_trace_in_a_url(password: str, form: str) -> None:
    if "?" in form and "&" in password:
        return
    shown = masked_url(form.format(password))
    assert "Q9" not in shown.replace("***", "")
    assert "9Q" not in shown.replace("***", "")


def modes(directory: Path) -> set[str]:
    return {f"{stat.S_IMODE(path.stat().st_mode):o}" for path in (directory, *directory.rglob("*")) if path.is_file()}


def test_a_recording_is_private_and_holds_no_password(tmp_path: Path) -> None:
    connect = json.dumps({"database": str(tmp_path / "a.db"), "check_same_thread": False, "timeout": 10})
    old = os.umask(0)
    try:
        status, out, error = isolde(
            *("run", "--driver", "sqlite3", "--connect", connect, "--transactions", "50", "-o", str(tmp_path / "out"))
        )
    finally:
        os.umask(old)
    assert status == 0, out + error
    assert modes(tmp_path / "out") == {"600"}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def test_a_killed_recording_is_private_too(tmp_path: Path) -> None:
    process = subprocess.Popen([*ISOLDE, "run", "--time", "60", "-o", "out"], cwd=tmp_path, umask=0)
    while not list(tmp_path.glob("out/sessions/*")) and process.poll() is None:
        pass
    process.kill()
    process.wait()
    assert modes(tmp_path / "out") == {"600"}
    assert stat.S_IMODE((tmp_path / "out" / "sessions").stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis", "etcd"])
def test_the_password_of_a_server_is_nowhere_in_what_is_printed_or_recorded(
    kind: str, server: Callable[[str], Running], tmp_path: Path
) -> None:
    running = server(kind)
    secret = running.nodes[0].place.secret
    status, out, error = isolde("run", running.url, "--transactions", "50", "-o", str(tmp_path / "out"))
    assert status == 0
    assert secret not in out + error
    assert "***@" in (tmp_path / "out" / "history.jsonl").read_text()
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb", "redis", "etcd"])
@pytest.mark.parametrize(
    "password", [SECRET, f"{SECRET}/x", f"x/{SECRET}", f"x@{SECRET}", f"x:{SECRET}", f"x#{SECRET}", f"x%zz{SECRET}"]
)
def test_no_part_of_a_password_is_in_an_error(scheme: str, password: str) -> None:
    status, out, error = isolde("run", f"{scheme}://me:{password}@127.0.0.1:{free_port()}/test")
    assert status in (2, 4)
    assert SECRET not in out + error
    assert len(error.splitlines()) == 1


def test_names_of_files_are_not_taken_for_passwords() -> None:
    assert "data/run@1.jsonl" in isolde("check", "data/run@1.jsonl")[2]


def test_what_a_driver_says_of_its_arguments_is_hidden(tmp_path: Path) -> None:
    connect = json.dumps({"database": f"{tmp_path}/no/{SECRET}.db", "password": SECRET})
    status, _, error = isolde("run", "--driver", "sqlite3", "--connect", connect)
    assert status in (2, 4)
    assert SECRET not in error
