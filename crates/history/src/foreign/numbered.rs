//! Histories as the formats of numbers see them: reads and writes of registers, versions that are numbers.
//!
//! The tools behind these formats only compare keys, so keys that are no fitting numbers are numbered anew. Values stay as
//! they are, except that a read of what the key holds at first becomes [`Version::Initial`].

use rustc_hash::{FxHashMap, FxHashSet};

use super::Writing;
use crate::error::{Error, Result};
use crate::history::{History, NO_TIME, Op, Status};
use crate::value::{Kind, Value};

const NAMED_MAX: usize = 5;

/// How a format speaks of the value that a key holds before any write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Initial {
    /// It is 0, unless somebody writes 0 to the key; then it cannot be said.
    Zero,
    /// It has a sign of its own, and so has a read of 0 that nobody wrote.
    Marked(&'static str),
    /// It has a sign of its own, and 0 is a number like others.
    Free,
    /// There is none, so that it cannot be read.
    None,
}

/// What a format can say.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) format: &'static str,
    pub(super) initial: Initial,
    pub(super) aborted: bool,
    pub(super) negative: bool,
    /// Whether a transaction may have no operations.
    pub(super) empty: bool,
    /// Whether transactions have numbers.
    pub(super) ids: bool,
    /// Whether sessions have numbers.
    pub(super) sessions: bool,
}

/// What was read or written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Initial,
    Number(i64),
}

/// A history that fits.
pub(super) struct Numbered<'h> {
    history: &'h History,
    /// What was renamed or left out.
    pub(super) notes: Vec<String>,
    initial: &'h [Value],
    limits: Limits,
}

