//! The reads of one key, each with the version that it found.

use isolde_history::{History, Status, Value};
use rustc_hash::FxHashMap;

use crate::evidence::attribution::{Access, Attribution, Found, INITIAL, NONE};
use crate::evidence::faults::{Fault, ReadFault};

/// The versions that share a value: mostly one.
enum Writers {
    One(u32),
    Several(Vec<u32>),
}

/// A write that installed nothing: the operation, its transaction, whether that aborted.
#[derive(Clone, Copy)]
struct Lost {
    op: u32,
    txn: u32,
    aborted: bool,
}

/// Settles one key after another.
pub(crate) struct Settle<'a> {
    history: &'a History,
    judge_aborted: bool,
    keys: u32,
    versions: FxHashMap<Value, Writers>,
    /// What all keys so far gave.
    pub(crate) found: Found,
}

impl<'a> Settle<'a> {
    pub(crate) fn new(history: &'a History, judge_aborted: bool, keys: u32) -> Self {
        Settle { history, judge_aborted, keys, versions: FxHashMap::default(), found: Found::default() }
    }

    /// Settles the accesses of `key`, the first of which has the place `base`.
    pub(crate) fn key(
        &mut self,
        key: u32,
        initial: Value,
        base: u32,
        accesses: &[Access],
        read_of: &mut [u32],
        installs: &mut [bool],
    ) {
        self.versions.clear();
        self.versions.insert(initial, Writers::One(Attribution::initial_version(key)));
        // Runs of one transaction: only the last write of each may become a version.
        let mut at = accesses.len();
        let mut later = NONE;
        while at > 0 {
            at -= 1;
            let access = accesses[at];
            if access.wrote == Value::MISSING {
                continue;
            }
            if access.txn != later && self.history.txns.status[access.txn as usize] != Status::Aborted {
                installs[at] = true;
                let version = self.keys + base + at as u32;
                self.versions
                    .entry(access.wrote)
                    .and_modify(|writers| match writers {
                        Writers::One(first) => *writers = Writers::Several(vec![*first, version]),
                        Writers::Several(all) => all.push(version),
                    })
                    .or_insert(Writers::One(version));
            }
            later = access.txn;
        }
        let mut lost = None;
        let mut first = 0;
        while first < accesses.len() {
            let txn = accesses[first].txn;
            let length = accesses[first..].iter().take_while(|a| a.txn == txn).count();
            let run = first..first + length;
            if self.judge_aborted || self.history.txns.status[txn as usize] != Status::Aborted {
                self.run(base, accesses, run.clone(), read_of, installs, &mut lost);
            }
            first = run.end;
        }
    }

    /// The reads of one transaction on one key.
    fn run(
        &mut self,
        base: u32,
        accesses: &[Access],
        run: std::ops::Range<usize>,
        read_of: &mut [u32],
        installs: &[bool],
        lost: &mut Option<FxHashMap<Value, Vec<Lost>>>,
    ) {
        let mut own: Option<Access> = None;
        let mut before: Option<Access> = None;
        for at in run.clone() {
            let access = accesses[at];
            if access.read != Value::MISSING {
                let outside = own.is_none();
                let fault = match own {
                    Some(own) if own.wrote == access.read => None,
                    Some(_) => Some(self.fault_after_own_write(accesses, run.clone(), at, lost)),
                    None => self.look_outside(base, accesses, run.clone(), at, read_of, installs, lost),
                };
                if let Some(fault) = fault {
                    self.found.faults.push(fault);
                } else if outside
                    && let Some(earlier) = before
                    && earlier.read != access.read
                {
                    self.found.faults.push(Fault {
                        kind: ReadFault::NonRepeatable,
                        reader: access.txn,
                        read_op: access.op,
                        other_op: earlier.op,
                        other: access.txn,
                    });
                }
                if outside {
                    before = Some(access);
                }
            }
            match own {
                _ if access.refused == Value::MISSING => {}
                // It failed although its own write had just put the expected value there.
                Some(own) if own.wrote == access.refused => self.found.faults.push(Fault {
                    kind: ReadFault::NotMyOwnWrite,
                    reader: access.txn,
                    read_op: access.op,
                    other_op: own.op,
                    other: access.txn,
                }),
                Some(_) => {}
                None => self.found.blind_failures.push(access.op),
            }
            if access.wrote != Value::MISSING {
                own = Some(access);
            }
        }
    }

