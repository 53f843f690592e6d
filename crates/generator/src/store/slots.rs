//! Finding the keys of one transaction, in constant time each.

use crate::workload::Step;

/// Numbers the distinct keys of a transaction 0, 1, 2, …
#[derive(Default)]
pub struct Slots {
    /// By key: the round in which it was last numbered, and its number then.
    marks: Vec<(u32, u32)>,
    round: u32,
    keys: Vec<u32>,
}

impl Slots {
    /// Forgets the transaction before and numbers the keys of this one.
    pub fn number(&mut self, steps: &[Step]) {
        self.round += 1;
        self.keys.clear();
        for &Step { key, .. } in steps {
            if key as usize >= self.marks.len() {
                self.marks.resize(key as usize + 1, (0, 0));
            }
            let mark = &mut self.marks[key as usize];
            if mark.0 != self.round {
                *mark = (self.round, self.keys.len() as u32);
                self.keys.push(key);
            }
        }
    }

    /// The number of a key that the transaction uses.
    pub fn of(&self, key: u32) -> usize {
        debug_assert_eq!(self.marks[key as usize].0, self.round);
        self.marks[key as usize].1 as usize
    }

    /// The keys, by number.
    pub fn keys(&self) -> &[u32] {
        &self.keys
    }
}
