//! Which transactions count.
//!
//! Committed ones do. One of unknown outcome does if a counted one read from it, or if the database told that it
//! installed a version; otherwise taking it as
//! aborted is never worse, because leaving out a transaction that nobody read from only removes
//! conditions. (Where a failed compare-and-set does not say what it saw, this argument fails; the
//! analysis then does not call the history satisfied.)

use isolde_history::{History, Status};

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::outside::Outside;

/// What part a transaction plays in the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is left out.
    Absent,
    /// Its reads are judged, its writes did not happen.
    ReadsOnly,
    /// It took effect.
    Effective,
}

/// The role of every transaction.
pub fn roles(history: &History, outside: &Outside, attribution: &Attribution, judge_aborted: bool) -> Vec<Role> {
    let left_out = if judge_aborted { Role::ReadsOnly } else { Role::Absent };
    let status = &history.txns.status;
    let mut roles: Vec<Role> =
        status.iter().map(|s| if *s == Status::Committed { Role::Effective } else { left_out }).collect();
    if !status.contains(&Status::Unknown) {
        return roles;
    }
    // Reads by transaction, only needed when there is something unknown.
    let mut reads: Vec<(u32, u32)> = Vec::new();
    for (place, &version) in attribution.read_of.iter().enumerate() {
        if version != NONE {
            let writer = attribution.writer(version);
            if writer != INITIAL && status[writer as usize] == Status::Unknown {
                reads.push((attribution.txn[place], writer));
            }
        }
    }
    reads.extend(&attribution.also_seen);
    reads.extend(outside.read_from().filter(|&(_, writer)| status[writer as usize] == Status::Unknown));
    reads.sort_unstable();
    let mut queue: Vec<u32> = Vec::new();
    for op in outside.installed() {
        let writer = history.txns.ops_end.partition_point(|&end| end <= op);
        if roles[writer] != Role::Effective {
            roles[writer] = Role::Effective;
            queue.push(writer as u32);
        }
    }
    for &(reader, writer) in &reads {
        // A reader that is judged although it did not take effect must have read from one that did, too.
        if roles[reader as usize] != Role::Absent && roles[writer as usize] != Role::Effective {
            roles[writer as usize] = Role::Effective;
            queue.push(writer);
        }
    }
    while let Some(reader) = queue.pop() {
        let first = reads.partition_point(|&(r, _)| r < reader);
        for &(_, writer) in reads[first..].iter().take_while(|&&(r, _)| r == reader) {
            if roles[writer as usize] != Role::Effective {
                roles[writer as usize] = Role::Effective;
                queue.push(writer);
            }
        }
    }
    roles
}
