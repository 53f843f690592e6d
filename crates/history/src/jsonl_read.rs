//! JSON Lines to histories.
//!
//! The input is cut into blocks at line ends; worker threads turn blocks into small histories of their
//! own, and these are appended in order. A block therefore needs to know only its first line's number.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};
use memchr::{memchr, memchr_iter, memrchr};
use rustc_hash::FxHashSet;

use crate::error::{Error, Malformed, Result};
use crate::history::{Cas, Extra, History, NO_TIME, Op, Space, Status};
use crate::value::Value;

const BLOCK_BYTES: usize = 2 << 20;
const SNIPPET_CHARS: usize = 60;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole history from plain JSON Lines on `threads` threads. `keep_on` is asked between blocks.
pub fn read_jsonl(mut input: impl Read, threads: usize, mut keep_on: impl FnMut() -> bool) -> Result<History> {
    let mut history = History::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let (send_job, jobs): (SyncSender<Block>, Receiver<Block>) = sync_channel(1);
                let (send_part, parts) = sync_channel(1);
                scope.spawn(move || {
                    for block in jobs {
                        if send_part.send(read_block(&block)).is_err() {
                            return;
                        }
                    }
                });
                (send_job, parts)
            })
            .collect();
        let mut sent = 0;
        let mut taken = 0;
        let take = |history: &mut History, taken: &mut usize| -> Result<()> {
            let (_, parts) = &workers[*taken % workers.len()];
            *taken += 1;
            let part = parts.recv().expect("a worker answers every block");
            match part {
                Ok(part) => history.append(part),
                Err(mut wrong) => {
                    wrong.transactions_before += history.len() as u64;
                    Err(finish_truncated(wrong).into())
                }
            }
        };
        let mut blocks = Blocks::new(&mut input);
        loop {
            if !keep_on() {
                return Err(Error::Interrupted);
            }
            let block = match blocks.next() {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(error) => {
                    // What was cut off counts for the message: everything before it was read.
                    while taken < sent {
                        take(&mut history, &mut taken)?;
                    }
                    return Err(broken_stream(error, &history, blocks.line));
                }
            };
            workers[sent % workers.len()].0.send(block).expect("a worker lives as long as its channel");
            sent += 1;
            if sent - taken > workers.len() {
                take(&mut history, &mut taken)?;
            }
        }
        while taken < sent {
            take(&mut history, &mut taken)?;
        }
        Ok(())
    })?;
    history.finish()?;
    Ok(history)
}

/// Reads a whole history from JSON Lines in memory.
pub fn read_jsonl_bytes(text: &[u8]) -> Result<History> {
    read_jsonl(text, 1, || true)
}

/// Reads one value from its JSON text into the tables of `history`.
pub(crate) fn read_value(history: &mut History, json: &str) -> Result<Value> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let value = line.peek().and_then(|peek| line.value(history, peek, || "value".into()));
    value.and_then(|value| line.finish().map(|()| value)).map_err(|wrong| (*wrong).into())
}

/// Reads one operation from its JSON text into the tables of `history`, without adding it.
pub(crate) fn read_op(history: &mut History, json: &str) -> Result<Op> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let op = line.peek().and_then(|peek| line.op(history, peek, 0));
    op.and_then(|op| line.finish().map(|()| op)).map_err(|wrong| (*wrong).into())
}

/// Reads what few transactions have from the JSON object of those fields.
pub(crate) fn read_extra(history: &mut History, json: &str) -> Result<Extra> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let draft = line.peek().and_then(|peek| match peek {
        Peek::Object => line.fields(history),
        _ => Err(line.wrong(peek, "extra", "a JSON object")),
    });
    match draft {
        Ok(Some(draft)) => Ok(draft.extra),
        Ok(None) => Ok(Extra::default()),
        Err(wrong) => Err((*wrong).into()),
    }
}

fn broken_stream(error: std::io::Error, history: &History, line: u64) -> Error {
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if !matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof) {
        return Error::Io(error);
    }
    Error::Malformed(Malformed {
        line,
        field: String::new(),
        found: format!("the compressed data breaks off or is damaged here ({error})"),
        expected: format!("a complete file; {} transactions came before it", history.len()),
        transactions_before: history.len() as u64,
    })
}

