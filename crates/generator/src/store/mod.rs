//! The multi-version store, and what a level is to it.
//!
//! Transactions that take effect are numbered 1, 2, 3, … as they commit; this *commit order* is the `co`
//! of every level's argument. A transaction is executed at one instant, its completion: its reads are
//! resolved, then its writes are installed. So whoever is read committed before, and a session's earlier
//! transactions completed before: `so ∪ wr ⊆ co` holds at every level, and each file has only to argue
//! for its axiom. (A read-only transaction may be given an earlier place; where it is, the file says so.)
//!
//! What a transaction of no effect read obeys the same rules. It is never read from, so leaving it out
//! changes nothing. One of unknown outcome that took effect is treated like a committed one, and the
//! history satisfies the level with exactly those outcomes.
//!
//! Lists: a list is its versions, and reading version n shows the first n elements. The levels below
//! snapshot isolation take every element shown as read, not the last one only, so the arguments hold
//! for either reading of `wr`.

mod causal;
mod read_atomic;
mod read_committed;
mod serial;
mod slots;
mod snapshot;

use isolde_history::Value;

use crate::dice::Dice;
use crate::parameters::Level;
use crate::workload::{Action, Step};

/// A place in the commit order; 0 is before the first.
pub type Seq = u32;

/// What one committed transaction left at a key.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub seq: Seq,
    pub session: u32,
    pub value: Value,
}

/// All versions of all keys, and who wrote what.
pub struct Store {
    lists: bool,
    /// By key, in commit order. The initial version is not stored.
    versions: Vec<Vec<Version>>,
    /// The keys that each transaction wrote, end to end.
    written: Vec<u32>,
    written_end: Vec<usize>,
}

impl Store {
    /// A store of registers, or of lists.
    pub fn new(keys: u32, lists: bool) -> Store {
        Store { lists, versions: vec![Vec::new(); keys as usize], written: Vec::new(), written_end: vec![0] }
    }

    /// The place of the last commit.
    pub fn now(&self) -> Seq {
        self.written_end.len() as Seq - 1
    }

    /// How many versions a key has.
    pub fn len(&self, key: u32) -> usize {
        self.versions.get(key as usize).map_or(0, Vec::len)
    }

    /// The versions of each key in commit order. Every level is argued for with this order, so telling it
    /// takes nothing away from what the history satisfies.
    pub fn orders(&self) -> impl Iterator<Item = (u32, &[Version])> {
        (0..).zip(self.versions.iter().map(Vec::as_slice))
    }

    /// How many versions of a key `seq` and its predecessors wrote.
    pub fn visible(&self, key: u32, seq: Seq) -> u32 {
        let Some(versions) = self.versions.get(key as usize) else { return 0 };
        match versions.last() {
            Some(last) if last.seq > seq => versions.partition_point(|version| version.seq <= seq) as u32,
            _ => versions.len() as u32,
        }
    }

    /// The versions that are read by reading the first `count`: the last one, or for a list all.
    pub fn read(&self, key: u32, count: u32) -> &[Version] {
        if count == 0 {
            return &[];
        }
        let first = if self.lists { 0 } else { count as usize - 1 };
        &self.versions[key as usize][first..count as usize]
    }

    /// Whether reading the first `count` versions of a key shows a write of `seq`.
    fn shows(&self, key: u32, count: u32, seq: Seq) -> bool {
        let Some(last) = self.read(key, count).last() else { return false };
        last.seq == seq || (self.lists && last.seq > seq && self.written_by(seq).contains(&key))
    }

    /// `count`, raised to the last version of `key` whose writer is shown by one of these reads (keys and
    /// counts). Only versions past `count` are looked at, and [`Store::recent`] leaves few.
    fn completed(&self, key: u32, count: u32, reads: impl Iterator<Item = (u32, u32)> + Clone) -> u32 {
        let Some(versions) = self.versions.get(key as usize) else { return count };
        for newest in (count as usize..versions.len()).rev() {
            if reads.clone().any(|(other, seen)| self.shows(other, seen, versions[newest].seq)) {
                return newest as u32 + 1;
            }
        }
        count
    }

    /// Whether keys hold lists.
    pub fn lists(&self) -> bool {
        self.lists
    }

