//! Read atomic: whoever is seen is seen wholly, and a session sees its own transactions.
//!
//! *Axiom.* If t2 precedes t3 in its session, or t3 reads from t2, and t2 writes x, then the version of x
//! that t3 reads is t2's or later in `co`. *Why it holds.* One version is chosen for each key, so reads
//! repeat. The choice is never older than the session's own last version of the key, and afterwards
//! versions only rise: whenever one of the chosen versions' writers wrote another key that is read, that
//! key's version rises to its write, until nothing changes. What the writers themselves saw is ignored,
//! so causality is not kept.

use super::slots::Slots;
use super::{Isolation, Store, Transaction};
use crate::dice::Dice;

/// See the module.
#[derive(Default)]
pub struct ReadAtomic {
    slots: Slots,
    /// By slot: how many versions are seen.
    counts: Vec<u32>,
}

impl Isolation for ReadAtomic {
    fn read(&mut self, store: &Store, transaction: &mut Transaction, dice: &mut Dice) {
        self.slots.number(&transaction.steps);
        self.counts.clear();
        for &key in self.slots.keys() {
            self.counts.push(store.recent(key, Some(transaction.session), dice));
        }
        while self.raise(store) {}
        transaction.seen.clear();
        for step in &transaction.steps {
            transaction.seen.push(self.counts[self.slots.of(step.key)]);
        }
    }
}

impl ReadAtomic {
    /// Completes what is seen of the writers seen now; says whether that brought in anything. Keys that
    /// are only written are treated as if they were read, which breaks nothing.
    fn raise(&mut self, store: &Store) -> bool {
        let mut changed = false;
        for slot in 0..self.counts.len() {
            let keys = self.slots.keys();
            let reads = keys.iter().copied().zip(self.counts.iter().copied());
            let count = store.completed(keys[slot], self.counts[slot], reads);
            changed |= count != self.counts[slot];
            self.counts[slot] = count;
        }
        changed
    }
}