impl<'h> Numbered<'h> {
    /// The history within the limits, or why it does not fit: the first transaction that does not.
    pub(super) fn of(history: &'h History, limits: Limits, writing: Writing) -> Result<Numbered<'h>> {
        let mut numbered = Numbered { history, limits, notes: Vec::new(), initial: history.initial_values() };
        numbered.check()?;
        check_version_chains(history, limits.format, writing)?;
        numbered.note_initial();
        numbered.note_names();
        if has_times(history) {
            numbered.notes.push(TIMES_LEFT_OUT.into());
        }
        numbered.notes.extend(left_out(history));
        Ok(numbered)
    }

    /// Says how an initial value is spelled, where reading it back gives another one.
    fn note_initial(&mut self) {
        let (read_back, spelled) = match self.limits.initial {
            Initial::Zero => (nought(), "0"),
            Initial::Marked(sign) => (nought(), sign),
            Initial::Free => (Value::NULL, "a read of the initial state"),
            Initial::None => return,
        };
        let changed = |&(key, value): &(u32, Value)| value == self.initial[key as usize] && value != read_back;
        let history = self.history;
        let mut reads = (0..history.ops.kind.len()).filter_map(|row| match history.op(row) {
            Op::Read(key, value) => Some((key, value)),
            _ => None,
        });
        if let Some((key, value)) = reads.find(changed) {
            self.notes.push(note_of_initial(history, key, value, spelled));
        }
    }

    /// Says which names the format has no place for.
    fn note_names(&mut self) {
        let history = self.history;
        let is = |name: Value, number: usize| name.as_small_int() == Some(number as i64);
        let empty = (0..history.len() as u32).filter(|&txn| history.ops_of(txn).is_empty()).count();
        if empty > 0 && !self.limits.empty {
            self.notes.push(format!("{empty} transactions without operations are left out"));
        }
        let by_place = by_session(history).concat();
        let ids_are_places = || by_place.iter().enumerate().all(|(n, &txn)| is(history.txns.id[txn as usize], n));
        if !self.limits.ids && !ids_are_places() {
            self.notes.push("ids are left out: transactions are known by their place".into());
        } else if self.limits.ids && self.own_ids().is_none() {
            self.notes
                .push("ids are left out, since not all are numbers: transactions are known by their place".into());
        }
        let sessions = history.sessions.all();
        if !self.limits.sessions && !sessions.iter().enumerate().all(|(number, &name)| is(name, number)) {
            self.notes.push("names of sessions are left out: they are known by their place".into());
        }
    }

    /// What a value of a key is called.
    pub(super) fn version(&self, key: u32, value: Value) -> Version {
        match integer(self.history, value) {
            Some(number) if value != self.initial[key as usize] => Version::Number(number),
            _ => Version::Initial,
        }
    }

    /// The numbers of the keys, the history's own where it has some.
    pub(super) fn keys(&mut self) -> Vec<i64> {
        let names = self.history.keys.all();
        let (keys, renamed) = numbers(self.history, names, self.limits.negative);
        if renamed {
            self.notes.push(note_of_names(self.history, "keys", names, ""));
        }
        keys
    }

    /// The numbers of the sessions, the history's own where it has some.
    pub(super) fn sessions(&mut self) -> Vec<i64> {
        let names = self.history.sessions.all();
        let (sessions, renamed) = numbers(self.history, names, false);
        if renamed {
            self.notes.push(note_of_names(self.history, "sessions", names, ""));
        }
        sessions
    }

    /// The numbers of the transactions: their ids if all are numbers, else their positions.
    pub(super) fn ids(&self) -> Vec<i64> {
        self.own_ids().unwrap_or_else(|| (0..self.history.len() as i64).collect())
    }

    fn own_ids(&self) -> Option<Vec<i64>> {
        let status = &self.history.txns.status;
        let number = |(id, status): (&Value, &Status)| match status {
            Status::Aborted => Some(-1),
            _ => integer(self.history, *id).filter(|number| *number >= 0),
        };
        self.history.txns.id.iter().zip(status).map(number).collect()
    }

    fn check(&self) -> Result<()> {
        let (history, limits) = (self.history, self.limits);
        let zeros = self.keys_with_zero();
        for txn in 0..history.len() as u32 {
            let refuse = |what: String| Err(refusal(history, txn, limits.format, &what));
            match history.txns.status[txn as usize] {
                Status::Unknown => return refuse("it has no unknown outcomes".into()),
                Status::Aborted if !limits.aborted => return refuse("it has no aborted transactions".into()),
                _ => {}
            }
            for row in history.ops_of(txn) {
                let (key, value, is_read) = match history.op(row) {
                    Op::Read(key, value) => (key, value, true),
                    Op::Write(key, value) => (key, value, false),
                    Op::Append(..) => return refuse("it has no lists".into()),
                    Op::Cas(..) => return refuse("it has no compare-and-set".into()),
                    Op::Scan(_) | Op::Sql(_) => return refuse("it has no scans or SQL statements".into()),
                };
                let name = || history.json(history.keys.name(key));
                if value == self.initial[key as usize] {
                    if is_read && limits.initial == Initial::None {
                        return refuse(format!("it has no initial values, and that of {} is read", name()));
                    } else if is_read && limits.initial == Initial::Zero && zeros.contains(&key) {
                        let reason = "0 is the initial value there, but somebody writes 0 to";
                        return refuse(format!("{reason} {}, whose initial value is read", name()));
                    } else if is_read {
                        continue;
                    } else if value != Value::NULL {
                        let value = history.json(value);
                        return refuse(format!("{value} is the initial value of {}, and is written again", name()));
                    }
                }
                if value == Value::NULL {
                    let act = if is_read { "read of nothing" } else { "deletion" };
                    return refuse(format!("it has no {act} (key {})", name()));
                }
                if value.is_list() {
                    return refuse("it has no lists".into());
                }
                let fits = |number: &i64| limits.negative || *number >= 0;
                if integer(history, value).filter(fits).is_none() {
                    let numbers = if limits.negative { "integers of 64 bits" } else { "numbers from 0 to 2^63 - 1" };
                    return refuse(format!("its values are {numbers}, not {}", history.json(value)));
                }
                let zero_is_initial = matches!(limits.initial, Initial::Zero | Initial::Marked(_));
                if value == nought() && is_read && zero_is_initial && !zeros.contains(&key) {
                    return refuse(format!("0 is the initial value there, but not that of {}", name()));
                }
            }
        }
        Ok(())
    }

    /// The keys to which somebody writes 0.
    fn keys_with_zero(&self) -> FxHashSet<u32> {
        let written = |row| match self.history.op(row) {
            Op::Write(key, value) if value == nought() => Some(key),
            _ => None,
        };
        (0..self.history.ops.kind.len()).filter_map(written).collect()
    }
}

fn nought() -> Value {
    Value::small_int(0).expect("0 is small")
}

/// Refuses version chains, which no format of another tool has: what they rule out would be allowed again.
pub(super) fn check_version_chains(history: &History, format: &str, writing: Writing) -> Result<()> {
    match history.versions.first() {
        Some((key, _)) if !writing.lossy => Err(Error::Refused(format!(
            "a history with version chains (key {}) cannot be written as {format}: without them more may be allowed; \
             --lossy leaves them out",
            history.json(history.keys.name(*key))
        ))),
        _ => Ok(()),
    }
}

/// Says that an initial value is spelled in the format's own way.
pub(super) fn note_of_initial(history: &History, key: u32, value: Value, spelled: &str) -> String {
    let (key, value) = (history.json(history.keys.name(key)), history.json(value));
    format!("initial values are written as {spelled}, such as {value} of {key}")
}

/// What is said where a format has no times.
pub(super) const TIMES_LEFT_OUT: &str = "times are left out";

/// The transactions of each session, in order.
pub(super) fn by_session(history: &History) -> Vec<Vec<u32>> {
    let mut sessions = vec![Vec::new(); history.sessions.len()];
    for (txn, &session) in history.txns.session.iter().enumerate() {
        sessions[session as usize].push(txn as u32);
    }
    sessions
}

/// Why a format cannot take a transaction.
pub(super) fn refusal(history: &History, txn: u32, format: &str, reason: &str) -> Error {
    let id = history.json(history.txns.id[txn as usize]);
    Error::Refused(format!("transaction {id} cannot be written as {format}: {reason}"))
}

/// What no format of another tool carries, if the history has it.
pub(super) fn left_out(history: &History) -> Option<String> {
    let mut names = Vec::new();
    for (name, there) in [
        ("meta", history.header.meta.is_some()),
        ("unknown fields of the header", !history.header.fields.is_empty()),
        ("version chains", !history.versions.is_empty()),
        ("serial, snapshot or unknown fields", !history.extras.is_empty()),
    ] {
        if there {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| format!("{} are left out", names.join(", ")))
}

/// Whether any transaction says when it happened.
pub(super) fn has_times(history: &History) -> bool {
    history.txns.start.iter().chain(&history.txns.end).any(|&time| time != NO_TIME)
}

/// The integer that a value is, if it is one of 64 bits.
pub(super) fn integer(history: &History, value: Value) -> Option<i64> {
    match history.atoms.kind(value) {
        Kind::Int(number) => Some(number),
        Kind::Number(text) => text.parse().ok(),
        _ => None,
    }
}

/// The numbers that names are, or else their places; and whether it is the latter.
pub(super) fn numbers(history: &History, names: &[Value], negative: bool) -> (Vec<i64>, bool) {
    let own: Option<Vec<i64>> =
        names.iter().map(|&name| integer(history, name).filter(|number| negative || *number >= 0)).collect();
    match own {
        Some(numbers) => (numbers, false),
        None => ((0..names.len() as i64).collect(), true),
    }
}

/// Says how names were numbered.
pub(super) fn note_of_names(history: &History, what: &str, names: &[Value], prefix: &str) -> String {
    let shown = names.iter().take(NAMED_MAX).enumerate();
    let mut shown: Vec<String> = shown.map(|(at, &name)| format!("{} is {prefix}{at}", history.json(name))).collect();
    if names.len() > NAMED_MAX {
        shown.push("...".into());
    }
    format!("{what} are numbered in the order of their first use: {}", shown.join(", "))
}

/// Who wrote each number, when every number is written once only; else the transaction that writes one again.
pub(super) fn unique_writers(history: &History) -> std::result::Result<FxHashMap<Value, (u32, u32)>, u32> {
    let mut writers = FxHashMap::default();
    for txn in 0..history.len() as u32 {
        for row in history.ops_of(txn) {
            if let Op::Write(key, value) = history.op(row)
                && writers.insert(value, (txn, key)).is_some()
            {
                return Err(txn);
            }
        }
    }
    Ok(writers)
}
