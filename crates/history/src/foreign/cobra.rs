//! Cobra's logs: a directory with a binary file a client, `*.log`.
//!
//! A record is a letter and big-endian numbers of eight bytes:
//!
//! ```text
//! S transaction [time]                      it starts
//! W write key value                         it writes; the number of the write is what later reads name
//! R writer write key value                  it reads what `write` of the transaction `writer` left there
//! C transaction [time]                      it commits
//! ```
//!
//! Times are there in all logs of a directory or in none, which shows in the first record: the byte after it is either the next
//! record's letter or the first of a time, and times of such a size that both look alike do not occur. Values are
//! known by their hashes only, so the number of the write stands for the value.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{check_size, fault, read_whole};
use crate::error::{Error, Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::reading::Reading;
use crate::value::Value;

/// The transaction and the write that made the initial state.
pub(super) const INITIAL: i64 = 0xbebe_ebee;
/// The transaction and the write behind what is not there.
pub(super) const NOTHING: i64 = 0xdead_beef;
/// Whether the verifier collected garbage: what reads of its fence return, which is no data of the application's.
pub(super) const FENCE: [i64; 2] = [0x2333_2333, 0x6666_6666];

type Step<T> = std::result::Result<T, Malformed>;

struct Log {
    name: String,
    content: Vec<u8>,
}

pub(super) fn read(path: &Path, reading: &Reading, keep_on: &mut impl FnMut() -> bool) -> Result<History> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !keep_on() {
            return Err(Error::Interrupted);
        }
        if name.ends_with(".log") {
            // A pipe of that name could keep us waiting for ever.
            if !fs::metadata(entry.path())?.is_file() {
                let name = crate::line::snippet(&name);
                return Err(Error::Refused(format!("{name} is no regular file; expected Cobra's log of a client")));
            }
            logs.push(Log { name, content: read_whole(fs::File::open(entry.path())?, reading, keep_on)? });
        }
    }
    logs.sort_by(|a, b| natural(&a.name, &b.name));
    let timed = logs.iter().find(|log| !log.content.is_empty()).is_some_and(|log| has_times(&log.content));
    let mut history = History::default();
    let mut special = Special::default();
    for log in &logs {
        let mut reader = Reader { log, at: 0, timed, special: &mut special };
        let read = reader.read(&mut history);
        read.map_err(|wrong| Malformed { transactions_before: history.len() as u64, ..wrong })?;
    }
    special.settle(&mut history);
    Ok(history)
}

/// Reads that name the initial state, or what is not there, as their writer.
#[derive(Default)]
struct Special {
    /// The rows of such reads and the write that they name.
    reads: FxHashMap<usize, i64>,
    /// The keys that a transaction of the logs writes under such a number.
    written: FxHashSet<(u32, i64)>,
}

impl Special {
    /// Such a read saw no write, unless the logs have the very write that it names.
    fn settle(self, history: &mut History) {
        let numbers = [INITIAL, NOTHING].map(|number| (number, history.atoms.integer(number)));
        history.map_reads(|row, key, value| match self.reads.get(&row) {
            Some(write) if self.written.contains(&(key, *write)) => {
                numbers.iter().find(|(number, _)| number == write).map_or(value, |(_, written)| *written)
            }
            _ => value,
        });
    }
}

/// Whether the first record, which starts a transaction, carries a time.
fn has_times(content: &[u8]) -> bool {
    let is_letter = |at: usize| matches!(content.get(at), Some(b'R' | b'W' | b'C'));
    content.first() == Some(&b'S') && !is_letter(9) && is_letter(17)
}

struct Reader<'l> {
    log: &'l Log,
    at: usize,
    timed: bool,
    special: &'l mut Special,
}

