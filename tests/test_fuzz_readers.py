"""Whatever bytes a reader is given, it gives a history or says in one line what is wrong with which file.

The inputs are good files in every readable form, damaged in a few places. What is still read must be written and read
again as the same history, in every form.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from isolde._core import Columns
from isolde.errors import IsoldeError
from isolde.formats import decode, encode, read, write
from isolde.history import Append, History, Read, Scan, Sql
from test_foreign_formats import BINCODE, COBRA, SAMPLES, TIMED_COBRA

INPUTS = 4_000
LONG_INPUTS = 100_000
BATCHES = 8

REGISTERS = rb"""
{"isolde":"history","version":1,"initial":{"x":0,"7":"seven","\u00e9\n":null,"d":-0.125},"meta":{"database":"pg 15","n":[1,2.50,{"deep":[[]]}]},"unknown":[true,null,"\ud83d\ude00"]}
{"versions":["x",[0,1,5]]}
{"id":7,"session":2,"status":"committed","start":1200,"end":1950,"ops":[["r","x",0],["w","x",1]]}
{"session":"s 2","status":"aborted","start":-5,"ops":[["r",7,"seven"],["w",7,123456789012345678901234567890],["r","d",-0.125]]}

{"id":"t\"3\\","session":2,"status":"unknown","end":99,"serial":12.5,"snapshot":{"at":[7]},"colour":"blue","ops":[["cas","x",1,5,true],["cas","x",null,2,false],["cas",7,1,2,false,"se\tven"]]}
{"id":-4,"session":3,"serial":13,"ops":[["w","\u00e9\n",1.5e-7],["w","x",null],["r","x",true],["w","b",false],["w","z","\u0000\u20ac"]]}
{"id":"last","session":"\u4e2d\u6587","start":9007199254740993,"end":9223372036854775807,"ops":[]}
"""
LISTS = rb"""
{"isolde":"history","version":1,"initial":[["l",[1,"a"]],[3,[]]]}
{"id":"a","session":1,"ops":[["a","l",2],["r","l",[1,"a",2]],["r",3,null],["a",3,1.25]]}
{"session":2,"status":"unknown","ops":[["r","l",[]],["r",3,[1.25,true,null,-99999999999999999999]]]}
{"versions":[3,[1.25]]}
"""
STATEMENTS = rb"""
{"isolde":"history","version":1,"meta":"sql"}
{"session":"c","start":1,"end":2,"ops":[{"sql":"select * from t where id = $1","params":[1],"rows":[[1,"x"],[2,null]],"count":2},{"scan":{"table":"t","where":"a > 1"},"rows":[{"id":1}]}]}
{"session":"c","status":"aborted","ops":[{"sql":"update t set a = 'b\nc'","rows":null,"count":1,"tag":{"k":[]}}]}
"""
NOTATION = (
    """# A comment, and all that the notation can say.
