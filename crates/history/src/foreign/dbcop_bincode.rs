//! dbcop's histories in bincode 1.x: little-endian numbers of eight bytes, texts and arrays with their length before
//! them, booleans of one byte.
//!
//! ```text
//! id nodes variables transactions events     five numbers that describe the run
//! info start end                             three texts
//! [session [transaction [write variable value success] success]]
//! ```
//!
//! An event without success did not execute. 0 is the initial value, where nobody writes it.

use std::io::Write;

use super::numbered::{Initial, Limits, Numbered, Version, by_session};
use super::text::value_of;
use super::{Writing, check_size, fault, start_at_zero};
use crate::error::{Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::json::write_text;
use crate::line::snippet;
use crate::value::Value;

const EPOCH: &str = "1970-01-01T00:00:00+00:00";
const PARAMETERS: [&str; 5] = ["id", "n_node", "n_variable", "n_transaction", "n_event"];
const TEXTS: [&str; 3] = ["info", "start", "end"];

type Step<T> = std::result::Result<T, Malformed>;

struct Bytes<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: u64, what: &str) -> Step<&'a [u8]> {
        let rest = &self.content[self.at..];
        match usize::try_from(count).ok().filter(|&count| count <= rest.len()) {
            Some(count) => {
                self.at += count;
                Ok(&rest[..count])
            }
            None => Err(fault(
                0,
                "",
                format!("the file ends at byte {}, inside {what} that starts at byte {}", self.content.len(), self.at),
                format!("{count} bytes"),
            )),
        }
    }

    fn number(&mut self, what: &str) -> Step<u64> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    fn flag(&mut self, what: &str) -> Step<bool> {
        let at = self.at;
        match self.take(1, what)?[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(fault(0, "", format!("byte {at} is {other}"), format!("0 or 1: {what}"))),
        }
    }

    fn text(&mut self, what: &str) -> Step<&'a str> {
        let length = self.number(what)?;
        let at = self.at;
        std::str::from_utf8(self.take(length, what)?)
            .map_err(|_| fault(0, "", format!("bytes from {at} are not UTF-8"), format!("a text: {what}")))
    }
}

pub(super) fn read(content: &[u8]) -> Result<History> {
    let mut history = History::default();
    let read = read_into(&mut history, &mut Bytes { content, at: 0 });
    read.map_err(|wrong| Malformed { transactions_before: history.len() as u64, ..wrong })?;
    start_at_zero(&mut history);
    Ok(history)
}

fn read_into(history: &mut History, bytes: &mut Bytes) -> Step<()> {
    let mut meta = b"{\"dbcop\":{".to_vec();
    for name in PARAMETERS {
        let number = bytes.number(name)?;
        meta.extend_from_slice(format!("\"{name}\":{number},").as_bytes());
    }
    for name in TEXTS {
        let text = bytes.text(name)?;
        meta.extend_from_slice(format!("\"{name}\":").as_bytes());
        write_text(&mut meta, text);
        meta.push(if name == "end" { b'}' } else { b',' });
    }
    meta.push(b'}');
    history.header.meta = Some(String::from_utf8(meta).expect("JSON text is made of UTF-8 pieces").into());
    for session in 0..bytes.number("the number of sessions")? {
        let name = value_of(&mut history.atoms, session);
        let mut number = None;
        for _ in 0..bytes.number("the number of a session's transactions")? {
            for _ in 0..bytes.number("the number of a transaction's events")? {
                event(history, bytes)?;
            }
            let committed = bytes.flag("whether the transaction succeeded")?;
            let status = if committed { Status::Committed } else { Status::Aborted };
            let session = *number.get_or_insert_with(|| history.sessions.number(name));
            check_size(history)?;
            history.push_txn(Value::MISSING, session, status, NO_TIME, NO_TIME, 0);
        }
    }
    match &bytes.content[bytes.at..] {
        [] => Ok(()),
        rest => Err(fault(
            0,
            "",
            format!("{} more bytes from byte {} on ({})", rest.len(), bytes.at, snippet(&format!("{rest:?}"))),
            "the end of the file after the last session",
        )),
    }
}

fn event(history: &mut History, bytes: &mut Bytes) -> Step<()> {
    let is_write = bytes.flag("whether the event is a write")?;
    let (variable, value) = (bytes.number("an event's variable")?, bytes.number("an event's value")?);
    if bytes.flag("whether the event succeeded")? {
        let key = value_of(&mut history.atoms, variable);
        let key = history.keys.number(key);
        let value = value_of(&mut history.atoms, value);
        history.push_op(if is_write { Op::Write(key, value) } else { Op::Read(key, value) });
    }
    Ok(())
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    let limits = Limits {
        format: "dbcop-bincode",
        initial: Initial::Zero,
        aborted: true,
        negative: false,
        empty: true,
        ids: false,
        sessions: false,
    };
    let mut numbered = Numbered::of(history, limits, writing)?;
    let keys = numbered.keys();
    let sessions = by_session(history);
    let transactions = sessions.iter().map(Vec::len).max().unwrap_or(0);
    let events = (0..history.len() as u32).map(|txn| history.ops_of(txn).len()).max().unwrap_or(0);
    let mut block = Vec::new();
    let number = |block: &mut Vec<u8>, number: u64| block.extend_from_slice(&number.to_le_bytes());
    for parameter in [0, sessions.len(), history.keys.len(), transactions, events] {
        number(&mut block, parameter as u64);
    }
    for text in ["", EPOCH, EPOCH] {
        number(&mut block, text.len() as u64);
        block.extend_from_slice(text.as_bytes());
    }
    number(&mut block, sessions.len() as u64);
    for session in &sessions {
        number(&mut block, session.len() as u64);
        for &txn in session {
            number(&mut block, history.ops_of(txn).len() as u64);
            for row in history.ops_of(txn) {
                let (is_write, key, value) = match history.op(row) {
                    Op::Read(key, value) => (0, key, value),
                    Op::Write(key, value) => (1, key, value),
                    _ => continue,
                };
                let version = match numbered.version(key, value) {
                    Version::Initial => 0,
                    Version::Number(number) => number as u64,
                };
                block.push(is_write);
                number(&mut block, keys[key as usize] as u64);
                number(&mut block, version);
                block.push(1);
            }
            block.push(u8::from(history.txns.status[txn as usize] == Status::Committed));
        }
        output.write_all(&block)?;
        block.clear();
    }
    output.write_all(&block)?;
    Ok(numbered.notes)
}
