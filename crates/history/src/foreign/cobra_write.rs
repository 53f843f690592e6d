//! Histories as Cobra's logs. What is read must have been written, or be the initial value; nothing is aborted.

use std::fs;
use std::path::Path;

use super::Writing;
use super::cobra::{FENCE, INITIAL, NOTHING};
use super::numbered::{Initial, Limits, Numbered, Version, by_session, refusal, unique_writers};
use crate::error::{Error, Result};
use crate::history::{History, Op};

const FORMAT: &str = "cobra";

pub(super) fn write(history: &History, writing: Writing, path: &Path) -> Result<Vec<String>> {
    let limits = Limits {
        format: FORMAT,
        initial: Initial::Free,
        aborted: false,
        negative: true,
        empty: true,
        ids: true,
        sessions: false,
    };
    let mut numbered = Numbered::of(history, limits, writing)?;
    let keys = numbered.keys();
    let logs = logs(history, &numbered, &keys)?;
    fs::create_dir_all(path)?;
    for entry in fs::read_dir(path)? {
        if entry?.file_name().to_string_lossy().ends_with(".log") {
            return Err(Error::Refused("the directory holds .log files already; name a new one".into()));
        }
    }
    for (number, log) in logs.iter().enumerate() {
        fs::write(path.join(format!("T{number}.log")), log)?;
    }
    Ok(numbered.notes)
}

/// The content of each session's file, made whole before anything is written.
fn logs(history: &History, numbered: &Numbered, keys: &[i64]) -> Result<Vec<Vec<u8>>> {
    let refuse = |txn: u32, reason: &str| Err(refusal(history, txn, FORMAT, reason));
    let writers = match unique_writers(history) {
        Ok(writers) => writers,
        Err(txn) => {
            return refuse(txn, "a value is the number of its write, and it writes one that was written before");
        }
    };
    let is_special = |number: &i64| [INITIAL, NOTHING].contains(number) || FENCE.contains(number);
    let mut ids = numbered.ids();
    if ids.iter().any(is_special) {
        ids = (0..history.len() as i64).collect();
    }
    let mut logs = Vec::new();
    for session in by_session(history) {
        let mut log = Vec::new();
        for txn in session {
            let id = ids[txn as usize];
            record(&mut log, b'S', &[id]);
            for row in history.ops_of(txn) {
                let (key, value, is_read) = match history.op(row) {
                    Op::Read(key, value) => (key, value, true),
                    Op::Write(key, value) => (key, value, false),
                    _ => continue,
                };
                let number = match numbered.version(key, value) {
                    Version::Initial => {
                        record(&mut log, b'R', &[INITIAL, INITIAL, keys[key as usize], 0]);
                        continue;
                    }
                    Version::Number(number) if is_special(&number) => {
                        return refuse(txn, &format!("{number} has a meaning of its own there"));
                    }
                    Version::Number(number) => number,
                };
                match writers.get(&value) {
                    _ if !is_read => record(&mut log, b'W', &[number, keys[key as usize], number]),
                    Some(&(writer, written)) if written == key => {
                        let writer = ids[writer as usize];
                        record(&mut log, b'R', &[writer, number, keys[key as usize], number]);
                    }
                    _ => return refuse(txn, &format!("a read names its writer, and nobody wrote {number}")),
                }
            }
            record(&mut log, b'C', &[id]);
        }
        logs.push(log);
    }
    Ok(logs)
}

fn record(log: &mut Vec<u8>, letter: u8, numbers: &[i64]) {
    log.push(letter);
    for number in numbers {
        log.extend_from_slice(&number.to_be_bytes());
    }
}
