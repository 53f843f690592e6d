"""Inputs that are no ordinary files, or larger than anybody means them to be: one line each, and never a wait without an end."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import threading
from pathlib import Path

import pytest

from isolde._core import Columns, Reading
from isolde.errors import InputError
from isolde.formats import WRITTEN, encode, read, write
from isolde.history import parse
from running import ISOLDE

LINE = '{"session":1,"ops":[["w","x",1]]}\n'
MEBIBYTE = 2**20


def isolde(*arguments: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*ISOLDE, *arguments], capture_output=True, check=False, timeout=100, **options)  # type: ignore[call-overload,no-any-return]


# --- Names that are no text -------------------------------------------------------------------------------------------


def test_the_name_of_a_file_need_not_be_utf8(tmp_path: Path) -> None:
    good, bad = os.fsencode(tmp_path) + b"/h\xff.jsonl", os.fsencode(tmp_path) + b"/\xfe.jsonl"
    Path(os.fsdecode(good)).write_text(LINE)
    Path(os.fsdecode(bad)).write_text("{")
    for options in ([], ["--json"], [bad], ["--json", bad], ["--witness", os.fsencode(tmp_path) + b"/w\xff.txt"]):
        ran = isolde("check", good, *options)
        assert ran.returncode == (2 if bad in options else 0), ran.stderr
        assert b"Traceback" not in ran.stderr
    assert b"h\\xff.jsonl: 1 transaction " in isolde("check", good).stdout
    ran = isolde("convert", good, os.fsencode(tmp_path) + b"/\xfd.parquet")
    assert (ran.returncode, ran.stderr) == (0, b"")
    ran = isolde("check", os.fsencode(tmp_path) + b"/none\xff")
    assert ran.returncode == 2
    assert ran.stderr.endswith(b"none\\xff: No such file or directory\n")


# --- Pipes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [LINE, LINE * 50_000, "s: [w(x,1)]\n", "w(0,1,1,1)\n"], ids=["line", "long", "notation", "plume"])  # fmt: skip
def test_a_named_pipe_is_read_like_a_file(content: str, tmp_path: Path) -> None:
    pipe, plain = tmp_path / "pipe", tmp_path / "plain"
    os.mkfifo(pipe)
    plain.write_text(content)
    writer = threading.Thread(target=lambda: pipe.write_text(content))
    writer.start()
    assert read(str(pipe)).to_jsonl() == read(str(plain)).to_jsonl()
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_without_an_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = isolde("check", str(tmp_path / "pipe"))
    assert ran.returncode == 2
    assert ran.stderr.decode() == f"isolde: {tmp_path}/pipe: nobody has written to this pipe for 10 s\n"


def test_a_pipe_among_cobras_logs_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "T1.log")
    with pytest.raises(InputError, match=r"T1\.log is no regular file; expected Cobra's log of a client"):
        read(str(tmp_path))


# --- Sizes ------------------------------------------------------------------------------------------------------------


def test_a_line_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text(LINE + LINE.replace('"x"', '"' + "x" * 5000 + '"'))
    assert read(str(path), reading=Reading(line_bytes=6000)).counts().transactions == 2
    with pytest.raises(InputError) as raised:
        read(str(path), reading=Reading(line_bytes=2048))
    assert str(raised.value) == (
        f"{path}:2: a line of more than 2 KiB; expected shorter ones; raise the limit with --line-limit if it is a history"
    )


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "cobra"])
def test_what_comes_out_of_a_packed_file_has_a_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "h"
    write(encode(parse("0: " + "[w(0,1)] " * 2 + "[w(0,3) w(1,4)] " * 500)), str(path), name)
    if name != "parquet":
        path.write_bytes(gzip.compress(path.read_bytes()))
    size = len(path.read_bytes() if name == "parquet" else gzip.decompress(path.read_bytes()))
    assert read(str(path), name, Reading(size_bytes=10 * size)).counts().operations == 1002
    with pytest.raises(InputError) as raised:
        read(str(path), name, Reading(size_bytes=1000))
    assert str(raised.value) == (
        f"{path}: more than 1000 bytes when unpacked; raise the limit with --size-limit if it is a history"
    )


def test_an_input_without_an_end_is_given_up() -> None:
    ran = isolde("check", "--format", "jsonl", "--line-limit", "8M", "/dev/zero")
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"isolde: /dev/zero:1: a line of more than 8 MiB; expected shorter ones")
    ran = isolde("check", "--format", "plume", "--size-limit", "20M", "/dev/zero")
    assert ran.stderr.startswith(b"isolde: /dev/zero: more than 20 MiB when unpacked")


@pytest.mark.parametrize("size", ["0", "-1", "x", "5X", "", "1e3", "99999999999999T"])
def test_a_limit_is_a_size(size: str, tmp_path: Path) -> None:
    ran = isolde("check", "--size-limit", size, str(tmp_path))
    assert ran.returncode == 2
    assert b"is no size; give bytes, or a number with K, M, G or T behind it" in ran.stderr


def test_the_end_of_memory_is_one_line(tmp_path: Path) -> None:
    """A file of a few kilobytes that is one long line when unpacked."""
    path = tmp_path / "h.jsonl.gz"
    with gzip.open(path, "wb") as packed:
        for _ in range(1500):
            packed.write(b" " * MEBIBYTE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1000 * MEBIBYTE, 1000 * MEBIBYTE))

    ran = isolde("check", "--line-limit", "4G", str(path), preexec_fn=limit)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"", b"isolde: out of memory\n")


def test_the_usual_limits_stop_a_line_of_gigabytes_early(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(300):
            packed.write(b"[" * MEBIBYTE)
    with pytest.raises(InputError, match=r"h\.jsonl\.gz:1: a line of more than 256 MiB; expected shorter ones"):
        Columns.read(str(path))
