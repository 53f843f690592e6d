//! Histories as operations of Jepsen: an invocation and a completion a transaction, in the order of their times.
//!
//! Without times only completions are written, because an order of invocations and completions would be one of real time.

use std::io::Write;

use super::Writing;
use super::elle::REGISTER;
use super::elle_fit::Fit;
use super::numbered::{TIMES_LEFT_OUT, has_times, integer, note_of_names, refusal};
use crate::error::Result;
use crate::history::{Cas, History, NO_TIME, Op, Status};
use crate::json::{write_int, write_text};
use crate::value::{Kind, Value};

/// How operations are spelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// A map a line.
    Edn,
    /// An array of objects.
    Json,
}

struct Event {
    time: i64,
    /// The place among what happens at the same time: see [`timed_events`].
    phase: u32,
    txn: u32,
    is_completion: bool,
}

struct Writer<'h> {
    history: &'h History,
    syntax: Syntax,
    initial: &'h [Value],
    /// Whether operations are single reads, writes and compare-and-sets.
    registers: bool,
    /// Whether there is only the register without a name.
    nameless: bool,
    /// Whether keys hold lists.
    lists: bool,
    processes: Vec<i64>,
}

pub(super) fn write_operations(
    history: &History,
    syntax: Syntax,
    writing: Writing,
    output: &mut dyn Write,
) -> Result<Vec<String>> {
    let fit = Fit::new(history, syntax.name(), writing);
    let registers = fit.registers;
    let mut notes = fit.notes()?;
    let nameless = match history.keys.all() {
        [key] => history.atoms.kind(*key) == Kind::Text(REGISTER),
        _ => false,
    };
    let processes = processes(history, &mut notes);
    let (initial, lists) = (history.initial_values(), history.has_lists());
    let writer = Writer { history, syntax, initial, registers, nameless, lists, processes };
    let events = match has_clock(history) {
        true => timed_events(history, syntax, registers, &mut notes)?,
        false => completions(history),
    };
    let timed = events.iter().any(|event| event.time != NO_TIME);
    if !timed && has_times(history) {
        let reason = "since some transactions have none, or all the same";
        notes.push(format!("{TIMES_LEFT_OUT}, {reason}"));
    }
    note_ids(history, &events, &mut notes);
    let mut block = Vec::new();
    for (index, event) in events.iter().enumerate() {
        match syntax {
            Syntax::Edn => {}
            Syntax::Json if index == 0 => block.extend_from_slice(b"[\n"),
            Syntax::Json => block.extend_from_slice(b",\n"),
        }
        writer.event(&mut block, index, event, timed);
        if syntax == Syntax::Edn {
            block.push(b'\n');
        }
        if block.len() >= 1 << 16 {
            output.write_all(&block)?;
            block.clear();
        }
    }
    if syntax == Syntax::Json {
        block.extend_from_slice(if events.is_empty() { b"[]\n" } else { b"\n]\n" });
    }
    output.write_all(&block)?;
    Ok(notes)
}

/// Whether all transactions have times, and not all the same: readers would take the places of operations instead.
fn has_clock(history: &History) -> bool {
    let times = || history.txns.start.iter().chain(&history.txns.end).filter(|&&time| time != NO_TIME);
    let complete = (0..history.len()).all(|txn| {
        let (start, end) = (history.txns.start[txn], history.txns.end[txn]);
        start != NO_TIME && (end != NO_TIME || history.txns.status[txn] == Status::Unknown)
    });
    complete && times().min() != times().max()
}

/// Says that ids are lost, unless they are the numbers that the operations get.
fn note_ids(history: &History, events: &[Event], notes: &mut Vec<String>) {
    let mut named = vec![false; history.len()];
    for (index, event) in events.iter().enumerate() {
        let is_first = !std::mem::replace(&mut named[event.txn as usize], true);
        if is_first && history.txns.id[event.txn as usize].as_small_int() != Some(index as i64) {
            notes.push("ids are left out: operations are numbered by their place".into());
            return;
        }
    }
}

/// The process of each transaction: its session's number, and a new one after each unknown outcome.
fn processes(history: &History, notes: &mut Vec<String>) -> Vec<i64> {
    let names = history.sessions.all();
    let (mut of_session, renamed) = super::numbered::numbers(history, names, false);
    if renamed {
        notes.push(note_of_names(history, "sessions", names, ""));
    }
    let mut next = of_session.iter().copied().max().unwrap_or(-1);
    let mut lost = vec![false; names.len()];
    let mut processes = Vec::with_capacity(history.len());
    for (&session, &status) in history.txns.session.iter().zip(&history.txns.status) {
        let session = session as usize;
        if lost[session] {
            next = next.saturating_add(1);
            of_session[session] = next;
        }
        lost[session] = status == Status::Unknown;
        processes.push(of_session[session]);
    }
    processes
}