const TRUNCATED: &str = "a truncated last line";

fn finish_truncated(mut wrong: Malformed) -> Malformed {
    if wrong.found == TRUNCATED {
        let count = wrong.transactions_before;
        wrong.expected =
            format!("a complete JSON object; {count} transactions came before it (delete this line to keep them)");
    }
    wrong
}

struct Block {
    text: Vec<u8>,
    first_line: u64,
}

struct Blocks<R> {
    input: R,
    rest: Vec<u8>,
    line: u64,
    started: bool,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    fn new(input: R) -> Self {
        Blocks { input, rest: Vec::new(), line: 1, started: false, ended: false }
    }

    /// The next block. It ends with a line end unless it is the last one.
    fn next(&mut self) -> std::io::Result<Option<Block>> {
        let mut text = std::mem::take(&mut self.rest);
        let mut seen = 0;
        let cut = loop {
            if self.ended {
                break text.len();
            }
            let wanted = BLOCK_BYTES.max(text.len());
            text.reserve(wanted);
            let got = (&mut self.input).take(wanted as u64).read_to_end(&mut text)?;
            self.ended = got < wanted;
            if !self.started {
                self.started = true;
                if text.starts_with(BYTE_ORDER_MARK) {
                    text.drain(..BYTE_ORDER_MARK.len());
                }
            }
            if !self.ended
                && let Some(at) = memrchr(b'\n', &text[seen..])
            {
                break seen + at + 1;
            }
            seen = text.len();
        };
        self.rest = text.split_off(cut);
        if text.is_empty() {
            return Ok(None);
        }
        let first_line = self.line;
        self.line += memchr_iter(b'\n', &text).count() as u64;
        Ok(Some(Block { text, first_line }))
    }
}

type Parsed<T> = std::result::Result<T, Malformed>;

