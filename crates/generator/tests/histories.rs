//! What every generated history looks like, whatever its level.

use std::collections::{HashMap, HashSet};

use isolde_generator::{Anomaly, Distribution, Level, Parameters, Skew, Workload, generate};
use isolde_history::{History, Kind, Op, Status, Value, read_jsonl_bytes, write_jsonl};

fn parameters(workload: Workload, level: Level) -> Parameters {
    Parameters {
        sessions: 8,
        transactions: 2_000,
        keys: 10,
        ops_per_transaction: 4,
        distribution: Distribution::Zipfian,
        skew: Skew::default(),
        concurrent: 1.0,
        workload,
        level,
        abort_rate: 0.1,
        unknown_rate: 0.1,
        blind_writes: None,
        versions: 0.0,
        inject: Vec::new(),
        seed: 42,
    }
}

/// Every legal pair of workload and level.
fn all() -> Vec<Parameters> {
    let levels = Level::ALL.iter().step_by(2).map(|(_, level)| *level);
    let pairs = levels.flat_map(|level| Workload::ALL.iter().map(move |(_, workload)| parameters(*workload, level)));
    pairs
        .filter(|p| p.workload != Workload::Cas || matches!(p.level, Level::Serializable | Level::StrictSerializable))
        .collect()
}

fn text(history: &History) -> Vec<u8> {
    format!("{:?}{:?}{:?}{:?}", history.txns, history.ops, history.cas, history.lists).into_bytes()
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    for p in all() {
        let first = text(&generate(&p).unwrap());
        assert!(first == text(&generate(&p).unwrap()), "{p:?}");
        assert!(first != text(&generate(&Parameters { seed: 43, ..p.clone() }).unwrap()), "{p:?}");
    }
}

#[test]
fn counts_times_and_values_are_as_promised() {
    for p in all() {
        let history = generate(&p).unwrap();
        assert_eq!(history.len() as u64, p.transactions);
        let (mut values, mut ends) = (HashSet::new(), HashMap::new());
        let (mut statuses, mut last_end, mut overlaps) = (HashSet::new(), 0, 0);
        for txn in 0..history.len() {
            let (start, end) = (history.txns.start[txn], history.txns.end[txn]);
            assert!(start < end && last_end < end, "completion order: {p:?}");
            overlaps += u32::from(start < last_end);
            last_end = end;
            let previous = ends.insert(history.txns.session[txn], end);
            assert!(previous.is_none_or(|previous| previous < start), "{p:?}");
            statuses.insert(history.txns.status[txn] as u8);
            assert_eq!(history.txns.id[txn].as_small_int(), Some(txn as i64));
            let ops = history.ops_of(txn as u32);
            match p.workload {
                Workload::Mini => assert!((1..=4).contains(&ops.len())),
                Workload::General | Workload::ReadWrite | Workload::Append => assert_eq!(ops.len(), 4),
                Workload::ReadModifyWrite | Workload::HeavyWrite => assert!((4..=8).contains(&ops.len())),
                Workload::Cas | Workload::Registers => assert_eq!(ops.len(), 1),
            }
            for row in ops {
                match history.op(row) {
                    Op::Write(_, value) | Op::Append(_, value) => assert!(values.insert(value)),
                    Op::Cas(_, cas) => assert!(values.insert(cas.new)),
                    _ => {}
                }
            }
        }
        assert_eq!(statuses.len(), 3, "{p:?}");
        assert!(overlaps > 1_000, "{p:?}");
        assert_eq!(ends.len(), p.sessions as usize);
        let registers = !matches!(p.workload, Workload::Append | Workload::Cas);
        assert_eq!(history.header.initial.len(), if registers { 10 } else { 0 });
    }
}

