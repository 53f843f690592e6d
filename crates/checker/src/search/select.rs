//! Reads with several possible writers, and who may have taken effect because of them.
//!
//! Two transactions may write the same value, a deleted key looks like one that never was, and a failed compare-and-set
//! may only say what it did not see. Which version such a read saw is a choice. A transaction of unknown outcome
//! that nobody certainly read from *may* have taken effect, if that explains such a read; it then answers for its own reads.

use isolde_history::{NO_KEY, Op, Status, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::Analysis;
use crate::attribution::{Attribution, INITIAL, NONE};
use crate::outcome::Role;

/// A read and the versions that it may have seen.
#[derive(Clone, Debug)]
pub struct Selector {
    /// Who read.
    pub reader: u32,
    /// The operation.
    pub op: u32,
    /// The key.
    pub key: u32,
    /// The versions.
    pub candidates: Vec<u32>,
}

/// All of them, by reader.
#[derive(Default)]
pub struct Selectors {
    /// The reads.
    pub all: Vec<Selector>,
    /// Transactions of unknown outcome that may have taken effect, ascending.
    pub maybe: Vec<u32>,
    /// Whether one was left out because its start is not known.
    pub left_out: Option<u32>,
}

impl Selectors {
    /// Finds the choices that a level above read atomic has; with `timed`, only among transactions with a start.
    pub fn of(analysis: &Analysis, timed: bool) -> Selectors {
        let mut selectors = Selectors::default();
        let attribution = &analysis.attribution;
        let open: FxHashSet<u32> = attribution.ambiguous.iter().chain(&attribution.blind_failures).copied().collect();
        if open.is_empty() {
            return selectors;
        }
        let faulty: FxHashSet<u32> = attribution.faults.iter().map(|fault| fault.reader).collect();
        let mut by_key: FxHashMap<u32, Vec<(Value, u32)>> = FxHashMap::default();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        let mut queue: Vec<u32> = open.iter().map(|&op| analysis.txn_of(op)).collect();
        queue.retain(|&txn| analysis.roles[txn as usize] != Role::Absent);
        queue.sort_unstable();
        queue.dedup();
        while let Some(reader) = queue.pop() {
            let maybe = analysis.roles[reader as usize] == Role::Absent;
            for row in analysis.history.ops_of(reader).filter(|&row| analysis.history.ops.key[row] != NO_KEY) {
                let (op, key) = (row as u32, analysis.history.ops.key[row]);
                let definite = attribution.read_of[attribution.place(key, op) as usize];
                let mut candidates = if open.contains(&op) {
                    let versions = by_key.entry(key).or_insert_with(|| versions(analysis, key));
                    fitting(analysis, row, versions)
                } else if maybe && definite != NONE {
                    vec![definite]
                } else {
                    continue;
                };
                candidates.retain(|&version| {
                    let writer = attribution.writer(version);
                    if writer == INITIAL || analysis.roles[writer as usize] == Role::Effective {
                        return writer != reader;
                    }
                    if writer == reader || faulty.contains(&writer) {
                        return false;
                    }
                    if timed && analysis.history.txns.start[writer as usize] == isolde_history::NO_TIME {
                        selectors.left_out = Some(writer);
                        return false;
                    }
                    if seen.insert(writer) {
                        selectors.maybe.push(writer);
                        queue.push(writer);
                    }
                    true
                });
                selectors.all.push(Selector { reader, op, key, candidates });
            }
        }
        selectors.all.sort_by_key(|selector| (selector.reader, selector.op));
        selectors.maybe.sort_unstable();
        selectors
    }

    /// Whether every read has one writer.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The open reads of a transaction.
    pub fn of_reader(&self, txn: u32) -> &[Selector] {
        let first = self.all.partition_point(|selector| selector.reader < txn);
        let count = self.all[first..].iter().take_while(|selector| selector.reader == txn).count();
        &self.all[first..first + count]
    }

    /// Whether `txn` may have taken effect.
    pub fn is_maybe(&self, txn: u32) -> bool {
        self.maybe.binary_search(&txn).is_ok()
    }
}

/// The versions of a key that may be there, with their values.
fn versions(analysis: &Analysis, key: u32) -> Vec<(Value, u32)> {
    let attribution = &analysis.attribution;
    let mut versions = vec![(analysis.history.initial_value(key), Attribution::initial_version(key))];
    for place in attribution.places(key).filter(|&place| attribution.installs[place]) {
        debug_assert_ne!(analysis.history.txns.status[attribution.txn[place] as usize], Status::Aborted);
        let value = match analysis.history.op(attribution.op[place] as usize) {
            Op::Write(_, value) => value,
            Op::Cas(_, cas) => cas.new,
            Op::Read(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => continue,
        };
        versions.push((value, attribution.version_at(place as u32)));
    }
    versions
}

/// The versions that an operation may have seen.
fn fitting(analysis: &Analysis, row: usize, versions: &[(Value, u32)]) -> Vec<u32> {
    let fits = |wanted: Value, equal: bool| {
        versions.iter().filter(|(value, _)| (*value == wanted) == equal).map(|&(_, version)| version).collect()
    };
    match analysis.history.op(row) {
        Op::Read(_, value) => fits(value, true),
        Op::Cas(_, cas) if cas.applied => fits(cas.expected, true),
        Op::Cas(_, cas) if cas.current == Value::MISSING => fits(cas.expected, false),
        Op::Cas(_, cas) => fits(cas.current, true),
        Op::Write(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => Vec::new(),
    }
}
