//! One line of a history: a transaction, a header or a versions line.
//!
//! A line is read in one pass over its bytes, straight into the columns. Whatever is wrong is reported with
//! the field, what stands there and what should.

mod header;
mod operations;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use crate::error::{Malformed, Result, one_line};
use crate::history::{Extra, History, NO_TIME, Op, Status};
use crate::value::Value;

const SNIPPET_CHARS: usize = 60;
/// What is found where the last line breaks off; the block reader completes the message.
pub(crate) const TRUNCATED: &str = "a truncated last line";

/// Reads one value from its JSON text into the tables of `history`.
pub(crate) fn read_value(history: &mut History, json: &str) -> Result<Value> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let value = line.peek().and_then(|peek| line.value(history, peek, || "value".into()));
    value.and_then(|value| line.finish().map(|()| value)).map_err(|wrong| (*wrong).into())
}

/// Reads a key, a session or an id from its JSON text into the tables of `history`.
pub(crate) fn read_name(history: &mut History, json: &str) -> Result<Value> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let name = line.peek().and_then(|peek| line.name(history, peek, String::new));
    name.and_then(|name| line.finish().map(|()| name)).map_err(|wrong| (*wrong).into())
}

/// Reads one operation from its JSON text into the tables of `history`, without adding it; `at` is its place for messages.
pub(crate) fn read_op(history: &mut History, json: &str, at: usize) -> Result<Op> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let op = line.peek().and_then(|peek| line.op(history, peek, at));
    op.and_then(|op| line.finish().map(|()| op)).map_err(|wrong| (*wrong).into())
}

/// Reads what few transactions have from the JSON object of those fields.
pub(crate) fn read_extra(history: &mut History, json: &str) -> Result<Extra> {
    let mut line = Line::new(json.as_bytes(), 0, true);
    let extra = line.peek().and_then(|peek| match peek {
        Peek::Object => line.extra(history),
        _ => Err(line.wrong(peek, "", "a JSON object")),
    });
    extra.map_err(|wrong| (*wrong).into())
}

/// One line being read.
pub(crate) struct Line<'j> {
    json: Jiter<'j>,
    text: &'j [u8],
    number: u64,
    complete: bool,
}

/// Boxed, so that the happy path moves a pointer only.
pub(crate) type Step<T> = std::result::Result<T, Box<Malformed>>;

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
    pub(crate) fn new(text: &'j [u8], number: u64, complete: bool) -> Self {
        Line { json: Jiter::new(text), text, number, complete }
    }

    pub(crate) fn read(mut self, history: &mut History) -> Step<()> {
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
        let mut fields = Vec::new();
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
                    add_field(&mut fields, &other, raw);
                }
            }
            let next = self.json.next_key().map(|name| name.map(name_of));
            name = next.map_err(|e| self.broken(&e))?;
        }
        self.finish()?;
        draft.extra.fields = fields_text(fields);
        Ok(Some(draft))
    }

    /// Reads an object of what few transactions have, and of nothing that every transaction or the header has.
    fn extra(&mut self, history: &mut History) -> Step<Extra> {
        let mut extra = Extra::default();
        let mut seen = 0u16;
        let mut fields = Vec::new();
        let first = self.json.known_object().map(|name| name.map(name_of));
        let mut name = first.map_err(|e| self.broken(&e))?;
        while let Some((field, other)) = name {
            if seen & field as u16 != 0 {
                return Err(self.twice(field));
            }
            seen |= field as u16;
            let peek = self.peek()?;
            match field {
                Field::Serial => extra.serial = Some(self.serial(history, peek)?),
                Field::Snapshot => extra.snapshot = Some(self.raw(peek, "snapshot")?.into()),
                Field::Other => add_field(&mut fields, &other, self.raw(peek, &other)?),
                known => {
                    let name = field_name(known, "");
                    let expected = "only \"serial\", \"snapshot\" and unknown fields";
                    return Err(self.whole(format!("the field {name:?} stands among the extra ones"), expected.into()));
                }
            }
            let next = self.json.next_key().map(|name| name.map(name_of));
            name = next.map_err(|e| self.broken(&e))?;
        }
        self.finish()?;
        extra.fields = fields_text(fields);
        Ok(extra)
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
        let name = field_name(field, "");
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
        Box::new(Malformed { line: self.number, field: one_line(field), found, expected, transactions_before: 0 })
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

/// The field, and its name where that is not one of ours (so that the usual line allocates nothing).
fn name_of(name: &str) -> (Field, String) {
    match field_of(name) {
        Field::Other => (Field::Other, name.to_owned()),
        field => (field, String::new()),
    }
}

fn field_name(field: Field, other: &str) -> &str {
    FIELDS.iter().find(|(_, known)| *known == field).map_or(other, |(name, _)| name)
}

/// Adds a field of ours or of somebody else's to the inside of a JSON object.
fn add_field(fields: &mut Vec<u8>, name: &str, raw: &str) {
    if !fields.is_empty() {
        fields.push(b',');
    }
    crate::json::write_text(fields, name);
    fields.push(b':');
    fields.extend_from_slice(raw.as_bytes());
}

fn fields_text(fields: Vec<u8>) -> Box<str> {
    String::from_utf8(fields).expect("JSON text is made of UTF-8 pieces").into()
}

/// A text of the input, cut to a readable length.
pub(crate) fn snippet(raw: &str) -> String {
    let clean = one_line(raw);
    let mut chars = clean.chars();
    let mut text: String = chars.by_ref().take(SNIPPET_CHARS).collect();
    if chars.next().is_some() {
        text.push('…');
    }
    text
}
