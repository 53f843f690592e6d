//! dbcop's short text: `[x:=1 y==2]` is a transaction, `x==?` a read of the initial value, `!` behind a transaction says
//! that it was not committed; lines of dashes part sessions, `//` starts a comment.

use std::io::Write;

use rustc_hash::FxHashSet;

use super::numbered::{Initial, Limits, Numbered, Version, by_session, note_of_names};
use super::text::{unsigned, utf8, value_of};
use super::{Writing, check_size, fault, start_at_zero};
use crate::error::{Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::line::snippet;
use crate::value::{Kind, Value};

const TRANSACTION: &str = "a transaction such as [x:=1 y==2], a line of dashes or a // comment";
const EVENT: &str = "x:=1, x==1 or x==?, where x is a name and 1 a number";

pub(super) fn read(content: &[u8]) -> Result<History> {
    let text = utf8(content)?;
    let mut history = History::default();
    // The session before the first line of dashes is number 0; one without transactions does not count.
    let (mut session, mut started) = (0, false);
    // The line that an open bracket stands on.
    let mut open: Option<u64> = None;
    let mut line = 0;
    for text in text.split('\n') {
        line += 1;
        let mut rest = text.split_once("//").map_or(text, |(before, _)| before).trim();
        if open.is_none() && rest.len() >= 3 && rest.bytes().all(|byte| byte == b'-') {
            session += i64::from(std::mem::take(&mut started));
            continue;
        }
        while !rest.is_empty() {
            let wrong = |history: &History, found: &str, expected: &str| Malformed {
                transactions_before: history.len() as u64,
                ..fault(line, "", snippet(found), expected)
            };
            let Some(first) = open else {
                rest = rest.strip_prefix('[').ok_or_else(|| wrong(&history, rest, TRANSACTION))?.trim_start();
                open = Some(line);
                continue;
            };
            if let Some(after) = rest.strip_prefix(']') {
                let (status, after) = match after.strip_prefix('!') {
                    Some(after) => (Status::Aborted, after),
                    None => (Status::Committed, after),
                };
                let name = Value::small_int(session).expect("a file has fewer than 10^18 sessions");
                let number = history.sessions.number(name);
                check_size(&history)?;
                history.push_txn(Value::MISSING, number, status, NO_TIME, NO_TIME, first);
                (open, started) = (None, true);
                rest = after.trim_start();
                continue;
            }
            let end = rest.find(|c: char| c.is_whitespace() || c == ']').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let op = event(&mut history, word).ok_or_else(|| wrong(&history, word, EVENT))?;
            history.push_op(op);
            rest = after.trim_start();
        }
    }
    if let Some(first) = open {
        let before = history.len() as u64;
        let wrong = fault(first, "", "a transaction that does not end", "a closing bracket");
        return Err(Malformed { transactions_before: before, ..wrong }.into());
    }
    start_at_zero(&mut history);
    Ok(history)
}

fn event(history: &mut History, word: &str) -> Option<Op> {
    let (name, version, is_write) = match word.split_once(":=") {
        Some((name, version)) => (name, version, true),
        None => word.split_once("==").map(|(name, version)| (name, version, false))?,
    };
    if !is_name(name) {
        return None;
    }
    let value = match version {
        "?" if !is_write => Value::NULL,
        digits => value_of(&mut history.atoms, unsigned(digits.as_bytes())?),
    };
    let key = history.atoms.text(name);
    let key = history.keys.number(key);
    Some(if is_write { Op::Write(key, value) } else { Op::Read(key, value) })
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    let limits = Limits {
        format: "dbcop-hist",
        initial: Initial::Marked("?"),
        aborted: true,
        negative: false,
        empty: true,
        ids: false,
        sessions: false,
    };
    let mut numbered = Numbered::of(history, limits, writing)?;
    let names = names(history, &mut numbered.notes);
    let mut block = Vec::new();
    for (number, session) in by_session(history).iter().enumerate() {
        if number > 0 {
            block.extend_from_slice(b"---\n");
        }
        for &txn in session {
            let mut before = '[';
            for row in history.ops_of(txn) {
                let (sign, key, value) = match history.op(row) {
                    Op::Read(key, value) => ("==", key, value),
                    Op::Write(key, value) => (":=", key, value),
                    _ => continue,
                };
                match numbered.version(key, value) {
                    Version::Initial => write!(block, "{before}{}{sign}?", names[key as usize])?,
                    Version::Number(version) => write!(block, "{before}{}{sign}{version}", names[key as usize])?,
                }
                before = ' ';
            }
            if before == '[' {
                block.push(b'[');
            }
            let committed = history.txns.status[txn as usize] == Status::Committed;
            block.extend_from_slice(if committed { b"]\n" } else { b"]!\n" });
        }
        output.write_all(&block)?;
        block.clear();
    }
    Ok(numbered.notes)
}

/// The keys' own names if they are names here, too; numbers get a `k` in front; else all are numbered anew.
fn names(history: &History, notes: &mut Vec<String>) -> Vec<String> {
    let name = |&key: &Value| match history.atoms.kind(key) {
        Kind::Text(text) if is_name(text) => Some(text.to_owned()),
        Kind::Int(number) if number >= 0 => Some(format!("k{number}")),
        _ => None,
    };
    let keys = history.keys.all();
    let names: Vec<String> = keys.iter().filter_map(name).collect();
    let distinct: FxHashSet<&String> = names.iter().collect();
    if distinct.len() == keys.len() {
        if keys.iter().any(|key| key.as_small_int().is_some()) {
            notes.push("keys that are numbers get a k in front".into());
        }
        return names;
    }
    notes.push(note_of_names(history, "keys", keys, "k"));
    (0..keys.len()).map(|number| format!("k{number}")).collect()
}
