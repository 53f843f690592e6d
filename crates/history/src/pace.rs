//! A history over time: how many transactions ended in each part of it, and how long the committed ones took.

use crate::history::{History, NO_TIME, Status};

/// What ended in one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// How many committed.
    pub committed: u64,
    /// How many were aborted.
    pub aborted: u64,
    /// Of how many the outcome is not known.
    pub unknown: u64,
    /// The median and the longest time from beginning to end of those that committed.
    pub took: Option<(i64, i64)>,
}

/// Equal parts of the time from the first beginning to the last end, with the length of one. Transactions without times are not
/// counted; `None` if there are no others.
pub fn pace(history: &History, parts: usize) -> Option<(i64, Vec<Part>)> {
    let txns = &history.txns;
    let timed = |&txn: &usize| txns.start[txn] != NO_TIME && txns.end[txn] != NO_TIME;
    let places: Vec<usize> = (0..history.len()).filter(timed).collect();
    let begun = places.iter().map(|&txn| txns.start[txn]).min()?;
    let ended = places.iter().map(|&txn| txns.end[txn]).max()?;
    let length = (ended.saturating_sub(begun) / parts as i64).saturating_add(1);
    let mut found = vec![Part::default(); parts];
    let mut took: Vec<Vec<i64>> = vec![Vec::new(); parts];
    for txn in places {
        let place = (txns.end[txn].saturating_sub(begun) / length).clamp(0, parts as i64 - 1) as usize;
        match txns.status[txn] {
            Status::Committed => {
                found[place].committed += 1;
                took[place].push(txns.end[txn].saturating_sub(txns.start[txn]));
            }
            Status::Aborted => found[place].aborted += 1,
            Status::Unknown => found[place].unknown += 1,
        }
    }
    for (part, mut took) in found.iter_mut().zip(took) {
        let middle = took.len() / 2;
        if !took.is_empty() {
            let (_, &mut median, _) = took.select_nth_unstable(middle);
            part.took = took.iter().max().map(|&longest| (median, longest));
        }
    }
    Some((length, found))
}
