//! Every level and every anomaly, against the definitions: small histories are checked by trying all
//! commit orders, with nothing shared with the generator.

mod definitions;

use definitions::{Axiom, Judged};
use isolde_generator::{Anomaly, Distribution, Level, Parameters, Skew, Workload, generate};

const SEEDS: u64 = 2_000;

fn small(seed: u64) -> Parameters {
    Parameters {
        sessions: 1 + (seed % 4) as u32,
        transactions: 3 + seed % 5,
        keys: 1 + (seed / 4 % 3) as u32,
        ops_per_transaction: 2 + (seed / 3 % 3) as u32,
        distribution: Distribution::Uniform,
        skew: Skew::default(),
        concurrent: 1.0,
        workload: Workload::Mini,
        level: Level::StrictSerializable,
        abort_rate: if seed.is_multiple_of(3) { 0.2 } else { 0.0 },
        unknown_rate: if seed.is_multiple_of(5) { 0.3 } else { 0.0 },
        blind_writes: None,
        versions: 0.0,
        inject: Vec::new(),
        seed,
    }
}

/// The level generated, the axiom that must hold, and the next stronger that must often fail.
const LEVELS: &[(Level, Axiom, Option<Axiom>)] = &[
    (Level::ReadCommitted, Axiom::ReadCommitted, Some(Axiom::ReadAtomic)),
    (Level::ReadAtomic, Axiom::ReadAtomic, Some(Axiom::Causal)),
    (Level::Causal, Axiom::Causal, Some(Axiom::Prefix)),
    (Level::SnapshotIsolation, Axiom::SnapshotIsolation, Some(Axiom::Serializable)),
    (Level::Serializable, Axiom::Serializable, Some(Axiom::StrictSerializable)),
    (Level::StrictSerializable, Axiom::StrictSerializable, None),
];

#[test]
fn every_level_is_satisfied_and_the_next_one_is_not() {
    for &(_, workload) in Workload::ALL.iter().filter(|(name, _)| *name != "cas") {
        for &(level, axiom, next) in LEVELS {
            let mut beyond = 0;
            for seed in 0..SEEDS {
                let parameters = Parameters { workload, level, ..small(seed) };
                let judged = Judged::new(&generate(&parameters).unwrap());
                assert!(judged.satisfies(axiom), "{parameters:?}");
                beyond += u32::from(next.is_some_and(|next| !judged.satisfies(next)));
            }
            println!("{workload:?} {level:?}: {beyond} of {SEEDS} violate {next:?}");
            // Of a transaction of one operation, all or nothing is always seen.
            let told_apart = next.is_some() && workload != Workload::Registers;
            assert!(!told_apart || beyond > 0, "{workload:?} {level:?} never violates {next:?}");
        }
    }
}

/// How many of the axioms, weakest first, each anomaly leaves satisfied.
fn satisfied_by(anomaly: Anomaly) -> &'static [Axiom] {
    let count = match anomaly {
        Anomaly::ThinAirRead
        | Anomaly::AbortedRead
        | Anomaly::FutureRead
        | Anomaly::NotMyLastWrite
        | Anomaly::NotMyOwnWrite
        | Anomaly::IntermediateRead
        | Anomaly::NonMonotonicRead => 0,
        Anomaly::NonRepeatableRead | Anomaly::SessionGuaranteeViolation | Anomaly::FracturedRead => 1,
        Anomaly::CausalityViolation => 2,
        Anomaly::LongFork => 3,
        Anomaly::LostUpdate => 4,
        Anomaly::WriteSkew => 5,
    };
    &Axiom::ALL[..count]
}

#[test]
fn an_injected_anomaly_breaks_what_it_breaks_and_nothing_else() {
    for &(name, anomaly) in Anomaly::ALL {
        for &(level, axiom, _) in LEVELS {
            for seed in 0..SEEDS / 20 {
                let mut parameters = Parameters { level, inject: vec![anomaly], ..small(seed) };
                parameters.transactions += 1;
                let judged = Judged::new(&generate(&parameters).unwrap());
                for weaker in Axiom::ALL.iter().take_while(|weaker| **weaker != axiom).chain([&axiom]) {
                    let expected = satisfied_by(anomaly).contains(weaker);
                    assert_eq!(judged.satisfies(*weaker), expected, "{name}: {weaker:?} of {parameters:?}");
                }
            }
        }
    }
}