    /// A read that its transaction's own writes do not answer.
    #[allow(clippy::too_many_arguments)]
    fn look_outside(
        &mut self,
        base: u32,
        accesses: &[Access],
        run: std::ops::Range<usize>,
        at: usize,
        read_of: &mut [u32],
        installs: &[bool],
        lost: &mut Option<FxHashMap<Value, Vec<Lost>>>,
    ) -> Option<Fault> {
        let access = accesses[at];
        let mine = |version: u32| match version.checked_sub(self.keys + base) {
            Some(place) => run.contains(&(place as usize)) && installs[place as usize],
            None => false,
        };
        match self.versions.get(&access.read) {
            Some(Writers::One(version)) if !mine(*version) => {
                read_of[at] = *version;
                None
            }
            Some(Writers::Several(versions)) => {
                // A transaction installs at most one version of a key, so at least one is not its own.
                let mut others = versions.iter().copied().filter(|&v| !mine(v));
                let only = others.next().expect("several versions, at most one of them its own");
                if others.next().is_some() {
                    self.found.ambiguous.push(access.op);
                } else {
                    read_of[at] = only;
                }
                None
            }
            _ => Some(self.fault_of_value(accesses, run, at, lost)),
        }
    }

    /// Why no version has the value that was read.
    fn fault_of_value(
        &mut self,
        accesses: &[Access],
        run: std::ops::Range<usize>,
        at: usize,
        lost: &mut Option<FxHashMap<Value, Vec<Lost>>>,
    ) -> Fault {
        let access = accesses[at];
        let fault = |kind, other_op, other| Fault { kind, reader: access.txn, read_op: access.op, other_op, other };
        if let Some(later) = accesses[at..run.end].iter().find(|a| a.wrote == access.read) {
            return fault(ReadFault::Future, later.op, access.txn);
        }
        let lost = lost.get_or_insert_with(|| lost_writes(self.history, accesses));
        let writers = lost.get(&access.read).map_or(&[][..], |all| all);
        let others = || writers.iter().filter(|w| w.txn != access.txn);
        // Of several writers, one that was not aborted is the likelier.
        match others().find(|w| !w.aborted).or_else(|| others().next()) {
            Some(seen) => fault(ReadFault::of_uninstalled(seen.aborted), seen.op, seen.txn),
            None => fault(ReadFault::ThinAir, NONE, INITIAL),
        }
    }

    /// A read after an own write of something else.
    fn fault_after_own_write(
        &mut self,
        accesses: &[Access],
        run: std::ops::Range<usize>,
        at: usize,
        lost: &mut Option<FxHashMap<Value, Vec<Lost>>>,
    ) -> Fault {
        let access = accesses[at];
        let fault = |kind, other_op, other| Fault { kind, reader: access.txn, read_op: access.op, other_op, other };
        if let Some(own) = accesses[run.start..at].iter().find(|a| a.wrote == access.read) {
            return fault(ReadFault::NotMyLastWrite, own.op, access.txn);
        }
        if let Some(own) = accesses[at..run.end].iter().find(|a| a.wrote == access.read) {
            return fault(ReadFault::Future, own.op, access.txn);
        }
        match self.versions.get(&access.read) {
            Some(Writers::One(version)) => match version.checked_sub(self.keys) {
                Some(_) => {
                    let seen = accesses.iter().find(|a| a.wrote == access.read).expect("the version is of this key");
                    fault(ReadFault::NotMyOwnWrite, seen.op, seen.txn)
                }
                None => fault(ReadFault::NotMyOwnWrite, NONE, INITIAL),
            },
            Some(Writers::Several(_)) => fault(ReadFault::NotMyOwnWrite, NONE, INITIAL),
            None => self.fault_of_value(accesses, run, at, lost),
        }
    }
}

/// Every write of a key that is not a version, by value.
fn lost_writes(history: &History, accesses: &[Access]) -> FxHashMap<Value, Vec<Lost>> {
    let mut lost: FxHashMap<Value, Vec<Lost>> = FxHashMap::default();
    for access in accesses.iter().filter(|a| a.wrote != Value::MISSING) {
        let aborted = history.txns.status[access.txn as usize] == Status::Aborted;
        lost.entry(access.wrote).or_default().push(Lost { op: access.op, txn: access.txn, aborted });
    }
    lost
}
