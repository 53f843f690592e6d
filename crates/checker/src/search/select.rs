//! Reads with several possible writers, and who may have taken effect because of them.
//!
//! Two transactions may write the same value, a deleted key looks like one that never was, and a failed compare-and-set
//! may only say what it did not see. Which version such a read saw is a choice. A transaction of unknown outcome
//! that nobody certainly read from *may* have taken effect, if that explains such a read, or what a `versions` line
//! says; it then answers for its own reads.

use isolde_history::{NO_KEY, Op, Status, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::allowance::Allowance;
use super::meant::Entry;
use crate::analysis::Analysis;
use crate::decision::Violation;
use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::faults::{Fault, ReadFault};
use crate::evidence::outcome::Role;

/// What a candidate takes.
const CANDIDATE_BYTES: u64 = 4;

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

impl Selector {
    /// Nobody who can have taken effect explains it.
    pub fn fault(&self) -> Violation {
        let kind = ReadFault::ThinAir;
        Violation::Fault(Fault { kind, reader: self.reader, read_op: self.op, other_op: NONE, other: INITIAL })
    }
}

/// What a level asks of those who may have taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demands {
    /// Their start must be known.
    pub timed: bool,
    /// Their reads of a key must agree.
    pub repeatable: bool,
    /// What they read must be explained at all.
    pub reads: bool,
}

/// All of them, by reader.
#[derive(Clone, Default)]
pub struct Selectors {
    /// The reads.
    pub all: Vec<Selector>,
    /// Transactions of unknown outcome that may have taken effect, ascending.
    pub maybe: Vec<u32>,
    /// Whether one was left out because its start is not known.
    pub left_out: Option<u32>,
    /// The entries of the `versions` lines that leave something open, line by line.
    pub entries: Vec<Entry>,
    /// Whether there are more candidates than may be held; the reads are then not complete.
    pub too_many: bool,
}

impl Selectors {
    /// Finds the choices, as many as may be held.
    pub fn of(analysis: &Analysis, roles: &[Role], demands: Demands, allowance: &mut Allowance) -> Selectors {
        let mut finder = Finder {
            analysis,
            roles,
            demands,
            allowance,
            faulty: faulty(analysis, demands),
            seen: FxHashSet::default(),
            queue: Vec::new(),
            by_key: FxHashMap::default(),
            found: Selectors::default(),
        };
        finder.find();
        let mut selectors = finder.found;
        selectors.all.sort_by_key(|selector| (selector.reader, selector.op));
        selectors.maybe.sort_unstable();
        selectors
    }

    /// Whether every read has one writer, and every told value.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.entries.is_empty()
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

    /// A read that only transactions explain that cannot have taken effect.
    pub fn unexplained(&self, roles: &[Role]) -> Option<&Selector> {
        let mut all = self.all.iter();
        all.find(|selector| selector.candidates.is_empty() && roles[selector.reader as usize] != Role::Absent)
    }
}

/// Those with reads that nothing explains.
fn faulty(analysis: &Analysis, demands: Demands) -> FxHashSet<u32> {
    let faults = analysis.attribution.faults.iter();
    faults
        .filter(|fault| demands.reads && (demands.repeatable || fault.kind != ReadFault::NonRepeatable))
        .map(|fault| fault.reader)
        .collect()
}

struct Finder<'a> {
    analysis: &'a Analysis,
    roles: &'a [Role],
    demands: Demands,
    allowance: &'a mut Allowance,
    faulty: FxHashSet<u32>,
    seen: FxHashSet<u32>,
    queue: Vec<u32>,
    /// By key: the versions that may be there, with their values.
    by_key: FxHashMap<u32, Versions>,
    found: Selectors,
}

