//! Serializability, strict or not: every transaction is executed alone.
//!
//! *Axiom.* A transaction reads, of each key, the last version before its place in `co`. *Why it holds.* A
//! transaction that writes is executed at one instant and takes its place there: it reads the latest
//! versions and installs its own. That instant lies between its start and its end, so `co` keeps real
//! time too. Without `strict`, a read-only transaction may take an earlier place and reads what was latest
//! there, but not earlier than its session's last transaction: real time is lost, session order is kept.
//! Equal places are ordered by completion.

use super::snapshot::Floors;
use super::{Isolation, Seq, Store, Transaction};
use crate::dice::Dice;

/// How often a read-only transaction looks into the past.
const STALE: f64 = 0.5;

/// See the module.
pub struct Serial {
    strict: bool,
    floors: Floors,
    lag_max: u64,
}

impl Serial {
    pub fn new(sessions: u32, strict: bool) -> Serial {
        Serial { strict, floors: Floors::new(sessions), lag_max: 2 * u64::from(sessions) }
    }
}

impl Isolation for Serial {
    fn read(&mut self, store: &Store, transaction: &mut Transaction, dice: &mut Dice) {
        let mut place = store.now();
        if !self.strict && transaction.read_only() && dice.chance(STALE) {
            let lag = 1 + dice.below(self.lag_max) as Seq;
            place = place.saturating_sub(lag).max(self.floors.of(transaction.session));
        }
        transaction.see_all(store, place);
        self.floors.raise(transaction.session, place);
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