/// Invocations and completions by time. What touches is concurrent, so at one time invocations come first, unless their
/// process has something to complete at that very time.
fn timed_events(history: &History, syntax: Syntax, registers: bool, notes: &mut Vec<String>) -> Result<Vec<Event>> {
    let latest = history.txns.start.iter().chain(&history.txns.end).copied().max().unwrap_or(NO_TIME);
    let mut events = Vec::with_capacity(history.len() * 2);
    let mut last: Vec<Option<(i64, u32)>> = vec![None; history.sessions.len()];
    for txn in 0..history.len() as u32 {
        let row = txn as usize;
        let (start, end) = (history.txns.start[row], history.txns.end[row]);
        let last = &mut last[history.txns.session[row] as usize];
        let before = match *last {
            Some((earlier, _)) if start < earlier => {
                let reason = "it starts before the transaction before it in its session has ended";
                return Err(refusal(history, txn, syntax.name(), reason));
            }
            Some((earlier, phase)) if start == earlier => phase + 1,
            _ => 0,
        };
        events.push(Event { time: start, phase: before, txn, is_completion: false });
        let phase = if start == end { before + 1 } else { 1 };
        if end != NO_TIME {
            events.push(Event { time: end, phase, txn, is_completion: true });
        } else if !registers && history.ops_of(txn).any(|row| matches!(history.op(row), Op::Read(..))) {
            // An invocation has no answers. The end of an unknown outcome orders nothing, so it may be any.
            events.push(Event { time: latest, phase: u32::MAX, txn, is_completion: true });
            let note = "unknown outcomes without an end get one behind all others, to say what they read";
            if !notes.iter().any(|told| told == note) {
                notes.push(note.into());
            }
        }
        *last = (history.txns.status[row] != Status::Unknown).then_some((end, phase));
    }
    events.sort_by_key(|event| (event.time, event.phase));
    Ok(events)
}

fn completions(history: &History) -> Vec<Event> {
    (0..history.len() as u32).map(|txn| Event { time: NO_TIME, phase: 0, txn, is_completion: true }).collect()
}

impl Syntax {
    fn name(self) -> &'static str {
        match self {
            Syntax::Edn => "elle-edn",
            Syntax::Json => "elle-json",
        }
    }

    fn field(self, out: &mut Vec<u8>, name: &str) {
        match self {
            Syntax::Edn => out.extend_from_slice(format!(":{name} ").as_bytes()),
            Syntax::Json => out.extend_from_slice(format!("\"{name}\": ").as_bytes()),
        }
    }

    fn word(self, out: &mut Vec<u8>, word: &str) {
        match self {
            Syntax::Edn => out.extend_from_slice(format!(":{word}").as_bytes()),
            Syntax::Json => out.extend_from_slice(format!("\"{word}\"").as_bytes()),
        }
    }

    fn space(self) -> &'static [u8] {
        match self {
            Syntax::Edn => b" ",
            Syntax::Json => b", ",
        }
    }
}