#[test]
fn mini_transactions_are_mini() {
    for most in 1..=4 {
        let p = Parameters { ops_per_transaction: most, ..parameters(Workload::Mini, Level::SnapshotIsolation) };
        let history = generate(&p).unwrap();
        let mut shapes = HashSet::new();
        for txn in 0..history.len() as u32 {
            let (mut read, mut reads, mut writes, mut shape) = (HashSet::new(), 0, 0, String::new());
            for row in history.ops_of(txn) {
                match history.op(row) {
                    Op::Read(key, _) => {
                        reads += 1;
                        shape.push(if read.insert(key) { 'r' } else { 'R' });
                    }
                    Op::Write(key, _) => {
                        writes += 1;
                        assert!(read.contains(&key));
                        shape.push('w');
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!((1..=2).contains(&reads) && writes <= 2 && reads + writes <= most);
            shapes.insert(shape);
        }
        assert!(shapes.len() >= [1, 4, 7, 9][most as usize - 1], "{shapes:?}");
    }
}

#[test]
fn writes_without_effect_are_not_read_and_unknown_ones_sometimes_are() {
    for p in all() {
        let history = generate(&p).unwrap();
        let mut status = HashMap::new();
        for txn in 0..history.len() {
            for row in history.ops_of(txn as u32) {
                let written = match history.op(row) {
                    Op::Write(_, value) | Op::Append(_, value) => value,
                    Op::Cas(_, cas) => cas.new,
                    _ => continue,
                };
                status.insert(written, (txn, history.txns.status[txn]));
            }
        }
        let mut unknown_read = 0;
        for txn in 0..history.len() {
            for row in history.ops_of(txn as u32) {
                let seen = match history.op(row) {
                    Op::Read(_, value) => match history.atoms.kind(value) {
                        Kind::List(list) => history.lists.get(list).to_vec(),
                        _ => vec![value],
                    },
                    Op::Cas(_, cas) => vec![cas.expected, cas.current],
                    _ => continue,
                };
                for value in seen {
                    let Some(&(writer, status)) = status.get(&value) else { continue };
                    assert!(status != Status::Aborted || writer == txn, "{p:?}");
                    unknown_read += u32::from(status == Status::Unknown && writer != txn);
                }
            }
        }
        assert!(unknown_read > 0, "{p:?}");
    }
}

#[test]
fn compare_and_sets_are_answered_by_the_state_at_some_order() {
    let history = generate(&parameters(Workload::Cas, Level::StrictSerializable)).unwrap();
    let (mut applied, mut failed, mut reads, mut inserted) = (0, 0, 0, HashSet::new());
    for txn in 0..history.len() {
        for row in history.ops_of(txn as u32) {
            match history.op(row) {
                Op::Cas(key, cas) if cas.applied => {
                    applied += 1;
                    assert_eq!(cas.current, Value::MISSING);
                    if cas.expected == Value::NULL && history.txns.status[txn] == Status::Committed {
                        assert!(inserted.insert(key));
                    }
                }
                Op::Cas(_, cas) => {
                    failed += 1;
                    assert!(cas.current != cas.expected && cas.current != Value::NULL);
                }
                Op::Read(..) => reads += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(applied > 300 && failed > 100 && reads > 300, "{applied} {failed} {reads}");
}

#[test]
fn lists_are_replaced_before_they_grow_long() {
    let history = generate(&parameters(Workload::Append, Level::StrictSerializable)).unwrap();
    assert!(history.keys.len() > 20);
}

#[test]
fn a_written_history_reads_back() {
    for p in all() {
        let history = generate(&p).unwrap();
        let mut bytes = Vec::new();
        write_jsonl(&history, &mut bytes).unwrap();
        let again = read_jsonl_bytes(&bytes).unwrap();
        assert_eq!(again.len(), history.len());
        let mut twice = Vec::new();
        write_jsonl(&again, &mut twice).unwrap();
        assert!(bytes == twice, "{p:?}");
    }
}

#[test]
fn all_anomalies_fit_into_one_history_even_with_one_session() {
    for sessions in [1, 2, 8] {
        let inject = Anomaly::ALL.iter().map(|(_, anomaly)| *anomaly).collect();
        let p = Parameters { inject, sessions, ..parameters(Workload::Mini, Level::StrictSerializable) };
        let history = generate(&p).unwrap();
        assert_eq!(history.len() as u64, p.transactions);
        assert_eq!(history.header.initial.len(), 10 + 14 + 5);
        assert_eq!(history.sessions.len(), sessions.max(4) as usize);
    }
}

#[test]
fn impossible_parameters_are_refused_with_a_reason() {
    let base = || parameters(Workload::Mini, Level::Serializable);
    let none = Skew::default();
    let hot = || Parameters { distribution: Distribution::Hotspot, ..base() };
    let refused: [(Parameters, &str); 16] = [
        (Parameters { sessions: 0, ..base() }, "sessions is 0"),
        (Parameters { keys: 0, ..base() }, "keys is 0"),
        (Parameters { ops_per_transaction: 0, ..base() }, "operations a transaction is 0"),
        (Parameters { ops_per_transaction: 5, ..base() }, "at most 4"),
        (Parameters { abort_rate: 1.5, ..base() }, "the abort rate is 1.5"),
        (Parameters { unknown_rate: f64::NAN, ..base() }, "the unknown rate is NaN"),
        (Parameters { workload: Workload::Append, inject: vec![Anomaly::LongFork], ..base() }, "registers"),
        (Parameters { workload: Workload::Cas, level: Level::Causal, ..base() }, "linearizably"),
        (Parameters { transactions: 3, inject: vec![Anomaly::LongFork], ..base() }, "take 4 transactions"),
        (Parameters { concurrent: 0.0, ..base() }, "concurrent sessions is 0"),
        (Parameters { concurrent: 1.1, ..base() }, "concurrent sessions is 1.1"),
        (Parameters { skew: Skew { exponent: Some(0.0), ..none }, ..base() }, "the exponent is 0"),
        (Parameters { skew: Skew { exponent: Some(2.0), ..none }, ..hot() }, "for the distribution 'zipfian'"),
        (Parameters { skew: Skew { hot_keys: Some(0.1), ..none }, ..base() }, "for the distribution 'hotspot'"),
        (Parameters { skew: Skew { hot_keys: Some(0.0), ..none }, ..hot() }, "the share of hot keys is 0"),
        (Parameters { skew: Skew { hot_accesses: Some(2.0), ..none }, ..hot() }, "accesses to hot keys is 2"),
    ];
    for (p, reason) in refused {
        let message = generate(&p).unwrap_err();
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(generate(&Parameters { transactions: 0, ..base() }).unwrap().len(), 0);
    assert!("snapshot".parse::<Level>().unwrap_err().contains("snapshot-isolation"));
}

#[test]
fn no_more_sessions_than_asked_for_have_a_transaction_in_flight() {
    for p in all() {
        for (concurrent, at_once) in [(0.01, 1), (0.5, p.sessions as usize / 2)] {
            let history = generate(&Parameters { concurrent, ..p.clone() }).unwrap();
            assert_eq!(history.len() as u64, p.transactions);
            let mut changes: Vec<(i64, i32)> = Vec::new();
            for txn in 0..history.len() {
                changes.extend([(history.txns.start[txn], 1), (history.txns.end[txn], -1)]);
            }
            changes.sort_unstable();
            let in_flight = changes.iter().scan(0, |now, &(_, change)| {
                *now += change;
                Some(*now)
            });
            let most = in_flight.max().unwrap() as usize;
            assert!(most == at_once.max(1), "{most} of {at_once} at once: {p:?}");
        }
    }
}
