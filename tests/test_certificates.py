"""Certificates as files: every form holds the same, and what is wrong is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolde.errors import InputError, MalformedCertificate
from isolde.formats.certificates import (
    CertificateWriter,
    certificate_path,
    encode_certificate,
    parse_certificate,
    read_certificate,
    sidecar,
    write_certificate,
)
from isolde.history.certificate import Certificate, Installed, RowId, Sees, VersionSet

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