impl Writer<'_> {
    fn event(&self, out: &mut Vec<u8>, index: usize, event: &Event, timed: bool) {
        let history = self.history;
        let row = event.txn as usize;
        let status = history.txns.status[row];
        let only = history.ops_of(event.txn).next().map(|op| history.op(op));
        let failed = matches!(only, Some(Op::Cas(_, Cas { applied: false, .. })));
        let kind = match status {
            _ if !event.is_completion => "invoke",
            Status::Committed if failed => "fail",
            Status::Committed => "ok",
            Status::Aborted => "fail",
            Status::Unknown => "info",
        };
        let function = match only {
            _ if !self.registers => "txn",
            Some(Op::Write(..)) => "write",
            Some(Op::Cas(..)) => "cas",
            _ => "read",
        };
        let syntax = self.syntax;
        out.push(b'{');
        syntax.field(out, "type");
        syntax.word(out, kind);
        out.extend_from_slice(b", ");
        syntax.field(out, "f");
        syntax.word(out, function);
        out.extend_from_slice(b", ");
        syntax.field(out, "value");
        if self.registers {
            self.register(out, only, event.is_completion);
        } else {
            self.transaction(out, event);
        }
        if timed {
            self.number(out, "time", event.time);
        }
        self.number(out, "process", self.processes[row]);
        self.number(out, "index", index as i64);
        // To some readers a failed compare-and-set says something about the register, unless there was an error.
        if event.is_completion && status == Status::Aborted && matches!(only, Some(Op::Cas(..))) {
            out.extend_from_slice(b", ");
            syntax.field(out, "error");
            syntax.word(out, "aborted");
        }
        out.push(b'}');
    }

    fn number(&self, out: &mut Vec<u8>, name: &str, number: i64) {
        out.extend_from_slice(b", ");
        self.syntax.field(out, name);
        write_int(out, number);
    }

    fn transaction(&self, out: &mut Vec<u8>, event: &Event) {
        out.push(b'[');
        for (at, row) in self.history.ops_of(event.txn).enumerate() {
            if at > 0 {
                out.extend_from_slice(self.syntax.space());
            }
            let op = self.history.op(row);
            let (word, key) = match op {
                Op::Read(key, _) => ("r", key),
                Op::Write(key, _) => ("w", key),
                Op::Append(key, _) => ("append", key),
                _ => continue,
            };
            out.push(b'[');
            self.syntax.word(out, word);
            out.extend_from_slice(self.syntax.space());
            self.value(out, self.history.keys.name(key));
            out.extend_from_slice(self.syntax.space());
            match op {
                Op::Read(_, value) if event.is_completion => self.answer(out, event.txn, key, value),
                Op::Write(_, value) | Op::Append(_, value) => self.value(out, value),
                _ => self.value(out, Value::NULL),
            }
            out.push(b']');
        }
        out.push(b']');
    }

    /// A read, a write or a compare-and-set of a register, with its key unless it has none.
    fn register(&self, out: &mut Vec<u8>, op: Option<Op>, is_completion: bool) {
        let key = match op {
            Some(Op::Read(key, _) | Op::Write(key, _) | Op::Cas(key, _)) => key,
            // Nothing is known of a read that came to nothing, not even the key.
            _ if self.nameless => return self.value(out, Value::NULL),
            _ => 0,
        };
        let keyed = !self.nameless;
        if keyed {
            out.push(b'[');
            self.value(out, self.history.keys.name(key));
            out.extend_from_slice(self.syntax.space());
        }
        match op {
            Some(Op::Read(_, value)) if is_completion => self.value(out, self.seen(key, value)),
            Some(Op::Write(_, value)) => self.value(out, value),
            Some(Op::Cas(_, cas)) => {
                out.push(b'[');
                self.value(out, self.seen(key, cas.expected));
                out.extend_from_slice(self.syntax.space());
                self.value(out, cas.new);
                out.push(b']');
            }
            _ => self.value(out, Value::NULL),
        }
        if keyed {
            out.push(b']');
        }
    }

    /// What is said of a value that a key was seen to hold: the initial one is nil.
    fn seen(&self, key: u32, value: Value) -> Value {
        if value == self.initial[key as usize] { Value::NULL } else { value }
    }

    /// What a read returned. Of a transaction that was not committed, nil would mean that nobody knows.
    fn answer(&self, out: &mut Vec<u8>, txn: u32, key: u32, value: Value) {
        match self.seen(key, value) {
            Value::NULL if self.lists && self.history.txns.status[txn as usize] != Status::Committed => {
                out.extend_from_slice(b"[]");
            }
            seen => self.value(out, seen),
        }
    }

    fn value(&self, out: &mut Vec<u8>, value: Value) {
        let history = self.history;
        if self.syntax == Syntax::Json {
            return history.write_value(out, value);
        }
        match history.atoms.kind(value) {
            Kind::Null | Kind::Missing => out.extend_from_slice(b"nil"),
            Kind::Text(text) => write_text(out, text),
            Kind::Number(text) => {
                out.extend_from_slice(text.as_bytes());
                if integer(history, value).is_none() && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
                    out.push(b'N');
                }
            }
            Kind::List(index) => {
                out.push(b'[');
                for (at, &element) in history.lists.get(index).iter().enumerate() {
                    if at > 0 {
                        out.push(b' ');
                    }
                    self.value(out, element);
                }
                out.push(b']');
            }
            Kind::Bool(_) | Kind::Int(_) => history.write_value(out, value),
        }
    }
}
