//! Synthetic histories of any size: correct at a chosen isolation level, or with a chosen anomaly.
//!
//! Simulated clients run a workload against a simulated multi-version store. The data flow:
//!
//! ```text
//! parameters ─► schedule (who does the next step, one tick of the clock each)
//!                  ├─► workload   what a transaction will do     (distribution: on which keys)
//!                  ├─► store      what its reads see, whether it may commit; one file a level
//!                  ├─► anomaly    a burst of transactions that no level's rules produced
//!                  └─► recording  the history
//! ```
//!
//! The same parameters give the same history, on every run.

mod anomaly;
mod cas;
mod dice;
mod distribution;
mod parameters;
mod plans;
mod recording;
mod schedule;
mod store;
mod transactions;
mod workload;

use isolde_history::History;

pub use parameters::{Anomaly, Distribution, Level, Parameters, Skew, Workload};
pub use plans::{Intent, Plans};

/// The history that the parameters describe, or a sentence that says why there is none.
///
/// Transactions are listed in the order of their completion and named by their position. Every one has
/// `start` and `end`. Time and memory are linear in the operations (and in the lists' lengths).
pub fn generate(parameters: &Parameters) -> Result<History, String> {
    parameters.check()?;
    Ok(schedule::Schedule::new(parameters).run())
}
