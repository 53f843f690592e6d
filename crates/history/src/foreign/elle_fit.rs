//! Whether a history can be said in operations of Jepsen: what is refused, what is told.
//!
//! nil is the only initial value there, what a process does after an unknown outcome belongs to no session, and what an
//! operation read that did not succeed is known only where it is not nil.

use super::Writing;
use super::numbered::{check_version_chains, left_out, note_of_initial, refusal};
use crate::error::Result;
use crate::history::{Cas, History, Op, Status};
use crate::reading::FailedCas;
use crate::value::{Kind, Value};

/// A history on its way into operations.
pub(super) struct Fit<'h> {
    history: &'h History,
    format: &'static str,
    writing: Writing,
    /// Whether operations are single reads, writes and compare-and-sets.
    pub(super) registers: bool,
    lists: bool,
    initial: &'h [Value],
    notes: Vec<String>,
}

impl<'h> Fit<'h> {
    pub(super) fn new(history: &'h History, format: &'static str, writing: Writing) -> Self {
        let registers = !history.cas.is_empty();
        let (initial, lists) = (history.initial_values(), history.has_lists());
        Fit { history, format, writing, registers, lists, initial, notes: Vec::new() }
    }

    /// What is left out or spelled otherwise; or why the history cannot be written.
    pub(super) fn notes(mut self) -> Result<Vec<String>> {
        check_version_chains(self.history, self.format, self.writing)?;
        self.check_sessions()?;
        for txn in 0..self.history.len() as u32 {
            self.check_length(txn)?;
            for row in self.history.ops_of(txn) {
                match self.history.op(row) {
                    Op::Read(key, value) => self.check_read(txn, key, value)?,
                    Op::Write(key, value) => self.check_written(txn, key, value)?,
                    Op::Append(key, _) => self.check_list(txn, key)?,
                    Op::Cas(key, cas) => self.check_cas(txn, key, cas)?,
                    Op::Scan(_) | Op::Sql(_) => return self.refuse(txn, "it has no scans or SQL statements"),
                }
            }
        }
        self.notes.extend(left_out(self.history));
        Ok(self.notes)
    }

    fn refuse<T>(&self, txn: u32, reason: &str) -> Result<T> {
        Err(refusal(self.history, txn, self.format, reason))
    }

    /// Refuses what would change verdicts, unless it is wanted all the same; then it is told.
    fn lose(&mut self, txn: u32, reason: &str, note: &str) -> Result<()> {
        if !self.writing.lossy {
            return self.refuse(txn, &format!("{reason}; --lossy leaves that out"));
        }
        self.note(note);
        Ok(())
    }

    fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|told| told == note) {
            self.notes.push(note.into());
        }
    }

    /// A process is not heard of again after an unknown outcome, so that its session would be cut there.
    fn check_sessions(&mut self) -> Result<()> {
        let mut lost = vec![false; self.history.sessions.len()];
        for txn in 0..self.history.len() as u32 {
            let lost = &mut lost[self.history.txns.session[txn as usize] as usize];
            if *lost {
                self.lose(
                    txn,
                    "no process goes on after an unknown outcome there, and its session does",
                    "sessions are split after each unknown outcome, and their order there is left out",
                )?;
            }
            *lost |= self.history.txns.status[txn as usize] == Status::Unknown;
        }
        Ok(())
    }

    fn check_length(&self, txn: u32) -> Result<()> {
        let count = self.history.ops_of(txn).len();
        if self.registers && count > 1 {
            return self
                .refuse(txn, "compare-and-sets are operations of their own there, and it has several operations");
        }
        if self.registers && count == 0 && self.history.txns.status[txn as usize] == Status::Committed {
            return self.refuse(txn, "compare-and-sets are operations of their own there, and it has none");
        }
        Ok(())
    }

    fn check_read(&mut self, txn: u32, key: u32, value: Value) -> Result<()> {
        self.check_list(txn, key)?;
        self.check_seen(txn, key, value)?;
        let status = self.history.txns.status[txn as usize];
        let is_nil = value == self.initial[key as usize] && !self.lists;
        if status == Status::Committed || !(is_nil || self.registers) {
            return Ok(());
        }
        // A read that is an operation of its own proves nothing when its outcome is unknown.
        if status == Status::Unknown && !self.registers {
            return self.lose(
                txn,
                "what an operation of unknown outcome read is not known there where it is nil",
                "reads of nothing in transactions of unknown outcome are left out",
            );
        }
        self.note("what transactions that were not committed read is left out where it is nil, or a register");
        Ok(())
    }

    /// Refuses to confuse nothing with an initial value that is not nothing.
    fn check_seen(&mut self, txn: u32, key: u32, value: Value) -> Result<()> {
        let first = self.initial[key as usize];
        if first == Value::NULL || first.is_list() {
            return Ok(());
        }
        if value == Value::NULL {
            return self.refuse(txn, "nil is the initial value there, and it saw null, which was not");
        }
        if value == first && !self.notes.iter().any(|note| note.starts_with("initial values")) {
            self.notes.push(note_of_initial(self.history, key, value, "nil"));
        }
        Ok(())
    }

    fn check_written(&self, txn: u32, key: u32, value: Value) -> Result<()> {
        let name = || self.history.json(self.history.keys.name(key));
        if value == Value::NULL {
            return self.refuse(txn, &format!("nil is the initial value there, so that {} cannot be deleted", name()));
        }
        if value == self.initial[key as usize] {
            let value = self.history.json(value);
            return self.refuse(txn, &format!("{value} is the initial value of {}, and is written again", name()));
        }
        Ok(())
    }

    fn check_list(&self, txn: u32, key: u32) -> Result<()> {
        let first = self.history.atoms.kind(self.initial[key as usize]);
        if matches!(first, Kind::List(list) if !self.history.lists.get(list).is_empty()) {
            let name = self.history.json(self.history.keys.name(key));
            return self.refuse(txn, &format!("lists start empty there, but {name} does not"));
        }
        Ok(())
    }

    fn check_cas(&mut self, txn: u32, key: u32, cas: Cas) -> Result<()> {
        self.check_seen(txn, key, cas.expected)?;
        self.check_written(txn, key, cas.new)?;
        if cas.applied {
            return Ok(());
        }
        if self.history.txns.status[txn as usize] != Status::Committed {
            return self.refuse(txn, "it has a failed compare-and-set, but was not committed");
        }
        if self.writing.failed_cas == FailedCas::Aborted {
            let reason = "a compare-and-set that failed did not take place there, and this one found another value; \
                          --failed-cas compared writes it for readers that take it so";
            return self.refuse(txn, reason);
        }
        self.note("failed compare-and-sets found another value: read them with --failed-cas compared");
        if cas.current != Value::MISSING {
            self.lose(
                txn,
                "a failed compare-and-set does not show the value that it found there",
                "the values that failed compare-and-sets were shown are left out",
            )?;
        }
        Ok(())
    }
}