impl Finder<'_> {
    fn find(&mut self) {
        let attribution = &self.analysis.attribution;
        let mut open: FxHashSet<u32> = FxHashSet::default();
        if self.demands.reads {
            open.extend(attribution.ambiguous.iter().chain(&attribution.blind_failures));
            self.queue = open.iter().map(|&op| self.analysis.txn_of(op)).collect();
            self.queue.retain(|&txn| self.roles[txn as usize] != Role::Absent);
            self.queue.sort_unstable();
            self.queue.dedup();
        }
        let lines = if self.analysis.history.has_lists() { &[][..] } else { &self.analysis.history.versions };
        if self.queue.is_empty() && !self.analysis.dependencies.told_ambiguously {
            return;
        }
        let mut by_value: FxHashMap<u32, FxHashMap<Value, Vec<u32>>> = FxHashMap::default();
        for &(key, _) in lines {
            by_value.entry(key).or_insert_with(|| {
                let mut versions: FxHashMap<Value, Vec<u32>> = FxHashMap::default();
                let all = &self.versions(key).all;
                all.iter().for_each(|&(value, version)| versions.entry(value).or_default().push(version));
                versions
            });
        }
        let with = |key: &u32, value: &Value| by_value[key].get(value).cloned().unwrap_or_default();
        let possible: Vec<Vec<Vec<u32>>> =
            lines.iter().map(|(key, values)| values.iter().map(|value| with(key, value)).collect()).collect();
        for versions in possible.iter().filter(|line| line.iter().any(|versions| versions.len() > 1)).flatten() {
            versions.iter().for_each(|&version| {
                self.admits(version, NONE);
            });
        }
        while let Some(reader) = self.queue.pop() {
            self.read(reader, &open);
            if self.found.too_many {
                return;
            }
        }
        for (line, entries) in possible.into_iter().enumerate() {
            self.entries(line as u32, entries);
        }
    }

    /// The reads of a transaction whose writers are open, or that only count if it took effect.
    fn read(&mut self, reader: u32, open: &FxHashSet<u32>) {
        let analysis = self.analysis;
        let attribution = &analysis.attribution;
        let maybe = self.roles[reader as usize] == Role::Absent;
        if maybe && self.demands.reads && !self.told_sources_may_be_there(reader) {
            // It did not take effect: no candidate is left for what it read.
            let first = analysis.history.ops_of(reader).start as u32;
            let key = analysis.history.ops.key[first as usize];
            self.found.all.push(Selector { reader, op: first, key, candidates: Vec::new() });
            return;
        }
        for row in analysis.history.ops_of(reader).filter(|&row| analysis.history.ops.key[row] != NO_KEY) {
            let (op, key) = (row as u32, analysis.history.ops.key[row]);
            let definite = attribution.read_of[attribution.place(key, op) as usize];
            let mut candidates = if open.contains(&op) {
                let fitting = fitting(analysis, row, self.versions(key));
                // They are held once as they are, and once without those that cannot have been seen.
                let count = fitting.len() as u64;
                self.found.too_many = !self.allowance.look(count) || !self.allowance.hold(2 * CANDIDATE_BYTES * count);
                if self.found.too_many {
                    return;
                }
                fitting
            } else if maybe && self.demands.reads && definite != NONE {
                vec![definite]
            } else {
                continue;
            };
            candidates.retain(|&version| attribution.writer(version) != reader && self.admits(version, reader));
            self.found.all.push(Selector { reader, op, key, candidates });
        }
    }

    /// Whether those that evidence from outside says it read from may have taken effect; they are then among those.
    fn told_sources_may_be_there(&mut self, reader: u32) -> bool {
        let analysis = self.analysis;
        let unknown = |writer: u32| analysis.history.txns.status[writer as usize] == Status::Unknown;
        let told = analysis.outside.read_from().filter(|&(other, writer)| other == reader && unknown(writer));
        told.fold(true, |so_far, (_, writer)| so_far & self.may_have_taken_effect(writer, reader))
    }

    /// Whether a version may have been there; its writer is then one that may have taken effect.
    fn admits(&mut self, version: u32, reader: u32) -> bool {
        let writer = self.analysis.attribution.writer(version);
        writer == INITIAL || self.may_have_taken_effect(writer, reader)
    }

    fn may_have_taken_effect(&mut self, writer: u32, reader: u32) -> bool {
        if self.roles[writer as usize] == Role::Effective {
            return true;
        }
        if writer == reader || self.faulty.contains(&writer) {
            return false;
        }
        if self.demands.timed && self.analysis.history.txns.start[writer as usize] == isolde_history::NO_TIME {
            self.found.left_out = Some(writer);
            return false;
        }
        if self.seen.insert(writer) {
            self.found.maybe.push(writer);
            self.queue.push(writer);
        }
        true
    }

    /// What a line may mean, if that is open: if a value has several writers, or one that may have taken effect.
    fn entries(&mut self, line: u32, possible: Vec<Vec<u32>>) {
        let attribution = &self.analysis.attribution;
        let certain = |version: u32| {
            let writer = attribution.writer(version);
            writer == INITIAL || self.roles[writer as usize] == Role::Effective
        };
        let open = |versions: &Vec<u32>| {
            versions.len() > 1 || versions.iter().any(|&version| self.seen.contains(&attribution.writer(version)))
        };
        if !possible.iter().any(open) {
            return;
        }
        let mut begun = false;
        for (at, versions) in possible.into_iter().enumerate() {
            let settled = versions.len() == 1 && certain(versions[0]);
            let sure = versions.iter().any(|&version| certain(version));
            let mut candidates = versions;
            candidates.retain(|&version| {
                let writer = attribution.writer(version);
                // Nothing comes before the initial version.
                if writer == INITIAL { settled || !begun } else { certain(version) || self.seen.contains(&writer) }
            });
            if sure || !candidates.is_empty() {
                self.found.entries.push(Entry { line, at: at as u32, candidates, sure, settled });
            }
            begun |= sure;
        }
    }

    fn versions(&mut self, key: u32) -> &Versions {
        self.by_key.entry(key).or_insert_with(|| Versions::new(versions(self.analysis, key)))
    }
}

/// The versions of a key that may be there, with their values.
struct Versions {
    all: Vec<(Value, u32)>,
    by_value: FxHashMap<Value, Vec<u32>>,
}

impl Versions {
    fn new(all: Vec<(Value, u32)>) -> Versions {
        let mut by_value: FxHashMap<Value, Vec<u32>> = FxHashMap::default();
        all.iter().for_each(|&(value, version)| by_value.entry(value).or_default().push(version));
        Versions { all, by_value }
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
fn fitting(analysis: &Analysis, row: usize, versions: &Versions) -> Vec<u32> {
    let fits = |wanted: Value, equal: bool| match equal {
        true => versions.by_value.get(&wanted).cloned().unwrap_or_default(),
        false => versions.all.iter().filter(|(value, _)| *value != wanted).map(|&(_, version)| version).collect(),
    };
    match analysis.history.op(row) {
        Op::Read(_, value) => fits(value, true),
        Op::Cas(_, cas) if cas.applied => fits(cas.expected, true),
        Op::Cas(_, cas) if cas.current == Value::MISSING => fits(cas.expected, false),
        Op::Cas(_, cas) => fits(cas.current, true),
        Op::Write(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => Vec::new(),
    }
}
