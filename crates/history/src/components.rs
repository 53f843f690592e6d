//! Parts of a history that have nothing to do with each other: no key, and no session, is in two of them.
//!
//! Every level asks for an order (of commits, or of snapshots and commits) that explains what was read. Orders of parts without a common
//! key explain the whole side by side. Real time does not change that: each part's order fits into the times of its own
//! transactions (put every point of it at the latest beginning of those up to there), and so all parts fit on one clock.

use crate::history::{History, NO_KEY};
use crate::jsonl_write::write_part;

/// A part: the rows of its transactions, and JSON Lines of them.
pub struct Component {
    /// The transactions, ascending.
    pub rows: Vec<u32>,
    /// The part as a history of its own.
    pub text: Vec<u8>,
}

/// At most `most` parts of about equal size, each of one component or several; `None` if there is only one, or if an operation
/// has no key of its own (a statement, a predicate). Without `session_order` a session does not hold its transactions together.
pub fn components(history: &History, session_order: bool, most: usize) -> Option<Vec<Component>> {
    if history.ops.key.contains(&NO_KEY) {
        return None;
    }
    let sets = &mut Sets::new(history.keys.len() + history.sessions.len() + history.len());
    let session_at = |row: usize| history.keys.len() + history.txns.session[row] as usize;
    let txn_at = |row: usize| history.keys.len() + history.sessions.len() + row;
    for row in 0..history.len() {
        if session_order {
            sets.join(txn_at(row), session_at(row));
        }
        for op in history.ops_of(row as u32) {
            sets.join(txn_at(row), history.ops.key[op] as usize);
        }
    }
    let bins = filled(history, sets, txn_at, most.max(1));
    if bins.iter().filter(|bin| !bin.is_empty()).count() < 2 {
        return None;
    }
    let mut of_key = vec![0; history.keys.len()];
    for (number, rows) in bins.iter().enumerate() {
        for op in rows.iter().flat_map(|&row| history.ops_of(row)) {
            of_key[history.ops.key[op] as usize] = number;
        }
    }
    let written = |(number, rows): (usize, Vec<u32>)| {
        let text = write_part(history, &rows, |key| of_key[key as usize] == number);
        Component { rows, text }
    };
    Some(bins.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()).map(written).collect())
}

/// The transactions of whole components in `most` bins: the largest first, each into the bin that holds least.
fn filled(history: &History, sets: &mut Sets, txn_at: impl Fn(usize) -> usize, most: usize) -> Vec<Vec<u32>> {
    let roots: Vec<usize> = (0..history.len()).map(|row| sets.root(txn_at(row))).collect();
    let mut weights = vec![0usize; sets.parents.len()];
    for (row, &root) in roots.iter().enumerate() {
        weights[root] += 1 + history.ops_of(row as u32).len();
    }
    let mut largest_first: Vec<usize> = (0..weights.len()).filter(|&root| weights[root] > 0).collect();
    largest_first.sort_by_key(|&root| (std::cmp::Reverse(weights[root]), root));
    let mut held = vec![0usize; most];
    let mut bin_of = vec![0usize; weights.len()];
    for root in largest_first {
        let bin = (0..most).min_by_key(|&bin| held[bin]).expect("there is a bin");
        held[bin] += weights[root];
        bin_of[root] = bin;
    }
    let mut bins = vec![Vec::new(); most];
    for (row, &root) in roots.iter().enumerate() {
        bins[bin_of[root]].push(row as u32);
    }
    bins
}

/// Sets of numbers that can be joined.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn new(len: usize) -> Sets {
        Sets { parents: (0..len).collect() }
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }
}
