//! AWDIT's `test` text: `r KEY VALUE` or `w KEY VALUE` a line, transactions parted by dashes, sessions by equals signs.
//!
//! There is no initial value and nothing is aborted.

use std::io::Write;

use super::numbered::{Initial, Limits, Numbered, Version, by_session};
use super::text::{unsigned, value_of};
use super::{Writing, check_size, fault};
use crate::error::{Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::line::snippet;
use crate::value::Value;

const EXPECTED: &str = "r KEY VALUE, w KEY VALUE, or a line of dashes or equals signs";

struct Reader {
    history: History,
    /// The line and the place of the first operation of the transaction that is open.
    open: Option<u64>,
    /// Whether the session has a transaction.
    started: bool,
    sessions: i64,
}

pub(super) fn read(content: &[u8]) -> Result<History> {
    let mut reader = Reader { history: History::default(), open: None, started: false, sessions: 0 };
    let mut line = 0;
    for text in content.split(|&byte| byte == b'\n') {
        line += 1;
        let mut start = 0;
        for (at, &byte) in text.iter().enumerate() {
            if byte == b'-' || byte == b'=' {
                reader.event(&text[start..at], line)?;
                reader.end_transaction()?;
                if byte == b'=' {
                    reader.end_session();
                }
                start = at + 1;
            }
        }
        reader.event(&text[start..], line)?;
    }
    reader.end_transaction()?;
    Ok(reader.history)
}

impl Reader {
    fn event(&mut self, text: &[u8], line: u64) -> std::result::Result<(), Malformed> {
        let wrong = || Malformed {
            transactions_before: self.history.len() as u64,
            ..fault(line, "", snippet(String::from_utf8_lossy(text).trim()), EXPECTED)
        };
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(kind) = words.next() else { return Ok(()) };
        let (Some(key), Some(value), None) =
            (words.next().and_then(unsigned), words.next().and_then(unsigned), words.next())
        else {
            return Err(wrong());
        };
        if kind != b"r" && kind != b"w" {
            return Err(wrong());
        }
        let history = &mut self.history;
        let key = value_of(&mut history.atoms, key);
        let key = history.keys.number(key);
        let value = value_of(&mut history.atoms, value);
        history.push_op(if kind == b"r" { Op::Read(key, value) } else { Op::Write(key, value) });
        self.open.get_or_insert(line);
        Ok(())
    }

    fn end_transaction(&mut self) -> std::result::Result<(), Malformed> {
        let Some(line) = self.open.take() else { return Ok(()) };
        check_size(&self.history)?;
        let session = Value::small_int(self.sessions).expect("a file has fewer than 10^18 sessions");
        let session = self.history.sessions.number(session);
        self.history.push_txn(Value::MISSING, session, Status::Committed, NO_TIME, NO_TIME, line);
        self.started = true;
        Ok(())
    }

    fn end_session(&mut self) {
        self.sessions += i64::from(std::mem::take(&mut self.started));
    }
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    let limits = Limits {
        format: "awdit",
        initial: Initial::None,
        aborted: false,
        negative: false,
        empty: false,
        ids: false,
        sessions: false,
    };
    let mut numbered = Numbered::of(history, limits, writing)?;
    let keys = numbered.keys();
    let mut block = Vec::new();
    for (number, session) in by_session(history).iter().enumerate() {
        if number > 0 {
            block.extend_from_slice(b"=====\n");
        }
        for (place, &txn) in session.iter().enumerate() {
            if place > 0 {
                block.extend_from_slice(b"-----\n");
            }
            for row in history.ops_of(txn) {
                let (kind, key, value) = match history.op(row) {
                    Op::Read(key, value) => ('r', key, value),
                    Op::Write(key, value) => ('w', key, value),
                    _ => continue,
                };
                if let Version::Number(version) = numbered.version(key, value) {
                    writeln!(block, "{kind} {} {version}", keys[key as usize])?;
                }
            }
        }
        output.write_all(&block)?;
        block.clear();
    }
    Ok(numbered.notes)
}