fn read_block(block: &Block) -> Parsed<History> {
    let mut history = History::default();
    let mut rest = &block.text[..];
    let mut line = block.first_line;
    while !rest.is_empty() {
        let (text, complete) = match memchr(b'\n', rest) {
            Some(at) => {
                let text = &rest[..at];
                rest = &rest[at + 1..];
                (text, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        if !text.iter().all(u8::is_ascii_whitespace) {
            let before = history.len() as u64;
            Line::new(text, line, complete)
                .read(&mut history)
                .map_err(|wrong| Malformed { transactions_before: before, ..*wrong })?;
        }
        line += 1;
    }
    Ok(history)
}

/// One line being read.
struct Line<'j> {
    json: Jiter<'j>,
    text: &'j [u8],
    number: u64,
    complete: bool,
}

/// Boxed, so that the happy path moves a pointer only.
type Step<T> = std::result::Result<T, Box<Malformed>>;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Field {
    Id = 1,
    Session = 2,
    Status = 4,
    Start = 8,
    End = 16,
    Ops = 32,
    Serial = 64,
    Snapshot = 128,
    Isolde = 256,
    Version = 512,
    Initial = 1024,
    Meta = 2048,
    Versions = 4096,
    Other = 0,
}

const FIELDS: [(&str, Field); 13] = [
    ("id", Field::Id),
    ("session", Field::Session),
    ("status", Field::Status),
    ("start", Field::Start),
    ("end", Field::End),
    ("ops", Field::Ops),
    ("serial", Field::Serial),
    ("snapshot", Field::Snapshot),
    ("isolde", Field::Isolde),
    ("version", Field::Version),
    ("initial", Field::Initial),
    ("meta", Field::Meta),
    ("versions", Field::Versions),
];

fn field_of(name: &str) -> Field {
    FIELDS.iter().find(|(known, _)| *known == name).map_or(Field::Other, |(_, field)| *field)
}

/// What a transaction line has said so far.
struct Draft {
    id: Value,
    session: Option<u32>,
    status: Status,
    start: i64,
    end: i64,
    extra: Extra,
    seen: u16,
}

impl<'j> Line<'j> {
    fn new(text: &'j [u8], number: u64, complete: bool) -> Self {
        Line { json: Jiter::new(text), text, number, complete }
    }

    fn read(mut self, history: &mut History) -> Step<()> {
        let peek = self.peek()?;
        if peek != Peek::Object {
            return Err(self.wrong(peek, "", "a JSON object: a transaction, a header or a versions line"));
        }
        match self.fields(history)? {
            Some(draft) => self.close(history, draft),
            None => Ok(()),
        }
    }

    /// Reads a line's object: a transaction is handed back, a header or a versions line is done with.
    fn fields(&mut self, history: &mut History) -> Step<Option<Draft>> {
        let mut draft = Draft {
            id: Value::MISSING,
            session: None,
            status: Status::Committed,
            start: NO_TIME,
            end: NO_TIME,
            extra: Extra::default(),
            seen: 0,
        };
        let first = self.json.known_object().map(|name| name.map(name_of));
        let mut name = first.map_err(|e| self.broken(&e))?;
        // The kind of a line shows in its first field.
        match &name {
            Some((Field::Isolde | Field::Initial | Field::Meta | Field::Version, _)) => {
                return self.read_header(history, name).map(|()| None);
            }
            Some((Field::Versions, _)) => return self.read_versions(history).map(|()| None),
            _ => {}
        }
        while let Some((field, other)) = name {
            if draft.seen & field as u16 != 0 {
                return Err(self.twice(field));
            }
            draft.seen |= field as u16;
            let peek = self.peek()?;
            match field {
                Field::Id => draft.id = self.name(history, peek, || "id".into())?,
                Field::Session => {
                    let session = self.name(history, peek, || "session".into())?;
                    draft.session = Some(history.sessions.number(session));
                }
                Field::Status => draft.status = self.status(peek)?,
                Field::Start => draft.start = self.time(peek, "start")?,
                Field::End => draft.end = self.time(peek, "end")?,
                Field::Ops => self.ops(history, peek)?,
                Field::Serial => draft.extra.serial = Some(self.serial(history, peek)?),
                Field::Snapshot => draft.extra.snapshot = Some(self.raw(peek, "snapshot")?.into()),
                Field::Isolde | Field::Version | Field::Initial | Field::Meta | Field::Versions => {
                    return Err(self.whole(
                        "a field of a header or a versions line stands among those of a transaction".into(),
                        "such a line to start with that field".into(),
                    ));
                }
                Field::Other => {
                    let raw = self.raw(peek, &other)?;
                    draft.extra.fields = with_field(&draft.extra.fields, &other, raw);
                }
            }
            let next = self.json.next_key().map(|name| name.map(name_of));
            name = next.map_err(|e| self.broken(&e))?;
        }
        self.finish()?;
        Ok(Some(draft))
    }

    fn close(&self, history: &mut History, draft: Draft) -> Step<()> {
        if draft.seen & Field::Ops as u16 == 0 {
            return Err(self.whole("no field \"ops\"".into(), "the list of the transaction's operations".into()));
        }
        let Some(session) = draft.session else {
            return Err(self.whole("no field \"session\"".into(), "the session's name, a string or an integer".into()));
        };
        if draft.start != NO_TIME && draft.end != NO_TIME && draft.end < draft.start {
            return Err(self.fault(
                "end",
                draft.end.to_string(),
                format!("a time not before \"start\" ({})", draft.start),
            ));
        }
        let extra = draft.extra;
        if extra.serial.is_some() || extra.snapshot.is_some() || !extra.fields.is_empty() {
            history.extras.push((history.len() as u32, extra));
        }
        history.push_txn(draft.id, session, draft.status, draft.start, draft.end, self.number);
        Ok(())
    }

    fn read_header(&mut self, history: &mut History, first: Option<(Field, String)>) -> Step<()> {
        if self.number != 1 {
            return Err(
                self.whole("a header line in the middle of the file".into(), "the header only on line 1".into())
            );
        }
        let mut seen = 0u16;
        let mut name = first;
        while let Some((field, other)) = name {
            if seen & field as u16 != 0 {
                return Err(self.twice(field));
            }
            seen |= field as u16;
            let peek = self.peek()?;
            match field {
                Field::Isolde => {
                    let raw = self.raw(peek, "isolde")?;
                    if raw != "\"history\"" {
                        return Err(self.fault("isolde", snippet(raw), "\"history\"".into()));
                    }
                }
                Field::Version => {
                    let raw = self.raw(peek, "version")?;
                    if raw != "1" {
                        return Err(self.fault(
                            "version",
                            snippet(raw),
                            "1, the only version that this program reads".into(),
                        ));
                    }
                }
                Field::Initial => self.initial(history, peek)?,
                Field::Meta => history.header.meta = Some(self.raw(peek, "meta")?.into()),
                _ => {
                    let raw = self.raw(peek, &other)?;
                    history.header.fields = with_field(&history.header.fields, &other, raw);
                }
            }
            let next = self.json.next_key().map(|name| name.map(name_of));
            name = next.map_err(|e| self.broken(&e))?;
        }
        if seen & Field::Isolde as u16 == 0 {
            return Err(self
                .whole("a header without \"isolde\"".into(), "{\"isolde\": \"history\", \"version\": 1, ...}".into()));
        }
        self.finish()
    }

    fn initial(&mut self, history: &mut History, peek: Peek) -> Step<()> {
        const EXPECTED: &str = "an object from key to value, or an array of [key, value] pairs";
        let mut listed = FxHashSet::default();
        match peek {
            Peek::Object => {
                history.header.spelled = true;
                let first = self.json.known_object().map(|name| name.map(str::to_owned));
                let mut name = first.map_err(|e| self.broken(&e))?;
                while let Some(key) = name {
                    let peek = self.peek()?;
                    let value = self.value(history, peek, || format!("initial.{key}"))?;
                    let key = history.atoms.text(&key);
                    self.add_initial(history, &mut listed, key, value)?;
                    let next = self.json.next_key().map(|name| name.map(str::to_owned));
                    name = next.map_err(|e| self.broken(&e))?;
                }
            }
            Peek::Array => {
                let first = self.json.known_array();
                let mut item = first.map_err(|e| self.broken(&e))?;
                while let Some(peek) = item {
                    if peek != Peek::Array {
                        return Err(self.wrong(peek, "initial", EXPECTED));
                    }
                    let pair = self.json.known_array();
                    let Some(peek) = pair.map_err(|e| self.broken(&e))? else {
                        return Err(self.fault("initial", "an empty pair".into(), EXPECTED.into()));
                    };
                    let key = self.name(history, peek, || "initial".into())?;
                    let Some(peek) = self.step()? else {
                        return Err(self.fault("initial", "a pair without a value".into(), EXPECTED.into()));
                    };
                    let value = self.value(history, peek, || "initial".into())?;
                    if let Some(peek) = self.step()? {
                        return Err(self.wrong(peek, "initial", "the end of the pair"));
                    }
                    self.add_initial(history, &mut listed, key, value)?;
                    item = self.step()?;
                }
            }
            _ => return Err(self.wrong(peek, "initial", EXPECTED)),
        }
        Ok(())
    }

    fn add_initial(&self, history: &mut History, listed: &mut FxHashSet<Value>, key: Value, value: Value) -> Step<()> {
        if !listed.insert(key) {
            return Err(self.fault("initial", format!("{} twice", history.json(key)), "each key once".into()));
        }
        history.header.initial.push((key, value));
        Ok(())
    }

    fn read_versions(&mut self, history: &mut History) -> Step<()> {
        const EXPECTED: &str = "[key, [oldest value, ..., newest value]]";
        let peek = self.peek()?;
        if peek != Peek::Array {
            return Err(self.wrong(peek, "versions", EXPECTED));
        }
        let first = self.json.known_array();
        let Some(peek) = first.map_err(|e| self.broken(&e))? else {
            return Err(self.fault("versions", "[]".into(), EXPECTED.into()));
        };
        let key = self.name(history, peek, || "versions[0]".into())?;
        let Some(peek) = self.step()? else {
            return Err(self.fault("versions", "a key alone".into(), EXPECTED.into()));
        };
        if peek != Peek::Array {
            return Err(self.wrong(peek, "versions[1]", "an array of values, oldest first"));
        }
        let mut values = Vec::new();
        let first = self.json.known_array();
        let mut item = first.map_err(|e| self.broken(&e))?;
        while let Some(peek) = item {
            let at = values.len();
            values.push(self.scalar(history, peek, || format!("versions[1][{at}]"))?);
            item = self.step()?;
        }
        if let Some(peek) = self.step()? {
            return Err(self.wrong(peek, "versions", EXPECTED));
        }
        let next = self.json.next_key().map(|name| name.map(str::to_owned));
        if let Some(name) = next.map_err(|e| self.broken(&e))? {
            return Err(self.whole(format!("the field {name:?} on a versions line"), "nothing but \"versions\"".into()));
        }
        self.finish()?;
        let key = history.keys.number(key);
        history.versions.push((key, values));
        Ok(())
    }

    fn status(&mut self, peek: Peek) -> Step<Status> {
        const EXPECTED: &str = "\"committed\", \"aborted\" or \"unknown\"";
        if peek != Peek::String {
            return Err(self.wrong(peek, "status", EXPECTED));
        }
        let read = self.json.known_str().map(|text| match text {
            "committed" => Ok(Status::Committed),
            "aborted" => Ok(Status::Aborted),
            "unknown" => Ok(Status::Unknown),
            other => Err(snippet(&format!("{other:?}"))),
        });
        match read.map_err(|e| self.broken(&e))? {
            Ok(status) => Ok(status),
            Err(found) => Err(self.fault("status", found, EXPECTED.into())),
        }
    }

    fn time(&mut self, peek: Peek, field: &str) -> Step<i64> {
        const EXPECTED: &str = "an integer on the run's clock, between -2^63 and 2^63 (exclusive)";
        if !peek.is_num() {
            return Err(self.wrong(peek, field, EXPECTED));
        }
        let raw = self.number_text(peek)?;
        match raw.parse::<i64>() {
            Ok(time) if time != NO_TIME => Ok(time),
            _ => Err(self.fault(field, snippet(raw), EXPECTED.into())),
        }
    }

    fn serial(&mut self, history: &mut History, peek: Peek) -> Step<Value> {
        if !peek.is_num() {
            return Err(self.wrong(peek, "serial", "a number: the place in the serialization order"));
        }
        self.scalar(history, peek, || "serial".into())
    }

    /// A key, a session or an id.
    #[inline]
    fn name(&mut self, history: &mut History, peek: Peek, field: impl Fn() -> String) -> Step<Value> {
        const EXPECTED: &str = "a string or an integer";
        if peek == Peek::String {
            let read = self.json.known_str().map(|text| history.atoms.text(text));
            return read.map_err(|e| self.broken(&e));
        }
        if !peek.is_num() {
            return Err(self.wrong(peek, &field(), EXPECTED));
        }
        let raw = self.number_text(peek)?;
        if !raw.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return Err(self.fault(&field(), snippet(raw), EXPECTED.into()));
        }
        match history.atoms.number(raw.as_bytes()) {
            Ok(name) => Ok(name),
            Err(_) => Err(self.fault(&field(), snippet(raw), EXPECTED.into())),
        }
    }

    /// The text of a number, exactly as written.
    #[inline]
    fn number_text(&mut self, peek: Peek) -> Step<&'j str> {
        let start = self.json.current_index();
        if let Err(e) = self.json.known_number_bytes(peek) {
            return Err(self.broken(&e));
        }
        let raw = self.json.slice_to_current(start);
        std::str::from_utf8(raw).map_err(|_| self.whole("bytes that are not UTF-8".into(), "UTF-8".into()))
    }

    #[inline]
    fn scalar(&mut self, history: &mut History, peek: Peek, field: impl Fn() -> String) -> Step<Value> {
        const EXPECTED: &str = "null, an integer, a string, a boolean or a finite decimal";
        if peek.is_num() {
            let raw = self.number_text(peek)?;
            return match history.atoms.number(raw.as_bytes()) {
                Ok(value) => Ok(value),
                Err(_) => Err(self.fault(
                    &field(),
                    snippet(raw),
                    "a finite decimal of at most 1,000 digits and an exponent within 9,999".into(),
                )),
            };
        }
        match peek {
            Peek::String => {
                let read = self.json.known_str().map(|text| history.atoms.text(text));
                read.map_err(|e| self.broken(&e))
            }
            Peek::Null => {
                let read = self.json.known_null().map(|()| Value::NULL);
                read.map_err(|e| self.broken(&e))
            }
            Peek::True | Peek::False => {
                let read = self.json.known_bool(peek).map(Value::bool);
                read.map_err(|e| self.broken(&e))
            }
            _ => Err(self.wrong(peek, &field(), EXPECTED)),
        }
    }

    /// A scalar or a list of scalars.
    #[inline]
    fn value(&mut self, history: &mut History, peek: Peek, field: impl Fn() -> String) -> Step<Value> {
        if peek != Peek::Array {
            return self.scalar(history, peek, field);
        }
        let list = history.lists.start();
        let first = self.json.known_array();
        let mut item = first.map_err(|e| self.broken(&e))?;
        let mut at = 0;
        while let Some(peek) = item {
            let element = self.scalar(history, peek, || format!("{}[{at}]", field()))?;
            history.lists.push(element);
            at += 1;
            item = self.step()?;
        }
        Ok(list)
    }

    fn ops(&mut self, history: &mut History, peek: Peek) -> Step<()> {
        if peek != Peek::Array {
            return Err(self.wrong(peek, "ops", "an array of operations"));
        }
        let first = self.json.known_array();
        let mut item = first.map_err(|e| self.broken(&e))?;
        let mut at = 0;
        while let Some(peek) = item {
            let op = self.op(history, peek, at)?;
            history.push_op(op);
            at += 1;
            item = self.step()?;
        }
        Ok(())
    }

    fn op(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Op> {
        match peek {
            Peek::Array => self.keyed_op(history, at),
            Peek::Object => self.statement(history, peek, at),
            _ => {
                let field = format!("ops[{at}]");
                Err(self.wrong(peek, &field, "an operation: an array such as [\"r\", \"x\", 1], or an object"))
            }
        }
    }

    fn keyed_op(&mut self, history: &mut History, at: usize) -> Step<Op> {
        const EXPECTED: &str = "\"r\", \"w\", \"a\" or \"cas\"";
        let place = |part: usize| format!("ops[{at}][{part}]");
        let first = self.json.known_array();
        let Some(peek) = first.map_err(|e| self.broken(&e))? else {
            return Err(self.fault(
                &format!("ops[{at}]"),
                "[]".into(),
                "an operation such as [\"r\", \"x\", 1]".into(),
            ));
        };
        if peek != Peek::String {
            return Err(self.wrong(peek, &place(0), EXPECTED));
        }
        #[derive(Clone, Copy)]
        enum Name {
            Read,
            Write,
            Append,
            Cas,
        }
        let read = self.json.known_str().map(|text| match text {
            "r" => Ok(Name::Read),
            "w" => Ok(Name::Write),
            "a" => Ok(Name::Append),
            "cas" => Ok(Name::Cas),
            other => Err(snippet(&format!("{other:?}"))),
        });
        let name = match read.map_err(|e| self.broken(&e))? {
            Ok(name) => name,
            Err(found) => return Err(self.fault(&place(0), found, EXPECTED.into())),
        };
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the key"));
        };
        let key = self.name(history, peek, || place(1))?;
        let key = history.keys.number(key);
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the value"));
        };
        let (op, space) = match name {
            Name::Read => {
                let value = self.value(history, peek, || place(2))?;
                let space = if value.is_list() {
                    Some(Space::Lists)
                } else {
                    (value != Value::NULL).then_some(Space::Registers)
                };
                (Op::Read(key, value), space)
            }
            Name::Write => (Op::Write(key, self.scalar(history, peek, || place(2))?), Some(Space::Registers)),
            Name::Append => (Op::Append(key, self.scalar(history, peek, || place(2))?), Some(Space::Lists)),
            Name::Cas => (Op::Cas(key, self.cas(history, peek, at)?), Some(Space::Registers)),
        };
        if let Some(peek) = self.step()? {
            return Err(self.wrong(peek, &format!("ops[{at}]"), "the end of the operation"));
        }
        if let Some(space) = space {
            history.note_space(space, self.number, || format!("ops[{at}]"));
        }
        Ok(op)
    }

    fn cas(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Cas> {
        let place = |part: usize| format!("ops[{at}][{part}]");
        let expected = self.scalar(history, peek, || place(2))?;
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the new value"));
        };
        let new = self.scalar(history, peek, || place(3))?;
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "whether it was applied"));
        };
        if !matches!(peek, Peek::True | Peek::False) {
            return Err(self.wrong(peek, &place(4), "true or false: whether it was applied"));
        }
        let read = self.json.known_bool(peek);
        let applied = read.map_err(|e| self.broken(&e))?;
        let mut current = Value::MISSING;
        // The look-ahead is taken back by hand: the caller asks for the end of the array itself.
        if !applied && self.next_is_comma() {
            let Some(peek) = self.step()? else {
                return Err(self.missing(at, "the current value"));
            };
            current = self.scalar(history, peek, || place(5))?;
            if current == expected {
                return Err(self.fault(
                    &place(5),
                    history.json(current),
                    "a current value that differs from the expected one, since the operation failed".into(),
                ));
            }
        }
        Ok(Cas { expected, new, current, applied })
    }

    fn next_is_comma(&self) -> bool {
        let rest = &self.text[self.json.current_index()..];
        rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b',')
    }

    /// A scan or an SQL statement: the fields are checked, the JSON text is kept.
    fn statement(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Op> {
        let raw = self.raw(peek, "ops")?;
        let place = format!("ops[{at}]");
        let mut inner = Line::new(raw.as_bytes(), self.number, true);
        let kind = inner.statement_fields(&place)?;
        let detail = history.details.len() as u32;
        history.details.push(raw.into());
        Ok(match kind {
            StatementKind::Scan => Op::Scan(detail),
            StatementKind::Sql => {
                history.note_space(Space::Sql, self.number, || place);
                Op::Sql(detail)
            }
        })
    }

    fn statement_fields(&mut self, place: &str) -> Step<StatementKind> {
        let mut kind = None;
        let mut has_rows = false;
        let first = self.json.next_object().map(|name| name.map(str::to_owned));
        let mut name = first.map_err(|e| self.broken(&e))?;
        while let Some(field) = name {
            let peek = self.peek()?;
            let path = format!("{place}.{field}");
            let (fits, expected) = match field.as_str() {
                "scan" => {
                    kind = Some(StatementKind::Scan);
                    (peek == Peek::Object, "an object that says what was asked")
                }
                "sql" => {
                    kind = Some(StatementKind::Sql);
                    (peek == Peek::String, "the statement's text")
                }
                "params" => {
                    (matches!(peek, Peek::Array | Peek::Object | Peek::Null), "an array or object of parameters")
                }
                "rows" => {
                    has_rows = true;
                    (matches!(peek, Peek::Array | Peek::Null), "an array of rows, or null")
                }
                "count" => (peek.is_num() || peek == Peek::Null, "the number of affected rows, or null"),
                _ => (true, ""),
            };
            if !fits {
                return Err(self.wrong(peek, &path, expected));
            }
            self.raw(peek, &path)?;
            let next = self.json.next_key().map(|name| name.map(str::to_owned));
            name = next.map_err(|e| self.broken(&e))?;
        }
        match kind {
            None => Err(self.fault(
                place,
                "an object without \"scan\" or \"sql\"".into(),
                "a scan or an SQL statement".into(),
            )),
            Some(StatementKind::Scan) if !has_rows => {
                Err(self.fault(place, "a scan without \"rows\"".into(), "the rows that came back".into()))
            }
            Some(kind) => Ok(kind),
        }
    }

    /// The text of the next value, checked to be JSON and UTF-8.
    fn raw(&mut self, peek: Peek, field: &str) -> Step<&'j str> {
        let start = self.json.current_index();
        if let Err(e) = self.json.known_skip(peek) {
            return Err(self.broken(&e));
        }
        let raw = self.json.slice_to_current(start);
        std::str::from_utf8(raw).map_err(|_| self.fault(field, "bytes that are not UTF-8".into(), "UTF-8".into()))
    }

    fn peek(&mut self) -> Step<Peek> {
        let peek = self.json.peek();
        peek.map_err(|e| self.broken(&e))
    }

    #[inline]
    fn step(&mut self) -> Step<Option<Peek>> {
        let step = self.json.array_step();
        step.map_err(|e| self.broken(&e))
    }

    fn finish(&mut self) -> Step<()> {
        let finish = self.json.finish();
        finish.map_err(|e| self.broken(&e))
    }

    fn twice(&self, field: Field) -> Box<Malformed> {
        let name = FIELDS.iter().find(|(_, f)| *f == field).map_or("", |(name, _)| name);
        self.whole(format!("the field {name:?} appears twice"), "each field once".into())
    }

    fn missing(&self, at: usize, what: &str) -> Box<Malformed> {
        self.fault(&format!("ops[{at}]"), "an operation that ends early".into(), format!("{what} to follow"))
    }

    fn wrong(&mut self, peek: Peek, field: &str, expected: &str) -> Box<Malformed> {
        match self.raw(peek, field) {
            Ok(raw) => {
                let found = snippet(raw);
                self.fault(field, found, expected.to_owned())
            }
            Err(broken) => broken,
        }
    }

    fn whole(&self, found: String, expected: String) -> Box<Malformed> {
        self.fault("", found, expected)
    }

    fn fault(&self, field: &str, found: String, expected: String) -> Box<Malformed> {
        Box::new(Malformed { line: self.number, field: field.to_owned(), found, expected, transactions_before: 0 })
    }

    /// A line that is not JSON, or that ends too early.
    fn broken(&self, error: &JiterError) -> Box<Malformed> {
        use JsonErrorType::{EofWhileParsingList, EofWhileParsingObject, EofWhileParsingString, EofWhileParsingValue};
        let kind = &error.error_type;
        let cut = matches!(
            kind,
            JiterErrorType::JsonError(
                EofWhileParsingList | EofWhileParsingObject | EofWhileParsingString | EofWhileParsingValue
            )
        ) || error.index >= self.text.len();
        if cut && !self.complete {
            return self.whole(TRUNCATED.into(), String::new());
        }
        let column = error.index.min(self.text.len()) + 1;
        self.whole(format!("not valid JSON at column {column} ({kind})"), "one JSON object on the line".into())
    }
}

#[derive(Clone, Copy)]
enum StatementKind {
    Scan,
    Sql,
}

/// The field, and its name where that is not one of ours (so that the usual line allocates nothing).
fn name_of(name: &str) -> (Field, String) {
    match field_of(name) {
        Field::Other => (Field::Other, name.to_owned()),
        field => (field, String::new()),
    }
}

fn with_field(fields: &str, name: &str, raw: &str) -> Box<str> {
    let mut out = fields.as_bytes().to_vec();
    if !out.is_empty() {
        out.push(b',');
    }
    crate::json::write_text(&mut out, name);
    out.push(b':');
    out.extend_from_slice(raw.as_bytes());
    String::from_utf8(out).expect("JSON text is made of UTF-8 pieces").into()
}

fn snippet(raw: &str) -> String {
    let mut chars = raw.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut text: String = chars.by_ref().take(SNIPPET_CHARS).collect();
    if chars.next().is_some() {
        text.push('…');
    }
    text
}
