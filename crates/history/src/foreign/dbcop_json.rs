//! dbcop's histories in JSON: an object whose `data` is an array of sessions, or that array alone.
//!
//! A session is an array of `{"events": [...], "committed": true}`; an event is `{"Read": {"variable": 0, "version": 1}}` or
//! `{"Write": ...}`, or shorter `["r", 0, 1]` or `["w", 0, 1]`. A version of `null`, or of 0 that nobody wrote, is the initial one.

use std::io::Write;

use jiter::Peek;

use super::json_node::Json;
use super::node::{Node, Piece};
use super::numbered::{Initial, Limits, Numbered, Version, by_session};
use super::text::{unsigned, utf8, value_of};
use super::{Writing, check_size, fault, start_at_zero};
use crate::error::{Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::json::write_text;
use crate::value::Value;

const FILE: &str = "an object with \"data\", or an array of sessions";
const SESSION: &str = "a session: an array of transactions";
const TRANSACTION: &str = "a transaction: {\"events\": [...], \"committed\": true or false}";
const EVENT: &str = "{\"Read\": {\"variable\": 0, \"version\": 1}}, {\"Write\": ...}, [\"r\", 0, 1] or [\"w\", 0, 1]";
const EPOCH: &str = "1970-01-01T00:00:00Z";

type Step<T> = std::result::Result<T, Malformed>;

pub(super) fn read(content: &[u8]) -> Result<History> {
    let mut history = History::default();
    let read = read_into(&mut history, &mut Json::new(utf8(content)?));
    read.map_err(|wrong| Malformed { transactions_before: history.len() as u64, ..wrong })?;
    start_at_zero(&mut history);
    Ok(history)
}

fn read_into(history: &mut History, json: &mut Json) -> Step<()> {
    match json.peek()? {
        Peek::Array => sessions(history, json)?,
        Peek::Object => file(history, json)?,
        peek => {
            let (line, found) = (json.line(), json.node(peek)?.snippet());
            return Err(fault(line, "", found, FILE));
        }
    }
    json.finish()
}

/// The object around the sessions; what else it says is kept as `meta`.
fn file(history: &mut History, json: &mut Json) -> Step<()> {
    let line = json.line();
    let mut meta = b"{\"dbcop\":{".to_vec();
    let mut has_data = false;
    let mut name = json.enter_object()?;
    while let Some(field) = name {
        let peek = json.peek()?;
        if field == "data" {
            if peek != Peek::Array || has_data {
                let (line, found) = (json.line(), json.node(peek)?.snippet());
                return Err(fault(line, "data", found, "one array of sessions"));
            }
            has_data = true;
            sessions(history, json)?;
        } else {
            if !meta.ends_with(b"{") {
                meta.push(b',');
            }
            write_text(&mut meta, &field);
            meta.push(b':');
            // The text may be spread over lines; the history format has one line.
            meta.extend(json.node(peek)?.raw.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
        }
        name = json.next_name()?;
    }
    if !has_data {
        return Err(fault(line, "", "an object without \"data\"", FILE));
    }
    meta.extend_from_slice(b"}}");
    history.header.meta = Some(String::from_utf8(meta).expect("JSON text is made of UTF-8 pieces").into());
    Ok(())
}

fn sessions(history: &mut History, json: &mut Json) -> Step<()> {
    let mut session = 0;
    let mut item = json.enter_array()?;
    while let Some(peek) = item {
        if peek != Peek::Array {
            let (line, found) = (json.line(), json.node(peek)?.snippet());
            return Err(fault(line, &format!("data[{session}]"), found, SESSION));
        }
        let mut position = 0;
        let mut transaction = json.enter_array()?;
        while let Some(peek) = transaction {
            let line = json.line();
            let node = json.node(peek)?;
            let place = format!("data[{session}][{position}]");
            take_transaction(history, &node, session, line, &place)?;
            position += 1;
            transaction = json.next_element()?;
        }
        session += 1;
        item = json.next_element()?;
    }
    Ok(())
}

fn take_transaction(history: &mut History, node: &Node, session: u64, line: u64, place: &str) -> Step<()> {
    let wrong = || fault(line, place, node.snippet(), TRANSACTION);
    let events = node.get("events").and_then(Node::seq).ok_or_else(wrong)?;
    let Some(Piece::Bool(committed)) = node.get("committed").map(|node| &node.kind) else { return Err(wrong()) };
    for (at, event) in events.iter().enumerate() {
        let op = take_event(history, event);
        let op = op.ok_or_else(|| fault(line, &format!("{place}.events[{at}]"), event.snippet(), EVENT))?;
        history.push_op(op);
    }
    let name = value_of(&mut history.atoms, session);
    let session = history.sessions.number(name);
    let status = if *committed { Status::Committed } else { Status::Aborted };
    check_size(history)?;
    history.push_txn(Value::MISSING, session, status, NO_TIME, NO_TIME, line);
    Ok(())
}

fn take_event(history: &mut History, node: &Node) -> Option<Op> {
    let (word, variable, version) = match &node.kind {
        Piece::Seq(parts) => match &parts[..] {
            [word, variable, version] => (word.word()?, variable, version),
            _ => return None,
        },
        Piece::Map(entries) => match &entries[..] {
            [(word, content)] => (word.word()?, content.get("variable")?, content.get("version")?),
            _ => return None,
        },
        _ => return None,
    };
    let is_write = match word {
        "r" | "Read" => false,
        "w" | "Write" => true,
        _ => return None,
    };
    let number = |node: &Node| unsigned(node.raw.as_bytes());
    let key = value_of(&mut history.atoms, number(variable)?);
    let value = match version.is_nil() && !is_write {
        true => Value::NULL,
        false => value_of(&mut history.atoms, number(version)?),
    };
    let key = history.keys.number(key);
    Some(if is_write { Op::Write(key, value) } else { Op::Read(key, value) })
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    let limits = Limits {
        format: "dbcop-json",
        initial: Initial::Marked("null"),
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
    write!(
        block,
        "{{\"params\":{{\"id\":0,\"n_node\":{},\"n_variable\":{},\"n_transaction\":{transactions},\"n_event\":{events}}},\
         \"info\":\"\",\"start\":\"{EPOCH}\",\"end\":\"{EPOCH}\",\"data\":[",
        sessions.len(),
        history.keys.len(),
    )?;
    for (number, session) in sessions.iter().enumerate() {
        block.extend_from_slice(if number > 0 { b",\n[" } else { b"\n[" });
        for (position, &txn) in session.iter().enumerate() {
            block.extend_from_slice(if position > 0 { b",\n{\"events\":[" } else { b"\n{\"events\":[" });
            for (at, row) in history.ops_of(txn).enumerate() {
                let (word, key, value) = match history.op(row) {
                    Op::Read(key, value) => ("Read", key, value),
                    Op::Write(key, value) => ("Write", key, value),
                    _ => continue,
                };
                if at > 0 {
                    block.push(b',');
                }
                write!(block, "{{\"{word}\":{{\"variable\":{},\"version\":", keys[key as usize])?;
                match numbered.version(key, value) {
                    Version::Initial => block.extend_from_slice(b"null}}"),
                    Version::Number(version) => write!(block, "{version}}}}}")?,
                }
            }
            let committed = history.txns.status[txn as usize] == Status::Committed;
            write!(block, "],\"committed\":{committed}}}")?;
        }
        block.push(b']');
        output.write_all(&block)?;
        block.clear();
    }
    block.extend_from_slice(b"]}\n");
    output.write_all(&block)?;
    Ok(numbered.notes)
}