impl Reader<'_> {
    fn read(&mut self, history: &mut History) -> Step<()> {
        let stem = self.log.name.strip_suffix(".log").unwrap_or(&self.log.name);
        let session = history.atoms.text(stem);
        let mut open: Option<(i64, i64)> = None;
        while let Some(&letter) = self.log.content.get(self.at) {
            let start = self.at;
            self.at += 1;
            match (letter, open) {
                (b'S', None) => open = Some((self.number(start)?, self.time(start)?)),
                (b'C', Some((id, begin))) => {
                    let committed = self.number(start)?;
                    if committed != id {
                        return Err(self.fault(start, format!("commits {committed}"), format!("the commit of {id}")));
                    }
                    let end = self.time(start)?;
                    if end < begin {
                        return Err(self.fault(start, format!("ends at {end}"), format!("a time not before {begin}")));
                    }
                    let id = history.atoms.integer(id);
                    check_size(history)?;
                    let session = history.sessions.number(session);
                    history.push_txn(id, session, Status::Committed, begin, end, 0);
                    open = None;
                }
                (b'W', Some(_)) => {
                    let (write, key, _hash) = (self.number(start)?, self.number(start)?, self.number(start)?);
                    let key = history.atoms.integer(key);
                    let key = history.keys.number(key);
                    let value = history.atoms.integer(write);
                    if [INITIAL, NOTHING].contains(&write) {
                        self.special.written.insert((key, write));
                    }
                    history.push_op(Op::Write(key, value));
                }
                (b'R', Some(_)) => {
                    let (writer, write) = (self.number(start)?, self.number(start)?);
                    let (key, _hash) = (self.number(start)?, self.number(start)?);
                    if FENCE.contains(&write) && writer == INITIAL {
                        continue;
                    }
                    let is_initial = [INITIAL, NOTHING].contains(&writer) && [INITIAL, NOTHING].contains(&write);
                    let key = history.atoms.integer(key);
                    let key = history.keys.number(key);
                    if is_initial {
                        self.special.reads.insert(history.ops.kind.len(), write);
                    }
                    let value = if is_initial { Value::NULL } else { history.atoms.integer(write) };
                    history.push_op(Op::Read(key, value));
                }
                (_, None) => return Err(self.unexpected(start, "S: the start of a transaction")),
                (_, Some(_)) => return Err(self.unexpected(start, "R, W or C: a read, a write or a commit")),
            }
        }
        match open {
            Some((id, _)) => Err(self.fault(self.at, format!("the file ends inside transaction {id}"), "its commit")),
            None => Ok(()),
        }
    }

    fn number(&mut self, start: usize) -> Step<i64> {
        match self.log.content.get(self.at..self.at + 8) {
            Some(bytes) => {
                self.at += 8;
                Ok(i64::from_be_bytes(bytes.try_into().expect("eight bytes were taken")))
            }
            None => Err(self.fault(start, "a record that breaks off", "numbers of eight bytes")),
        }
    }

    fn time(&mut self, start: usize) -> Step<i64> {
        if !self.timed {
            return Ok(NO_TIME);
        }
        match self.number(start)? {
            NO_TIME => Err(self.fault(start, NO_TIME.to_string(), "a time after -2^63")),
            time => Ok(time),
        }
    }

    fn unexpected(&self, start: usize, expected: &str) -> Malformed {
        let byte = self.log.content[start];
        let found = if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("0x{byte:02x}") };
        self.fault(start, found, expected)
    }

    fn fault(&self, at: usize, found: impl Into<String>, expected: impl Into<String>) -> Malformed {
        fault(0, &format!("{}, byte {at}", crate::line::snippet(&self.log.name)), found, expected)
    }
}

/// Names with numbers in them by those numbers: T2 before T10.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (m, n) = (digits(a), digits(b));
        let order = if m > 0 && n > 0 {
            let plain = |text: &[u8]| text.iter().copied().skip_while(|&d| d == b'0').collect::<Vec<u8>>();
            let (x, y) = (plain(&a[..m]), plain(&b[..n]));
            (a, b) = (&a[m..], &b[n..]);
            x.len().cmp(&y.len()).then(x.cmp(&y)).then(m.cmp(&n))
        } else {
            match (a, b) {
                ([], []) => return Ordering::Equal,
                ([], _) => return Ordering::Less,
                (_, []) => return Ordering::Greater,
                ([x, rest_a @ ..], [y, rest_b @ ..]) => {
                    (a, b) = (rest_a, rest_b);
                    x.cmp(y)
                }
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = vec!["T10.log", "T2.log", "T1.log", "S3.log", "T02.log", "T.log"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["S3.log", "T.log", "T1.log", "T2.log", "T02.log", "T10.log"]);
    }
}
