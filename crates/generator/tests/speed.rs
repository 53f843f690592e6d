//! A million transactions are a matter of seconds; run with `--release -- --ignored --nocapture`.

use std::time::Instant;

use isolde_generator::{Distribution, Level, Parameters, Workload, generate};
use isolde_history::Status;

#[test]
#[ignore = "a measurement, not a check"]
fn a_million_transactions_at_every_level() {
    for (_, workload) in Workload::ALL {
        for (name, level) in Level::ALL.iter().step_by(2) {
            let parameters = Parameters {
                sessions: 100,
                transactions: 1_000_000,
                keys: 10_000,
                ops_per_transaction: 4,
                distribution: Distribution::Zipfian,
                workload: *workload,
                level: *level,
                abort_rate: 0.0,
                unknown_rate: 0.0,
                inject: Vec::new(),
                seed: 1,
            };
            let started = Instant::now();
            let Ok(history) = generate(&parameters) else { continue };
            let committed = history.txns.status.iter().filter(|status| **status == Status::Committed).count();
            println!("{workload:?} {name}: {:.2?}, {committed} committed", started.elapsed());
        }
    }
}
