//! Snapshot isolation: one snapshot a transaction, and the first committer wins.
//!
//! *Axioms.* For t3 with snapshot s, let a read-only transaction take its place in `co` right after s and
//! any other one at its commit. (1) prefix: if t2 precedes or equals in `co` someone that t3 reads from or
//! follows in its session, and writes x, then t3 reads t2's version of x or a later one. Who is read lies
//! up to s; session predecessors do because s is never before the session's floor, the place of its last
//! transaction; so t2 lies up to s, and t3 reads the last version of x up to s. (2) conflict: if t4
//! precedes t3 and both write a key, t4 lies up to s (else t3 would have been aborted), and so does every
//! t2 before it. Equal places are ordered by completion.
//!
//! A snapshot may be older than the real start: this is not strict snapshot isolation.

use super::{Isolation, Seq, Store, Transaction};
use crate::dice::Dice;
use crate::workload::Action;

/// How often a snapshot is older than the start. Old snapshots of updates mostly end in aborts.
const STALE: f64 = 0.2;

/// See the module.
pub struct SnapshotIsolation {
    floors: Floors,
    lag_max: u64,
}

/// The earliest place that the next transaction of each session may take.
pub struct Floors(Vec<Seq>);

impl Floors {
    pub fn new(sessions: u32) -> Floors {
        Floors(vec![0; sessions as usize])
    }

    pub fn of(&self, session: u32) -> Seq {
        self.0.get(session as usize).copied().unwrap_or(0)
    }

    pub fn raise(&mut self, session: u32, seq: Seq) {
        let session = session as usize;
        if session >= self.0.len() {
            self.0.resize(session + 1, 0);
        }
        self.0[session] = self.0[session].max(seq);
    }
}

impl SnapshotIsolation {
    pub fn new(sessions: u32) -> SnapshotIsolation {
        SnapshotIsolation { floors: Floors::new(sessions), lag_max: u64::from(sessions) }
    }
}

impl Isolation for SnapshotIsolation {
    fn begin(&mut self, store: &Store, session: u32, dice: &mut Dice) -> Seq {
        let lag = if dice.chance(STALE) { 1 + dice.below(self.lag_max) as Seq } else { 0 };
        store.now().saturating_sub(lag).max(self.floors.of(session))
    }

    fn read(&mut self, store: &Store, transaction: &mut Transaction, _dice: &mut Dice) {
        transaction.see_all(store, transaction.snapshot);
        self.floors.raise(transaction.session, transaction.snapshot);
    }

    fn admits(&self, store: &Store, transaction: &Transaction) -> bool {
        let steps = transaction.steps.iter().zip(&transaction.seen);
        let mut writes = steps.filter(|(step, _)| step.action != Action::Read);
        writes.all(|(step, &seen)| store.len(step.key) == seen as usize)
    }

    fn committed(&mut self, _store: &Store, session: u32, seq: Seq) {
        self.floors.raise(session, seq);
    }

    fn met(&mut self, store: &Store, sessions: &[u32]) {
        for &session in sessions {
            self.floors.raise(session, store.now());
        }
    }
}
