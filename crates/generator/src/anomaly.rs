//! The fourteen anomalies as groups of mini-transactions, after figure 5 of "Boosting End-to-End Database
//! Isolation Checking via Mini-Transactions" (table I names them).
//!
//! A group uses keys of its own, so it shows its anomaly and no other, whatever surrounds it. The comment
//! of each group says which levels it breaks; it satisfies all weaker ones.

use isolde_history::{Status, Value};

use crate::parameters::Anomaly;
use crate::recording::{Interval, Recording, integer};

/// One transaction of a group; groups list theirs in the order of completion.
pub struct Member {
    /// Which of the group's sessions.
    pub session: usize,
    status: Status,
    /// What is done, the key and the value: 0 is the initial one, the others are fresh.
    ops: &'static [(Kind, usize, usize)],
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
}

use Kind::{Read as R, Write as W};

const X: usize = 0;
const Y: usize = 1;

type Ops = &'static [(Kind, usize, usize)];

const fn committed(session: usize, ops: Ops) -> Member {
    Member { session, status: Status::Committed, ops }
}

const fn aborted(session: usize, ops: Ops) -> Member {
    Member { session, status: Status::Aborted, ops }
}

// Invalid at every level from read committed up.
const THIN_AIR_READ: &[Member] = &[committed(0, &[(R, X, 1)])];
const ABORTED_READ: &[Member] = &[aborted(0, &[(R, X, 0), (W, X, 1)]), committed(1, &[(R, X, 1)])];
const FUTURE_READ: &[Member] = &[committed(0, &[(R, X, 1), (W, X, 1)])];
const NOT_MY_LAST_WRITE: &[Member] = &[committed(0, &[(R, X, 0), (W, X, 1), (W, X, 2), (R, X, 1)])];
const NOT_MY_OWN_WRITE: &[Member] = &[committed(0, &[(R, X, 0), (W, X, 1), (R, X, 0)])];
const INTERMEDIATE_READ: &[Member] = &[committed(0, &[(R, X, 0), (W, X, 1), (W, X, 2)]), committed(1, &[(R, X, 1)])];

// Breaks read atomic. Read committed allows it, for the newer version comes second.
const NON_REPEATABLE_READ: &[Member] = &[committed(0, &[(R, X, 0), (W, X, 1)]), committed(1, &[(R, X, 0), (R, X, 1)])];

// Breaks read atomic, where sessions count; read committed looks inside one transaction only.
const SESSION_GUARANTEE_VIOLATION: &[Member] =
    &[committed(0, &[(R, X, 0), (W, X, 1)]), committed(1, &[(R, X, 1), (W, X, 2)]), committed(1, &[(R, X, 1)])];

// Breaks read committed: after y was read from the second, x must not come from the first.
const NON_MONOTONIC_READ: &[Member] = &[
    committed(0, &[(R, X, 0), (W, X, 1)]),
    committed(1, &[(R, X, 1), (R, Y, 0), (W, X, 2), (W, Y, 3)]),
    committed(2, &[(R, Y, 3), (R, X, 1)]),
];

// Breaks read atomic. The old version is read first: the other way round would break read committed.
const FRACTURED_READ: &[Member] =
    &[committed(0, &[(R, X, 0), (R, Y, 0), (W, X, 1), (W, Y, 2)]), committed(1, &[(R, Y, 0), (R, X, 1)])];

// Breaks causal; the reader read from nobody who wrote x, so read atomic holds.
const CAUSALITY_VIOLATION: &[Member] = &[
    committed(0, &[(R, X, 0), (W, X, 1)]),
    committed(1, &[(R, X, 1), (R, Y, 0), (W, Y, 2)]),
    committed(2, &[(R, Y, 2), (R, X, 0)]),
];

// Breaks prefix, and with it snapshot isolation.
const LONG_FORK: &[Member] = &[
    committed(0, &[(R, X, 0), (W, X, 1)]),
    committed(1, &[(R, Y, 0), (W, Y, 2)]),
    committed(2, &[(R, X, 1), (R, Y, 0)]),
    committed(3, &[(R, X, 0), (R, Y, 2)]),
];

// Breaks snapshot isolation; prefix knows no conflicts.
const LOST_UPDATE: &[Member] = &[committed(0, &[(R, X, 0), (W, X, 1)]), committed(1, &[(R, X, 0), (W, X, 2)])];

// Breaks serializable.
const WRITE_SKEW: &[Member] =
    &[committed(0, &[(R, X, 0), (R, Y, 0), (W, X, 1)]), committed(1, &[(R, X, 0), (R, Y, 0), (W, Y, 2)])];

/// The transactions that show an anomaly.
pub fn group(anomaly: Anomaly) -> &'static [Member] {
    match anomaly {
        Anomaly::ThinAirRead => THIN_AIR_READ,
        Anomaly::AbortedRead => ABORTED_READ,
        Anomaly::FutureRead => FUTURE_READ,
        Anomaly::NotMyLastWrite => NOT_MY_LAST_WRITE,
        Anomaly::NotMyOwnWrite => NOT_MY_OWN_WRITE,
        Anomaly::IntermediateRead => INTERMEDIATE_READ,
        Anomaly::NonRepeatableRead => NON_REPEATABLE_READ,
        Anomaly::SessionGuaranteeViolation => SESSION_GUARANTEE_VIOLATION,
        Anomaly::NonMonotonicRead => NON_MONOTONIC_READ,
        Anomaly::FracturedRead => FRACTURED_READ,
        Anomaly::CausalityViolation => CAUSALITY_VIOLATION,
        Anomaly::LongFork => LONG_FORK,
        Anomaly::LostUpdate => LOST_UPDATE,
        Anomaly::WriteSkew => WRITE_SKEW,
    }
}

/// How many sessions a group needs.
pub fn sessions(group: &[Member]) -> usize {
    group.iter().map(|member| member.session + 1).max().unwrap_or(0)
}

/// Records a group on keys from `first_key` on; gives the number of keys used.
///
/// The first transactions of all sessions start before any ends, so real time orders nothing but what a
/// session orders: an anomaly must not be explained by a clock.
pub fn record(group: &[Member], sessions: &[u32], first_key: u32, clock: &mut i64, recording: &mut Recording) -> u32 {
    let keys = 1 + group.iter().flat_map(|member| member.ops).map(|op| op.1).max().unwrap_or(0) as u32;
    (first_key..first_key + keys).for_each(|key| recording.start_with_zero(key));
    let mut values = vec![integer(0)];
    let mut tick = || {
        *clock += 1;
        *clock
    };
    let mut starts: Vec<i64> = sessions.iter().map(|_| tick()).collect();
    for member in group {
        for &(kind, key, value) in member.ops {
            while values.len() <= value {
                values.push(recording.fresh_value());
            }
            let (key, value): (u32, Value) = (first_key + key as u32, values[value]);
            match kind {
                Kind::Read => recording.read(key, value),
                Kind::Write => recording.write(key, value),
            }
        }
        let interval = Interval { start: starts[member.session], end: tick() };
        recording.end(sessions[member.session], member.status, interval);
        // The session's next transaction, if it has one.
        starts[member.session] = tick();
    }
    keys
}
