//! Read committed: each read sees some committed version, and never one older than what the transaction
//! has proof of.
//!
//! *Axiom.* If t3 read from t2 before (in program order) it reads x from t1, and t2 writes x, then t1 is
//! t2 or later in `co`. *Why it holds.* Each read is raised to the last version of its key whose writer
//! an earlier read of the transaction shows; the earlier reads of the same key are among those. A second
//! read of a key may still see a newer version than the first, and nothing is kept between transactions.

use super::{Isolation, Store, Transaction};
use crate::dice::Dice;
use crate::workload::Action;

/// See the module.
pub struct ReadCommitted;

impl Isolation for ReadCommitted {
    fn read(&mut self, store: &Store, transaction: &mut Transaction, dice: &mut Dice) {
        let Transaction { steps, seen, .. } = transaction;
        seen.clear();
        for step in steps.iter() {
            // 0 versions show nobody, so writes among the earlier steps raise nothing.
            let count = match step.action {
                Action::Read => {
                    let earlier = steps.iter().zip(&*seen).map(|(step, &count)| (step.key, count));
                    store.completed(step.key, store.recent(step.key, None, dice), earlier)
                }
                Action::Write | Action::Append => 0,
            };
            seen.push(count);
        }
    }
}
