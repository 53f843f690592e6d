"""Parquet files of other programs: what DuckDB writes is read, and DuckDB reads what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from isolde.errors import IsoldeError
from isolde.formats import decode, encode, read, write
from isolde.history import History, parse

OPS = "STRUCT(kind TINYINT, key BIGINT, key_text VARCHAR, value BIGINT, detail VARCHAR)[]"
ROW = """SELECT 7::BIGINT AS id, NULL::VARCHAR AS id_text, NULL::BIGINT AS session, '"s1"' AS session_text,
0::TINYINT AS status, 1::BIGINT AS start, 2::BIGINT AS end, NULL::VARCHAR AS extra, {ops} AS ops"""


def written_by_duckdb(path: Path, ops: str, row: str = ROW) -> str:
    duckdb.sql(f"COPY ({row.format(ops=ops)}) TO '{path}' (FORMAT parquet)")
    return str(path)


def asked(query: str) -> list[tuple[Any, ...]]:
    answer = duckdb.sql(query)
    assert answer is not None
    rows: list[tuple[Any, ...]] = answer.fetchall()
    return rows


def test_a_file_of_duckdb_is_read(tmp_path: Path) -> None:
    ops = f"""[{{'kind': 1, 'key': NULL, 'key_text': '"x"', 'value': 5, 'detail': NULL}},
               {{'kind': 0, 'key': 3, 'key_text': NULL, 'value': NULL, 'detail': '"text"'}}]::{OPS}"""
    history = decode(read(written_by_duckdb(tmp_path / "h.parquet", ops)))
    assert history.transactions == parse('s1: 7=[w(x,5) r(3,"text")]@1..2').transactions


def test_a_transaction_without_operations_is_one(tmp_path: Path) -> None:
    assert not decode(read(written_by_duckdb(tmp_path / "h.parquet", f"[]::{OPS}"))).transactions[0].ops


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        (f"NULL::{OPS}", 'ops" is null'),
        (f"[NULL]::{OPS}", "null.*expected an operation"),
        ("[1]::BIGINT[]", '"kind"'),
        ("1::BIGINT", '"kind"'),
        (f"[{{'kind': 9, 'key': 1, 'key_text': NULL, 'value': 5, 'detail': NULL}}]::{OPS}", 'kind" is 9'),
    ],
)
def test_what_is_no_list_of_operations_is_refused(tmp_path: Path, ops: str, reason: str) -> None:
    with pytest.raises(IsoldeError, match=reason):
        read(written_by_duckdb(tmp_path / "h.parquet", ops))


def test_a_column_of_another_type_is_refused_by_its_name(tmp_path: Path) -> None:
    wider = ROW.replace("0::TINYINT AS status", "0::BIGINT AS status")
    with pytest.raises(IsoldeError, match='the column "status" has another type'):
        read(written_by_duckdb(tmp_path / "h.parquet", f"[]::{OPS}", wider))
    missing = ROW.replace("2::BIGINT AS end, ", "")
    with pytest.raises(IsoldeError, match='no column "end"'):
        read(written_by_duckdb(tmp_path / "h.parquet", f"[]::{OPS}", missing))


def test_duckdb_reads_what_is_written(tmp_path: Path) -> None:
    history = parse('initial: x=0\ns1: [r(x,0) w(x,1) cas(y,0,2)]@1..2 []\ns2: [w("a b","c")]!unknown')
    path = tmp_path / "h.parquet"
    write(encode(history), str(path))
    rows = asked(f"SELECT id, session_text, status, start, len(ops), ops FROM '{path}'")
    assert [row[:5] for row in rows] == [(0, '"s1"', 0, 1, 3), (1, '"s1"', 0, None, 0), (2, '"s2"', 2, None, 1)]
    assert [op["kind"] for op in rows[0][5]] == [0, 1, 3]
    assert (rows[2][5][0]["key_text"], rows[2][5][0]["detail"]) == ('"a b"', '"c"')
    (metadata,) = asked(f"SELECT decode(value) FROM parquet_kv_metadata('{path}')")
    assert '"initial":{"x":0}' in metadata[0]


def test_an_empty_history_is_a_file_too(tmp_path: Path) -> None:
    path = str(tmp_path / "h.parquet")
    write(encode(History((), initial={"x": 1})), path)
    assert decode(read(path)) == History((), initial={"x": 1})
