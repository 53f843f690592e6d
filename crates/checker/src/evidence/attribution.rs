//! Who wrote what was read.
//!
//! The operations are sorted by key, and each key is settled by itself: the values that its transactions
//! left behind are its *versions*, and every read either finds its version, or several (then it is open),
//! or none (then it is an anomaly that no order can explain). Keys are independent, so they are shared out
//! over the threads. Cost: linear in the operations.
//!
//! A version is named by the place of its write in the order by key; the initial version of a key comes
//! before all places, see [`Attribution::initial_version`].

use isolde_history::{History, NO_KEY, Op, Value};

use crate::evidence::faults::Fault;
use crate::evidence::lists::ListKey;
use crate::evidence::registers::Settle;
use crate::parallel;

/// No version, no place.
pub const NONE: u32 = u32::MAX;
/// The writer of every initial version.
pub const INITIAL: u32 = u32::MAX;

/// The operations by key, and what became of each.
pub struct Attribution {
    /// Where each key's places start; one more than there are keys.
    pub key_start: Vec<u32>,
    /// The operation at each place.
    pub op: Vec<u32>,
    /// Its transaction.
    pub txn: Vec<u32>,
    /// The version that the operation read, for reads that look outside of their transaction.
    pub read_of: Vec<u32>,
    /// Whether the operation installed a version (the last write of a transaction that may have committed).
    pub installs: Vec<bool>,
    /// Reads that nothing explains, by place.
    pub faults: Vec<Fault>,
    /// Operations whose value has several possible writers.
    pub ambiguous: Vec<u32>,
    /// Failed compare-and-sets that do not say what they saw.
    pub blind_failures: Vec<u32>,
    /// Readers of lists that show elements of transactions of unknown outcome, and those transactions.
    pub also_seen: Vec<(u32, u32)>,
    /// Whether an element of a list may have been appended more than once.
    pub shared: bool,
    /// Appends of transactions of unknown outcome whose element somebody else may have appended too.
    pub shared_in_doubt: Vec<u32>,
    keys: u32,
}

impl Attribution {
    /// The version that a key holds before the first transaction.
    pub fn initial_version(key: u32) -> u32 {
        key
    }

    /// The version that the write at `place` installed.
    pub fn version_at(&self, place: u32) -> u32 {
        self.keys + place
    }

    /// The place of the write that installed `version`; none for initial ones.
    pub fn place_of(&self, version: u32) -> Option<u32> {
        version.checked_sub(self.keys)
    }

    /// How many versions there may be.
    pub fn version_count(&self) -> usize {
        self.keys as usize + self.op.len()
    }

    /// Who installed `version`.
    pub fn writer(&self, version: u32) -> u32 {
        match self.place_of(version) {
            Some(place) => self.txn[place as usize],
            None => INITIAL,
        }
    }

    /// The places of a key.
    pub fn places(&self, key: u32) -> std::ops::Range<usize> {
        self.key_start[key as usize] as usize..self.key_start[key as usize + 1] as usize
    }

    /// How many keys there are.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The key of a version.
    pub fn key_of(&self, version: u32) -> u32 {
        match self.place_of(version) {
            Some(place) => self.key_start.partition_point(|&start| start <= place) as u32 - 1,
            None => version,
        }
    }

    /// The place of an operation on `key`.
    pub fn place(&self, key: u32, op: u32) -> u32 {
        let places = self.places(key);
        let at = self.op[places.clone()].binary_search(&op).expect("an operation stands under its key");
        (places.start + at) as u32
    }
}

/// An operation reduced to what attribution needs.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) op: u32,
    pub(crate) txn: u32,
    /// What was read, or [`Value::MISSING`].
    pub(crate) read: Value,
    /// What was written or appended, or [`Value::MISSING`].
    pub(crate) wrote: Value,
    /// What was not there when a compare-and-set failed that says no more, or [`Value::MISSING`].
    pub(crate) refused: Value,
}

/// What one key gave.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) faults: Vec<Fault>,
    pub(crate) ambiguous: Vec<u32>,
    pub(crate) blind_failures: Vec<u32>,
    /// Who saw something of a transaction of unknown outcome that another one was read from.
    pub(crate) also_seen: Vec<(u32, u32)>,
    pub(crate) shared: bool,
    pub(crate) shared_in_doubt: Vec<u32>,
}

