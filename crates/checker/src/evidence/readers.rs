//! Who read each version.

use crate::evidence::attribution::{Attribution, NONE};
use crate::evidence::outcome::Role;

/// The counted readers of every version, end to end.
pub struct Readers {
    first: Vec<u32>,
    txns: Vec<u32>,
}

impl Readers {
    /// Sorts the reads by version.
    pub fn new(attribution: &Attribution, roles: &[Role]) -> Self {
        let counted = || {
            attribution
                .read_of
                .iter()
                .zip(&attribution.txn)
                .filter(|(version, txn)| **version != NONE && roles[**txn as usize] != Role::Absent)
        };
        let mut first = vec![0u32; attribution.version_count() + 1];
        for (version, _) in counted() {
            first[*version as usize + 1] += 1;
        }
        for version in 1..first.len() {
            first[version] += first[version - 1];
        }
        let mut next = first.clone();
        let mut txns = vec![0; *first.last().expect("never empty") as usize];
        for (version, txn) in counted() {
            txns[next[*version as usize] as usize] = *txn;
            next[*version as usize] += 1;
        }
        Readers { first, txns }
    }

    /// The transactions that read `version`; one that did so twice comes twice.
    pub fn of(&self, version: u32) -> &[u32] {
        &self.txns[self.first[version as usize] as usize..self.first[version as usize + 1] as usize]
    }
}