    /// The keys that a transaction wrote.
    pub fn written_by(&self, seq: Seq) -> &[u32] {
        &self.written[self.written_end[seq as usize - 1]..self.written_end[seq as usize]]
    }

    /// Commits writes, given in program order. Of several writes of a register the last one counts.
    pub fn install(&mut self, session: u32, writes: &[(u32, Value)]) -> Seq {
        let seq = self.now() + 1;
        for &(key, value) in writes {
            let key = key as usize;
            if key >= self.versions.len() {
                self.versions.resize(key + 1, Vec::new());
            }
            let versions = &mut self.versions[key];
            match versions.last_mut() {
                Some(last) if last.seq == seq && !self.lists => last.value = value,
                last => {
                    if last.is_none_or(|last| last.seq != seq) {
                        self.written.push(key as u32);
                    }
                    versions.push(Version { seq, session, value });
                }
            }
        }
        self.written_end.push(self.written.len());
        seq
    }

    /// The latest version of a key or, now and then, one a little older; not older than the last one of
    /// the session `own`, if that is given.
    fn recent(&self, key: u32, own: Option<u32>, dice: &mut Dice) -> u32 {
        let Some(versions) = self.versions.get(key as usize) else { return 0 };
        let mut count = versions.len();
        if count == 0 || !dice.chance(STALE) {
            return count as u32;
        }
        for _ in 0..=dice.geometric(STALE_MAX) {
            if count == 0 || own == Some(versions[count - 1].session) {
                break;
            }
            count -= 1;
        }
        // Several elements that one transaction appended to a list are seen together.
        while count > 0 && count < versions.len() && versions[count].seq == versions[count - 1].seq {
            count += 1;
        }
        count as u32
    }
}

/// How often, and how far at most, the weak levels look into the past.
const STALE: f64 = 0.25;
const STALE_MAX: u32 = 4;

/// A transaction in flight.
#[derive(Default)]
pub struct Transaction {
    pub session: u32,
    pub steps: Vec<Step>,
    /// By step: how many versions of its key it sees. Of no meaning for writes, nor for reads of registers
    /// that the transaction itself wrote before.
    pub seen: Vec<u32>,
    /// What [`Isolation::begin`] gave.
    pub snapshot: Seq,
}

impl Transaction {
    /// Whether it only reads.
    pub fn read_only(&self) -> bool {
        self.steps.iter().all(|step| step.action == Action::Read)
    }

    /// Lets every step see what was committed up to `seq`.
    fn see_all(&mut self, store: &Store, seq: Seq) {
        self.seen.clear();
        self.seen.extend(self.steps.iter().map(|step| store.visible(step.key, seq)));
    }
}

/// The rules of one isolation level.
///
/// For each transaction `begin`, `read` and `admits` are called in this order, and `committed` if it took
/// effect and wrote something. Calls for different sessions interleave.
pub trait Isolation {
    /// A snapshot, at the transaction's start.
    fn begin(&mut self, _store: &Store, _session: u32, _dice: &mut Dice) -> Seq {
        0
    }

    /// Fills [`Transaction::seen`].
    fn read(&mut self, store: &Store, transaction: &mut Transaction, dice: &mut Dice);

    /// Whether it may commit.
    fn admits(&self, _store: &Store, _transaction: &Transaction) -> bool {
        true
    }

    /// Its writes were installed as `seq`.
    fn committed(&mut self, _store: &Store, _session: u32, _seq: Seq) {}

    /// These sessions, of which none has a transaction in flight, exchanged information outside the
    /// store: each must now have seen everything.
    fn met(&mut self, _store: &Store, _sessions: &[u32]) {}
}

/// The rules of a level. Sessions may be added later; `sessions` says how many there are for sure.
pub fn isolation(level: Level, sessions: u32) -> Box<dyn Isolation> {
    match level {
        Level::ReadCommitted => Box::new(read_committed::ReadCommitted),
        Level::ReadAtomic => Box::new(read_atomic::ReadAtomic::default()),
        Level::Causal => Box::new(causal::Causal::new(sessions)),
        Level::SnapshotIsolation => Box::new(snapshot::SnapshotIsolation::new(sessions)),
        Level::Serializable => Box::new(serial::Serial::new(sessions, false)),
        Level::StrictSerializable => Box::new(serial::Serial::new(sessions, true)),
    }
}
