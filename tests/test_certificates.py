"""Certificates as files: every form holds the same, and what is wrong is told with its line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from certifying import certified, certified_by_file
from isolde.errors import InputError, MalformedCertificate
from isolde.formats import encode
from isolde.formats.certificates import (
    CertificateWriter,
    certificate_path,
    encode_certificate,
    parse_certificate,
    read_certificate,
    sidecar,
    write_certificate,
)
from isolde.history import Append, History, Operation, Read, Status, Transaction, Write
from isolde.history.certificate import Certificate, Installed, ObjectId, RowId, Sees, VersionId, VersionSet

_HEADER = '{"isolde": "certificate", "version": 1, "source": "by hand"}\n'
_TEXT = (
    _HEADER
    + """{"object": ["accounts", [1]], "versions": [null, ["t3", 1], ["t9", 0]]}
{"object": "x", "versions": [[7, 0]], "partial": true}
{"commits": ["t3", "t1", "t9"]}
{"read": ["t5", 2], "sees": {"first": 2, "except": ["t1"], "also": ["t9"]}}
{"read": ["t5", 3], "versions": [[["accounts", [1]], ["t3", 1]], ["x", null]]}
{"serial": ["t3", "t5", "t1", "t9"]}
"""
)
_TOLD = Certificate(
    "by hand",
    {RowId("accounts", (1,)): Installed((None, ("t3", 1), ("t9", 0))), "x": Installed(((7, 0),), partial=True)},
    ("t3", "t1", "t9"),
    {
        ("t5", 2): VersionSet(Sees(2, ("t1",), ("t9",))),
        ("t5", 3): VersionSet(None, {RowId("accounts", (1,)): ("t3", 1), "x": None}),
    },
    ("t3", "t5", "t1", "t9"),
)


def test_the_example_of_the_format_is_read_as_it_is_meant() -> None:
    placed = parse_certificate(_TEXT.encode(), "a.jsonl")
    assert placed.certificate == _TOLD
    assert placed.lines.objects[RowId("accounts", (1,))] == 2
    assert (placed.lines.commits, placed.lines.serial) == (4, 7)
    assert parse_certificate(encode_certificate(_TOLD)).certificate == _TOLD


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst", ".jsonl.gz", ".parquet"])
def test_every_form_holds_the_same(tmp_path: Path, suffix: str) -> None:
    history = str(tmp_path / f"run{suffix}")
    path = certificate_path(history)
    assert sidecar(history) is None
    write_certificate(_TOLD, path)
    assert Path(path).name == f"run.certificate{suffix}"
    assert read_certificate(path).certificate == _TOLD
    assert sidecar(history) == path
    assert sidecar(str(tmp_path / "run.jsonl")) == path


def test_a_writer_leaves_plain_lines_and_no_half_packed_file_behind(tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        with CertificateWriter(str(path), "here") as writer:
            writer.installed("x", [None, (1, 0)])
            raise KeyError

    for name in ("a.jsonl", "b.parquet"):
        with pytest.raises(KeyError):
            broken(tmp_path / name)
    assert read_certificate(str(tmp_path / "a.jsonl")).certificate.objects == {"x": Installed((None, (1, 0)))}
    assert not (tmp_path / "b.parquet").exists()


_WRONG = {
    "no header": ('{"commits": []}', 1, "header"),
    "two commits": (_HEADER + '{"commits": []}\n{"commits": []}', 3, 'second "commits"'),
    "two serial": (_HEADER + '{"serial": []}\n\n{"serial": []}', 4, 'second "serial"'),
    "two lines of an object": (
        _HEADER + '{"object": "x", "versions": []}\n{"object": "x", "versions": [null]}',
        3,
        'second line for "x"',
    ),
    "two lines of a read": (
        _HEADER + '{"read": ["a", 0], "versions": []}\n{"read": ["a", 0], "sees": {"first": 0}}',
        3,
        "second line for the read",
    ),
    "null not first": (_HEADER + '{"object": "x", "versions": [["a", 0], null]}', 2, "not first"),
    "no JSON": (_HEADER + '{"object": ', 2, "no JSON"),
    "no line that is known": (_HEADER + '{"order": []}', 2, "says nothing known"),
    "a read of nothing": (_HEADER + '{"read": ["a", 0]}', 2, "says nothing known"),
    "no version": (_HEADER + '{"object": "x", "versions": [["a"]]}', 2, "names no version"),
    "a negative place": (_HEADER + '{"object": "x", "versions": [["a", -1]]}', 2, "names no version"),
    "no object": (_HEADER + '{"object": ["t", []], "versions": []}', 2, "names no object"),
    "more than committed": (
        _HEADER + '{"commits": ["a"]}\n{"read": ["b", 0], "sees": {"first": 2}}',
        3,
        '"first" is 2',
    ),
    "twice in commits": (_HEADER + '{"commits": ["a", "a"]}', 2, "stands twice"),
    "another version": ('{"isolde": "certificate", "version": 2}', 1, '"version" is 2'),
    "an empty file": ("", 1, "no line"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_what_is_wrong_is_told_with_its_line(case: str) -> None:
    text, line, words = _WRONG[case]
    with pytest.raises(MalformedCertificate) as caught:
        parse_certificate(text.encode(), "c.jsonl")
    assert caught.value.line == line
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"c.jsonl:{line}: ")


def test_a_damaged_or_foreign_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.certificate.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="Parquet"):
        read_certificate(str(path))


def _random_orders(seed: int) -> tuple[History, Certificate]:
    """A history over keys or lists, and orders of their versions, some of them partial, out of place or wrong."""
    rng = random.Random(f"orders {seed}")
    lists = seed % 3 == 0
    made: dict[str, list[VersionId]] = {"x": [], "y": []}
    done = []
    for name in ("a", "b", "c", "d"):
        ops: list[Operation] = []
        for place in range(rng.randint(1, 3)):
            key, value = rng.choice("xy"), rng.randint(1, 3) if not lists else 10 * ord(name) + place
            known = [v for v in made[key] if v[0] != name]
            if rng.random() < 0.6:
                ops.append(Append(key, value) if lists else Write(key, value))
                made[key].append((name, place))
            elif lists:
                ops.append(Read(key, tuple(10 * ord(str(writer)) + at for writer, at in known)))
            else:
                ops.append(Read(key, rng.randint(1, 3)))
        status = rng.choice([Status.COMMITTED] * 6 + [Status.ABORTED, Status.UNKNOWN])
        done.append(Transaction(name, rng.choice("st"), tuple(ops), status))
    objects: dict[ObjectId, Installed] = {}
    for key, versions in made.items():
        told = [v for v in versions if rng.random() < 0.95]
        if rng.random() < 0.2:
            rng.shuffle(told)
        if any(op.key == key for t in done for op in t.ops):  # type: ignore[union-attr]
            objects[key] = Installed((*([None] if rng.random() < 0.8 else []), *told), rng.random() < 0.2)
    serial = tuple(t.id for t in done if t.status is Status.COMMITTED) if rng.random() < 0.2 else None
    commits = ("a", "b") if rng.random() < 0.3 else ()
    return History(tuple(done)), Certificate(
        "", {} if serial and rng.random() < 0.7 else objects, commits, serial=serial
    )


def test_what_the_core_reads_itself_says_the_same(tmp_path: Path) -> None:
    names = ("read-uncommitted", "pl-2", "causal", "snapshot-isolation", "serializable")
    plain = 0
    for seed in range(300):
        history, certificate = _random_orders(seed)
        answers: list[list[object]] = []
        for by_file in (False, True):
            try:
                report = (
                    certified_by_file(history, certificate, names, tmp_path)
                    if by_file
                    else certified(history, certificate, names)
                )
                answers.append([(one.verdict, one.judged_by.oracle) for one in report.findings])
            except MalformedCertificate as error:
                answers.append([error.found])
        assert answers[0] == answers[1], f"seed {seed}"
        plain += encode(history).plain_certificate((tmp_path / "told.jsonl").read_bytes()) is not None
    assert plain > 50