initial: x=0 "a b"=_ n=-1.5 7=big
versions: x=[0,1,5]
versions: "a b"=[true,"q\\"\\u00e9"]
s1: t1=[r(x,0) w(x,1)]@1..5 [r(x,_) w(x,_)]!unknown@-3.. | s2: [cas(x,1,2) cas(x,_,2)! cas(x,1,9)!3]!abort@..7
"s 3": "t 4"=[w(n,123456789012345678901) w(7,1e-30) r("a b",true)] 99=[]
""",
    """initial: l=[1,2]
a: [a(l,3) r(l,[1,2,3]) r(m,[])] b=[r(m,_)]
b: [{"scan":{"t":1},"rows":[]}]
""",
    """c: [{"sql":"select 1","params":[1,"x"],"rows":[[1]],"count":null}] | d: [{"sql":"","rows":null}]!unknown
""",
)


FOREIGN = {
    ".edn": ("elle-edn", ("append.edn", "registers.edn", "completions.edn", "cas.edn", "cas-keys.edn")),
    ".elle.json": ("elle-json", ("append.elle.json",)),
    ".dbcop.json": ("dbcop-json", ("run.dbcop.json", "bare.dbcop.json")),
    ".hist": ("dbcop-hist", ("run.hist",)),
    ".plume": ("plume", ("run.plume",)),
    ".awdit": ("awdit", ("run.awdit",)),
    ".bincode": ("dbcop-bincode", ()),
    ".cobra": ("cobra", ()),
}
BINARY = {".bincode": [BINCODE], ".cobra": [COBRA["T2.log"], TIMED_COBRA["T0.log"]]}
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".txt", *FOREIGN)


def packed(text: bytes, suffix: str, directory: Path) -> bytes:
    """The same history in another form."""
    path = directory / f"seed{suffix}"
    write(Columns.from_jsonl(text), str(path))
    return path.read_bytes()


def seed_files(directory: Path) -> dict[str, list[bytes]]:
    """Good files by form, which is called by its suffix."""
    texts = [REGISTERS.lstrip(), LISTS.lstrip(), STATEMENTS.lstrip()]
    files = {
        suffix: [packed(t, suffix, directory) for t in texts] for suffix in (".jsonl.gz", ".jsonl.zst", ".parquet")
    }
    foreign = {suffix: [(SAMPLES / name).read_bytes() for name in names] for suffix, (_, names) in FOREIGN.items()}
    return {".jsonl": texts, ".txt": [text.encode() for text in NOTATION], **files, **foreign, **BINARY}


def place(rng: random.Random, data: bytearray) -> tuple[int, int]:
    """A short span."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 1, 2, 4, 16, 64)))


def flip(rng: random.Random, data: bytearray, _: bytes) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def change(rng: random.Random, data: bytearray, _: bytes) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(b'0123456789"\\{}[]:,.-+eE \n\r\t_!@=#|xrwa\x00\x1f\x7f\x80\xff')


def delete(rng: random.Random, data: bytearray, _: bytes) -> None:
    start, end = place(rng, data)
    del data[start:end]


def insert(rng: random.Random, data: bytearray, _: bytes) -> None:
    start, _end = place(rng, data)
    data[start:start] = rng.choice(TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.randint(1, 4))


def duplicate(rng: random.Random, data: bytearray, _: bytes) -> None:
    start, end = place(rng, data)
    data[start:start] = data[start:end] * rng.choice((1, 1, 2, 50))


def truncate(rng: random.Random, data: bytearray, _: bytes) -> None:
    del data[rng.randrange(len(data) + 1) :]


def splice(rng: random.Random, data: bytearray, other: bytes) -> None:
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]


TOKENS = (
    b"9" * 30,
    b"9" * 5000,
    b"1e9999",
    b"1e99999999999999999999",
    b"-0.0",
    b"[" * 300,
    b'{"a":' * 300,
    b"null",
    b"true",
    b"NaN",
    b'"\\ud800"',
    b'"\\n"',
    b"\r",
    b"\n",
    b'"id":1,',
    b'"ops":[],',
    b'"isolde":"history",',
    b'{"versions":["x",[1]]}\n',
    b"\xef\xbb\xbf",
    b"\xc3",
    b"\xed\xa0\x80",
    b"@1..2",
    b"!abort",
    b"[r(x,1)]",
    b"[[:append :x 9]]",
    b":process 0",
    b"#_",
    b"#{1}",
    b"{:type :ok}",
    b"----",
    b"====\n",
    b"w(0,1,1,-1)\n",
    b"18446744073709551615",
    b"\xff" * 8,
    b"x==?",
    b'"log":[],',
    b" log=[] ",
    b'["k",[]],',
    b'["a","l",2],',
    b"w(0,0,1,1)\n",
    b":f :cas, ",
    b":type :fail, ",
)
MUTATIONS: tuple[Callable[[random.Random, bytearray, bytes], None], ...] = (
    flip,
    flip,
    change,
    change,
    delete,
    insert,
    duplicate,
    truncate,
    splice,
)


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(MUTATIONS)(rng, data, rng.choice(seeds))
    return bytes(data)


def read_bytes(data: bytes, suffix: str, directory: Path) -> tuple[Columns, str]:
    """The helper that touches the reader: what it read, and the file's name that messages must give."""
    path = directory / f"input{suffix}"
    if suffix == ".cobra":
        path.mkdir(exist_ok=True)
        (path / "T1.log").write_bytes(data)
        return read(str(path)), str(path)
    if suffix in FOREIGN:
        path.write_bytes(data)
        # Half of them are told by content, which damage may change.
        return read(str(path), FOREIGN[suffix][0] if len(data) % 2 else None), str(path)
    if suffix in (".parquet", ".txt"):
        path.write_bytes(data)
        return read(str(path)), str(path)
    return Columns.from_jsonl(data, str(path)), str(path)