/// Attributes every read of a register history. With `judge_aborted` those of aborted transactions too.
pub fn attribute(history: &History, judge_aborted: bool, threads: usize) -> Attribution {
    let (key_start, accesses) = by_key(history);
    let keys = history.keys.len() as u32;
    let count = accesses.len();
    let mut read_of = vec![NONE; count];
    let mut installs = vec![false; count];
    let mut initial = vec![Value::NULL; keys as usize];
    for (name, value) in &history.header.initial {
        if let Some(key) = history.keys.find(*name) {
            initial[key as usize] = *value;
        }
    }

    let lists = history.has_lists();
    let cuts = cut_evenly(&key_start, threads);
    let mut rest_read = &mut read_of[..];
    let mut rest_installs = &mut installs[..];
    let mut jobs = Vec::new();
    for window in cuts.windows(2) {
        let (first, last) = (window[0], window[1]);
        let size = (key_start[last as usize] - key_start[first as usize]) as usize;
        let (reads, after) = rest_read.split_at_mut(size);
        rest_read = after;
        let (finals, after) = rest_installs.split_at_mut(size);
        rest_installs = after;
        let (accesses, key_start, initial) = (&accesses, &key_start, &initial);
        jobs.push(move || {
            let base = key_start[first as usize];
            let mut settle = Settle::new(history, judge_aborted, keys);
            for key in first..last {
                let range = key_start[key as usize] as usize..key_start[key as usize + 1] as usize;
                let local = range.start - base as usize..range.end - base as usize;
                if lists {
                    let place = range.start as u32;
                    let (reads, finals) = (&mut reads[local.clone()], &mut finals[local]);
                    ListKey::new(history, judge_aborted, key, keys + place, &accesses[range], reads, finals)
                        .settle(&mut settle.found);
                    continue;
                }
                settle.key(
                    key,
                    initial[key as usize],
                    range.start as u32,
                    &accesses[range],
                    &mut reads[local.clone()],
                    &mut finals[local],
                );
            }
            settle.found
        });
    }
    let mut found = parallel::run(jobs);

    let mut faults: Vec<Fault> = found.iter_mut().flat_map(|f| std::mem::take(&mut f.faults)).collect();
    faults.sort_by_key(|fault| fault.read_op);
    let mut ambiguous: Vec<u32> = found.iter_mut().flat_map(|f| std::mem::take(&mut f.ambiguous)).collect();
    ambiguous.sort_unstable();
    let mut blind_failures: Vec<u32> = found.iter_mut().flat_map(|f| std::mem::take(&mut f.blind_failures)).collect();
    blind_failures.sort_unstable();
    let shared = found.iter().any(|f| f.shared);
    let shared_in_doubt = found.iter_mut().flat_map(|f| std::mem::take(&mut f.shared_in_doubt)).collect();
    let also_seen = found.into_iter().flat_map(|f| f.also_seen).collect();
    Attribution {
        key_start,
        op: accesses.iter().map(|a| a.op).collect(),
        txn: accesses.iter().map(|a| a.txn).collect(),
        read_of,
        installs,
        faults,
        ambiguous,
        blind_failures,
        also_seen,
        shared,
        shared_in_doubt,
        keys,
    }
}

/// Counting sort of the operations by key, stable in file order.
fn by_key(history: &History) -> (Vec<u32>, Vec<Access>) {
    let mut start = vec![0u32; history.keys.len() + 1];
    for &key in &history.ops.key {
        if key != NO_KEY {
            start[key as usize + 1] += 1;
        }
    }
    for key in 1..start.len() {
        start[key] += start[key - 1];
    }
    let total = *start.last().expect("one more than the keys") as usize;
    let mut next = start.clone();
    let blank = Access { op: 0, txn: 0, read: Value::MISSING, wrote: Value::MISSING, refused: Value::MISSING };
    let mut accesses = vec![blank; total];
    for txn in 0..history.len() as u32 {
        for row in history.ops_of(txn) {
            let op = row as u32;
            let (key, read, wrote) = match history.op(row) {
                Op::Read(key, value) => (key, value, Value::MISSING),
                Op::Write(key, value) => (key, Value::MISSING, value),
                Op::Cas(key, cas) if cas.applied => (key, cas.expected, cas.new),
                Op::Cas(key, cas) => (key, cas.current, Value::MISSING),
                Op::Append(key, element) => (key, Value::MISSING, element),
                Op::Scan(_) | Op::Sql(_) => continue,
            };
            let refused = match history.op(row) {
                Op::Cas(_, cas) if !cas.applied && cas.current == Value::MISSING => cas.expected,
                _ => Value::MISSING,
            };
            let slot = &mut next[key as usize];
            accesses[*slot as usize] = Access { op, txn, read, wrote, refused };
            *slot += 1;
        }
    }
    (start, accesses)
}

/// Key numbers that cut the operations into about equal shares.
fn cut_evenly(key_start: &[u32], shares: usize) -> Vec<u32> {
    let keys = key_start.len() - 1;
    let total = key_start[keys] as usize;
    let mut cuts = vec![0];
    for share in 1..shares.max(1) {
        let wanted = (total * share / shares) as u32;
        let cut = key_start.partition_point(|&start| start < wanted).min(keys) as u32;
        cuts.push(cut.max(*cuts.last().expect("never empty")));
    }
    cuts.push(keys as u32);
    cuts
}
