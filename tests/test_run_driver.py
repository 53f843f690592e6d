"""``--driver`` as a person meets it: a module that lies about, one that says too little, one that leaves threads behind."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from running import ISOLDE

# A driver of one's own: sqlite3, without what PEP 249 has a module say, and with a thread that never ends.
_OWN = """
import sqlite3, threading, time
from sqlite3 import Error, InterfaceError, DatabaseError, OperationalError, IntegrityError, ProgrammingError

def connect(file):
    return sqlite3.connect(file, timeout=10, check_same_thread=False)

threading.Thread(target=time.sleep, args=(600,)).start()
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "own_driver.py").write_text(_OWN)
    command = [*ISOLDE, "run", "--driver", "own_driver", "--connect", "own.db", "--transactions", "20", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_what_a_driver_does_not_say_is_asked_for(tmp_path: Path) -> None:
    silent = run(tmp_path)
    assert silent.returncode == 2
    assert (
        "own_driver is no driver as PEP 249 has it: it has no 'paramstyle'; tell it with --paramstyle" in silent.stderr
    )
    half = run(tmp_path, "--paramstyle", "qmark")
    assert "it has no 'threadsafety'; tell it with --threadsafety" in half.stderr


def test_a_driver_beside_one_is_found_and_its_threads_are_not_waited_for(tmp_path: Path) -> None:
    begun = time.monotonic()
    told = run(tmp_path, "--paramstyle", "qmark", "--threadsafety", "1", "--only-level", "--sessions", "2", "-o", "out")
    assert told.returncode == 0, told.stderr
    assert "serializable: satisfied" in told.stdout
    # Left to itself, the program would wait for the driver's thread.
    assert time.monotonic() - begun < 25
    assert len((tmp_path / "out" / "history.jsonl").read_text().splitlines()) > 20


def test_these_options_are_for_drivers_alone(tmp_path: Path) -> None:
    command = [*ISOLDE, "run", "--paramstyle", "qmark", "--transactions", "5"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "go with --driver" in ended.stderr
