//! One operation a line, as Plume, PolySI, IsoVista and MTC have it: `r(key,value,session,transaction)`.
//!
//! The lines of a transaction stand in its order, the transactions of a session in the order of their first lines. The
//! transaction -1 marks an operation that was aborted; lines of that kind that follow each other in a session are
//! taken as one transaction. 0 is the initial value, where nobody writes it.

use std::io::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbered::{Initial, Limits, Numbered, Version};
use super::text::{unsigned, value_of};
use super::{Writing, check_size, fault, start_at_zero};
use crate::error::{Malformed, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::line::snippet;

const EXPECTED: &str = "r(key,value,session,transaction) or w(...), four numbers without spaces";

struct Row {
    txn: u32,
    op: Op,
}

/// A transaction whose lines are still coming.
struct Draft {
    session: u32,
    number: Option<u64>,
    line: u64,
    ops: u32,
}

#[derive(Default)]
struct Reader {
    history: History,
    rows: Vec<Row>,
    drafts: Vec<Draft>,
    by_name: FxHashMap<(u32, u64), u32>,
    /// The aborted transaction that each session is in, if it is in one.
    aborting: Vec<Option<u32>>,
}

pub(super) fn read(content: &[u8]) -> Result<History> {
    let mut reader = Reader::default();
    let mut line = 0;
    for text in content.split(|&byte| byte == b'\n') {
        line += 1;
        let text = text.trim_ascii();
        if !text.is_empty() {
            reader
                .line(text, line)
                .map_err(|wrong| Malformed { transactions_before: reader.drafts.len() as u64, ..wrong })?;
        }
    }
    Ok(reader.finish()?)
}

impl Reader {
    fn line(&mut self, text: &[u8], line: u64) -> std::result::Result<(), Malformed> {
        let wrong = || fault(line, "", snippet(&String::from_utf8_lossy(text)), EXPECTED);
        let (is_read, inside) = match text {
            [b'r', b'(', inside @ .., b')'] => (true, inside),
            [b'w', b'(', inside @ .., b')'] => (false, inside),
            _ => return Err(wrong()),
        };
        let mut parts = inside.split(|&byte| byte == b',');
        let mut next = || parts.next().unwrap_or_default();
        let (key, value, session, txn) = (next(), next(), next(), next());
        let (Some(key), Some(value), Some(session), None) =
            (unsigned(key), unsigned(value), unsigned(session), parts.next())
        else {
            return Err(wrong());
        };
        let number = match txn {
            b"-1" => None,
            digits => Some(unsigned(digits).ok_or_else(wrong)?),
        };
        let history = &mut self.history;
        let key = value_of(&mut history.atoms, key);
        let key = history.keys.number(key);
        let value = value_of(&mut history.atoms, value);
        let session = value_of(&mut history.atoms, session);
        let session = history.sessions.number(session);
        let op = if is_read { Op::Read(key, value) } else { Op::Write(key, value) };
        let txn = self.transaction(session, number, line);
        self.drafts[txn as usize].ops += 1;
        self.rows.push(Row { txn, op });
        if self.rows.len() >= u32::MAX as usize {
            return Err(History::too_large(self.drafts.len()));
        }
        Ok(())
    }

    #[inline]
    fn transaction(&mut self, session: u32, number: Option<u64>, line: u64) -> u32 {
        // Most lines continue the transaction of the line before.
        if let Some(last) = self.drafts.last()
            && last.session == session
            && last.number == number
            && number.is_some()
        {
            return self.drafts.len() as u32 - 1;
        }
        if self.aborting.len() <= session as usize {
            self.aborting.resize(session as usize + 1, None);
        }
        let drafts = &mut self.drafts;
        let draft = || {
            drafts.push(Draft { session, number, line, ops: 0 });
            drafts.len() as u32 - 1
        };
        match number {
            None => *self.aborting[session as usize].get_or_insert_with(draft),
            Some(number) => {
                self.aborting[session as usize] = None;
                *self.by_name.entry((session, number)).or_insert_with(draft)
            }
        }
    }

    fn finish(mut self) -> std::result::Result<History, Malformed> {
        // A counting sort: the lines of a transaction keep their order.
        let mut next = Vec::with_capacity(self.drafts.len());
        let mut total = 0;
        for draft in &self.drafts {
            next.push(total);
            total += draft.ops;
        }
        let mut order = vec![0u32; self.rows.len()];
        for (at, row) in self.rows.iter().enumerate() {
            let place = &mut next[row.txn as usize];
            order[*place as usize] = at as u32;
            *place += 1;
        }
        let mut seen = FxHashSet::default();
        let unique = self.drafts.iter().filter_map(|draft| draft.number).all(|number| seen.insert(number));
        let history = &mut self.history;
        let (mut at, mut aborted) = (0, 0);
        for draft in &self.drafts {
            for &row in &order[at..at + draft.ops as usize] {
                history.push_op(self.rows[row as usize].op);
            }
            at += draft.ops as usize;
            let (id, status) = match draft.number {
                Some(number) if unique => (value_of(&mut history.atoms, number), Status::Committed),
                Some(number) => {
                    let session = history.json(history.sessions.name(draft.session));
                    (history.atoms.text(&format!("{session}.{number}")), Status::Committed)
                }
                None => {
                    aborted += 1;
                    (history.atoms.text(&format!("aborted-{aborted}")), Status::Aborted)
                }
            };
            history.push_txn(id, draft.session, status, NO_TIME, NO_TIME, draft.line);
        }
        check_size(history)?;
        start_at_zero(history);
        Ok(self.history)
    }
}

pub(super) fn write(history: &History, writing: Writing, output: &mut dyn Write) -> Result<Vec<String>> {
    let limits = Limits {
        format: "plume",
        initial: Initial::Zero,
        aborted: true,
        negative: false,
        empty: false,
        ids: true,
        sessions: true,
    };
    let mut numbered = Numbered::of(history, limits, writing)?;
    let keys = numbered.keys();
    let sessions = numbered.sessions();
    let ids = numbered.ids();
    let sessions = sessions_of_transactions(history, &sessions, &mut numbered.notes);
    let mut block = Vec::new();
    for txn in 0..history.len() as u32 {
        let session = sessions[txn as usize];
        for row in history.ops_of(txn) {
            let (kind, key, value) = match history.op(row) {
                Op::Read(key, value) => ('r', key, value),
                Op::Write(key, value) => ('w', key, value),
                _ => continue,
            };
            let version = match numbered.version(key, value) {
                Version::Initial => 0,
                Version::Number(number) => number,
            };
            let key = keys[key as usize];
            match history.txns.status[txn as usize] {
                Status::Aborted => writeln!(block, "{kind}({key},{version},{session},-1)")?,
                _ => writeln!(block, "{kind}({key},{version},{session},{})", ids[txn as usize])?,
            }
        }
        if block.len() >= 1 << 16 {
            output.write_all(&block)?;
            block.clear();
        }
    }
    output.write_all(&block)?;
    Ok(numbered.notes)
}

/// The number of each transaction's session. Two aborted transactions with no committed one between them would be read as one, so
/// that the second gets a session of its own; what was aborted is ordered by nothing.
fn sessions_of_transactions(history: &History, numbers: &[i64], notes: &mut Vec<String>) -> Vec<i64> {
    let taken: FxHashSet<i64> = numbers.iter().copied().collect();
    let mut free = (0..).filter(|number| !taken.contains(number));
    let mut aborting = vec![false; numbers.len()];
    let mut moved = false;
    let mut sessions = Vec::with_capacity(history.len());
    for txn in 0..history.len() as u32 {
        let session = history.txns.session[txn as usize] as usize;
        let is_aborted = history.txns.status[txn as usize] == Status::Aborted;
        let is_shown = !history.ops_of(txn).is_empty();
        let follows = is_shown && is_aborted && aborting[session];
        if is_shown {
            aborting[session] = is_aborted;
        }
        moved |= follows;
        sessions.push(if follows { free.next().unwrap_or(0) } else { numbers[session] });
    }
    if moved {
        notes.push("aborted transactions that follow each other in a session get sessions of their own".into());
    }
    sessions
}
