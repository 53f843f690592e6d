//! Histories to JSON Lines.

use std::io::{self, Write};

use rustc_hash::FxHashSet;

use crate::history::{History, NO_TIME, Op, Status};
use crate::json::{write_int, write_text};
use crate::value::{Kind, Value};

const BLOCK_BYTES: usize = 1 << 16;

/// Writes `history`; reading the text gives the same history again.
pub fn write_jsonl(history: &History, output: &mut dyn Write) -> io::Result<()> {
    write_lines(history, 0..history.len() as u32, output)
}

/// Writes the header, the version chains and these transactions.
pub fn write_jsonl_rows(history: &History, rows: &[u32], output: &mut dyn Write) -> io::Result<()> {
    write_lines(history, rows.iter().copied(), output)
}

/// The history of these transactions, with the initial values and the version chains of the keys that are `kept`.
pub(crate) fn write_part(history: &History, rows: &[u32], kept: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut text = Vec::new();
    write_header(history, &mut text, |name| history.keys.find(name).is_some_and(&kept));
    for (key, values) in history.versions.iter().filter(|(key, _)| kept(*key)) {
        write_versions(history, &mut text, *key, values);
    }
    for &row in rows {
        write_txn(history, &mut text, row);
    }
    text
}

fn write_lines(history: &History, rows: impl Iterator<Item = u32>, output: &mut dyn Write) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES * 2);
    write_header(history, &mut block, |_| true);
    for (key, values) in &history.versions {
        write_versions(history, &mut block, *key, values);
    }
    for txn in rows {
        write_txn(history, &mut block, txn);
        if block.len() >= BLOCK_BYTES {
            output.write_all(&block)?;
            block.clear();
        }
    }
    output.write_all(&block)
}

/// Writes the header line, with the initial values of the keys that are `kept`, by name.
pub(crate) fn write_header(history: &History, out: &mut Vec<u8>, kept: impl Fn(Value) -> bool) {
    let header = &history.header;
    out.extend_from_slice(b"{\"isolde\":\"history\",\"version\":1");
    let initial: Vec<(Value, Value)> = header.initial.iter().copied().filter(|(key, _)| kept(*key)).collect();
    if !initial.is_empty() {
        out.extend_from_slice(b",\"initial\":");
        write_initial(history, &initial, out);
    }
    if let Some(meta) = &header.meta {
        out.extend_from_slice(b",\"meta\":");
        out.extend_from_slice(meta.as_bytes());
    }
    write_fields(out, &header.fields);
    out.extend_from_slice(b"}\n");
}

/// An object where that reads back the same, else an array of pairs: an object has only string keys.
fn write_initial(history: &History, initial: &[(Value, Value)], out: &mut Vec<u8>) {
    let spelled = spelled_integers(history);
    let as_object = initial.iter().all(|(key, _)| match history.atoms.kind(*key) {
        Kind::Text(text) => {
            let integer = text.parse().ok().and_then(Value::small_int);
            history.keys.find(*key).is_some() || integer.is_none_or(|i| history.keys.find(i).is_none())
        }
        Kind::Int(i) => history.keys.find(*key).is_some() && !spelled.contains(&i),
        _ => false,
    });
    out.push(if as_object { b'{' } else { b'[' });
    for (at, (key, value)) in initial.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if as_object {
            match history.atoms.kind(*key) {
                Kind::Int(i) => write_text(out, &i.to_string()),
                _ => history.write_value(out, *key),
            }
            out.push(b':');
            history.write_value(out, *value);
        } else {
            out.push(b'[');
            history.write_value(out, *key);
            out.push(b',');
            history.write_value(out, *value);
            out.push(b']');
        }
    }
    out.push(if as_object { b'}' } else { b']' });
}

/// The integers that string keys spell.
fn spelled_integers(history: &History) -> FxHashSet<i64> {
    let spelled = |&key: &Value| match history.atoms.kind(key) {
        Kind::Text(text) => text.parse().ok().filter(|i: &i64| i.to_string() == text),
        _ => None,
    };
    history.keys.all().iter().filter_map(spelled).collect()
}

/// Writes one `versions` line.
pub(crate) fn write_versions(history: &History, out: &mut Vec<u8>, key: u32, values: &[Value]) {
    out.extend_from_slice(b"{\"versions\":[");
    history.write_value(out, history.keys.name(key));
    out.extend_from_slice(b",[");
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        history.write_value(out, *value);
    }
    out.extend_from_slice(b"]]}\n");
}

fn write_fields(out: &mut Vec<u8>, fields: &str) {
    if !fields.is_empty() {
        out.push(b',');
        out.extend_from_slice(fields.as_bytes());
    }
}

fn write_txn(history: &History, out: &mut Vec<u8>, txn: u32) {
    let row = txn as usize;
    let txns = &history.txns;
    out.extend_from_slice(b"{\"id\":");
    history.write_value(out, txns.id[row]);
    out.extend_from_slice(b",\"session\":");
    history.write_value(out, history.sessions.name(txns.session[row]));
    match txns.status[row] {
        Status::Committed => {}
        Status::Aborted => out.extend_from_slice(b",\"status\":\"aborted\""),
        Status::Unknown => out.extend_from_slice(b",\"status\":\"unknown\""),
    }
    for (name, time) in [("start", txns.start[row]), ("end", txns.end[row])] {
        if time != NO_TIME {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            write_int(out, time);
        }
    }
    if let Some(extra) = history.extra(txn) {
        if let Some(serial) = extra.serial {
            out.extend_from_slice(b",\"serial\":");
            history.write_value(out, serial);
        }
        if let Some(snapshot) = &extra.snapshot {
            out.extend_from_slice(b",\"snapshot\":");
            out.extend_from_slice(snapshot.as_bytes());
        }
        write_fields(out, &extra.fields);
    }
    out.extend_from_slice(b",\"ops\":[");
    for (at, op) in history.ops_of(txn).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_op(history, out, history.op(op));
    }
    out.extend_from_slice(b"]}\n");
}

/// Writes one operation.
pub(crate) fn write_op(history: &History, out: &mut Vec<u8>, op: Op) {
    let start = |out: &mut Vec<u8>, name: &str, key: u32| {
        out.extend_from_slice(b"[\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",");
        history.write_value(out, history.keys.name(key));
        out.push(b',');
    };
    match op {
        Op::Read(key, value) => {
            start(out, "r", key);
            history.write_value(out, value);
        }
        Op::Write(key, value) => {
            start(out, "w", key);
            history.write_value(out, value);
        }
        Op::Append(key, element) => {
            start(out, "a", key);
            history.write_value(out, element);
        }
        Op::Cas(key, cas) => {
            start(out, "cas", key);
            history.write_value(out, cas.expected);
            out.push(b',');
            history.write_value(out, cas.new);
            out.extend_from_slice(if cas.applied { b",true" } else { b",false" });
            if cas.current != Value::MISSING {
                out.push(b',');
                history.write_value(out, cas.current);
            }
        }
        Op::Scan(detail) | Op::Sql(detail) => {
            out.extend_from_slice(history.details[detail as usize].as_bytes());
            return;
        }
    }
    out.push(b']');
}
