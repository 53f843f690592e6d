//! Real-time order in O(n log n) instead of O(n²) edges.
//!
//! The transactions are ordered by their start, and each gets a *time node* just before it; the time nodes
//! form a chain. A transaction that ends leads to the first time node whose transaction starts strictly
//! later, so T1.end < T2.start iff a path through the chain leads from T1 to T2.

use isolde_history::{History, NO_TIME, Status};

use crate::evidence::attribution::NONE;
use crate::evidence::outcome::Role;
use crate::parallel;

/// The chain of time nodes.
pub struct Timeline {
    /// The transactions by start; place `i` is time node `i`.
    pub by_start: Vec<u32>,
    /// The time node that each transaction leads to, or [`NONE`].
    pub enters: Vec<u32>,
}

/// When `txn` ended, as far as anyone can know: one of unknown outcome may take effect after its client
/// gave up, so nothing is known to come after it.
pub fn end_of(history: &History, txn: u32) -> Option<i64> {
    let end = history.txns.end[txn as usize];
    (end != NO_TIME && history.txns.status[txn as usize] != Status::Unknown).then_some(end)
}

/// Whether `first` was over before `second` began.
pub fn precedes(history: &History, first: u32, second: u32) -> bool {
    let start = history.txns.start[second as usize];
    start != NO_TIME && end_of(history, first).is_some_and(|end| end < start)
}

/// The first counted transaction whose times are not known.
pub fn without_times(history: &History, roles: &[Role]) -> Option<u32> {
    (0..history.len() as u32).find(|&txn| {
        let row = txn as usize;
        roles[row] != Role::Absent
            && (history.txns.start[row] == NO_TIME
                || (history.txns.end[row] == NO_TIME && history.txns.status[row] != Status::Unknown))
    })
}

/// Builds the chain over the counted transactions, which all have their times.
pub fn timeline(history: &History, roles: &[Role]) -> Timeline {
    let counted = || (0..history.len() as u32).filter(|&txn| roles[txn as usize] != Role::Absent);
    let mut starts: Vec<(i64, u32)> = counted().map(|txn| (history.txns.start[txn as usize], txn)).collect();
    let mut ends: Vec<(i64, u32)> = counted().filter_map(|txn| Some((end_of(history, txn)?, txn))).collect();
    if starts.len() < parallel::WORTH_A_THREAD {
        starts.sort_unstable();
        ends.sort_unstable();
    } else {
        parallel::run(vec![&mut starts, &mut ends].into_iter().map(|times| || times.sort_unstable()).collect());
    }
    let mut enters = vec![NONE; history.len()];
    let mut node = 0;
    for &(end, txn) in &ends {
        while node < starts.len() && starts[node].0 <= end {
            node += 1;
        }
        if node < starts.len() {
            enters[txn as usize] = node as u32;
        }
    }
    Timeline { by_start: starts.into_iter().map(|(_, txn)| txn).collect(), enters }
}