def fault(data: bytes, suffix: str, directory: Path) -> str | None:
    """What the reader did that it must not do; ``None`` when all is well. ``""`` stands for a proper refusal."""
    try:
        columns, _ = read_bytes(data, suffix, directory)
    except IsoldeError as error:
        text = str(error)
        if "the core failed" in text:
            return f"panic: {text}"
        if not text.startswith(str(directory / f"input{suffix}")):
            return f"the file is not named: {text}"
        if "\n" in text or "\r" in text:
            return f"more than one line: {text!r}"
        return ""
    except Exception as error:
        return f"{type(error).__name__} when reading: {error}"
    try:
        return unfaithful(columns, directory)
    except Exception as error:
        return f"{type(error).__name__} when writing what was read: {error}"


def unfaithful(columns: Columns, directory: Path) -> str | None:
    """What writing and reading again changed."""
    if (found := contradiction(decode(columns))) is not None:
        return found
    text = columns.to_jsonl()
    if Columns.from_jsonl(text).to_jsonl() != text:
        return "JSON Lines read back differently"
    path = str(directory / "again.parquet")
    write(columns, path)
    if (again := read(path).to_jsonl()) != text:
        return f"Parquet read back differently: {again!r} instead of {text!r}"
    if encode(decode(columns)).counts() != columns.counts():
        return "the nouns are another history"
    write(columns, str(directory / "again.txt"))
    for suffix, (name, _) in FOREIGN.items():
        path = str(directory / f"again{suffix}")
        shutil.rmtree(path, ignore_errors=True)
        try:
            write(columns, path)
        except IsoldeError as refusal:
            if "cannot be written as" not in str(refusal):
                return f"refused without a reason: {refusal}"
            continue
        counts = read(path, name).counts()
        if counts.committed != columns.counts().committed and suffix not in (".plume", ".awdit"):
            return f"{name} read back differently"
    return None


def contradiction(history: History) -> str | None:
    """What no history may be, whatever file it came from: of two kinds of keys, or with names that are no names."""
    names = [t.id for t in history.transactions] + [t.session for t in history.transactions] + list(history.initial)
    kinds = {isinstance(value, tuple) for value in history.initial.values() if value is not None}
    for op in (op for t in history.transactions for op in t.ops):
        match op:
            case Scan(_) | Sql(_):
                continue
            case Append():
                kinds.add(True)
            case Read(_, None):
                pass
            case Read(_, value):
                kinds.add(isinstance(value, tuple))
            case _:
                kinds.add(False)
        names.append(op.key)
    if len(kinds) > 1:
        return "lists and registers in one history"
    if any(isinstance(name, bool) or not isinstance(name, int | str) for name in names):
        return f"a name that is none: {names}"
    return None


@dataclass
class Tally:
    """How many inputs were read, how many refused, and what went wrong."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.ends += other.ends
        self.faults += other.faults


def fuzz(batch: int, count: int) -> Tally:
    rng = random.Random(f"fuzz-{batch}")
    tally = Tally()
    with TemporaryDirectory() as name:
        directory = Path(name)
        seeds = seed_files(directory)
        for _ in range(count):
            suffix = rng.choice(tuple(seeds))
            data = mutated(rng, seeds[suffix])
            found = fault(data, suffix, directory)
            tally.ends[f"{suffix} {'refused' if found == '' else 'read'}"] += 1
            if found:
                tally.faults.append(f"{suffix}: {found.replace(name, '')[:300]}\n  {data[:1000]!r}")
    return tally


def assert_no_fault(inputs: int) -> None:
    tally = Tally()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for job in [pool.submit(fuzz, batch, inputs // BATCHES) for batch in range(BATCHES)]:
            tally.add(job.result())
    assert not tally.faults, f"{len(tally.faults)} of {inputs} inputs, such as\n" + "\n".join(sorted(tally.faults)[:12])
    for suffix in SUFFIXES:
        assert tally.ends[f"{suffix} refused"] > inputs // 200, tally.ends
    for suffix in (".jsonl", ".txt", ".edn", ".hist", ".plume", ".awdit"):
        assert tally.ends[f"{suffix} read"] > inputs // 200, tally.ends


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_files_that_are_damaged_are_good_ones(suffix: str, tmp_path: Path) -> None:
    for data in seed_files(tmp_path)[suffix]:
        assert fault(data, suffix, tmp_path) is None


def test_4000_damaged_files_are_read_or_refused_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert_no_fault(INPUTS)
    assert capfd.readouterr().err == "", "something was printed besides the message: a panic, though it was caught"


@pytest.mark.long
def test_100000_damaged_files_are_read_or_refused_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert_no_fault(LONG_INPUTS)
    assert capfd.readouterr().err == "", "something was printed besides the message: a panic, though it was caught"
