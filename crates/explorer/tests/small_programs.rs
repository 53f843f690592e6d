//! Small programs whose histories were counted by hand or by exhaustive enumeration (`tests/test_explore_paper.py`).

use isolde_explorer::behaviour::{End, Node, Observed, Value};
use isolde_explorer::bits::{Set, Wide};
use isolde_explorer::explorer::{Explorer, Restoring};
use isolde_explorer::level::Level;
use isolde_explorer::worker::{Counts, Method, Question, Watched};

const LEVELS: [Level; 6] =
    [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::Prefix, Level::Snapshot, Level::Serializable];

/// A step of a transaction; keys are letters.
#[derive(Clone, Copy)]
enum Step {
    Read(char),
    Write(char),
    Abort,
}
use Step::{Abort, Read, Write};

/// Sessions of transactions. Every write of transaction t writes the value t + 1; at first all keys hold 0.
type Program = Vec<Vec<Vec<Step>>>;

struct Running<'a, S> {
    explorer: Explorer<S>,
    transactions: Vec<&'a [Step]>,
    /// Of each stretch that was told: its transaction, and the step after it.
    told: Vec<(usize, usize)>,
}

impl<'a, S: Set> Running<'a, S> {
    fn new(program: &'a Program, level: Level, method: Method) -> Self {
        let transactions: Vec<&[Step]> = program.iter().flatten().map(Vec::as_slice).collect();
        let sessions = program.iter().enumerate().flat_map(|(number, own)| own.iter().map(move |_| number as u16));
        let question = Question {
            steering: level.min(Level::Causal),
            levels: vec![level; transactions.len()],
            against: None,
            method,
            watched: Watched::Nothing,
            collect: true,
            shown_max: 0,
        };
        let mut explorer = Explorer::new(sessions.collect(), question, 1);
        for _ in 'a'..='z' {
            explorer.behaviours().add_key(0);
        }
        let mut running = Running { explorer, transactions, told: Vec::new() };
        for t in 0..running.transactions.len() {
            let (observed, next) = running.stretch(t, 0);
            running.explorer.add_root(t as u16, observed);
            running.told.push((t, next));
        }
        running
    }

    /// What a transaction does from a step to its next read of somebody else's write.
    fn stretch(&self, t: usize, from: usize) -> (Observed, usize) {
        let steps = self.transactions[t];
        let number = |key: char| key as u32 - 'a' as u32;
        let mut writes = Vec::new();
        let mut own = 0;
        for (place, &step) in steps.iter().enumerate().skip(from) {
            match step {
                Write(key) => {
                    writes.push((number(key), t as Value + 1));
                    own += 1;
                }
                Read(key) if steps[..place].iter().any(|&step| matches!(step, Write(written) if written == key)) => {
                    own += 1;
                }
                Read(key) => {
                    return (
                        Observed { steps: own, writes, end: End::Read(number(key)), failed_check: None },
                        place + 1,
                    );
                }
                Abort => return (Observed { steps: own, writes, end: End::Abort, failed_check: None }, place + 1),
            }
        }
        (Observed { steps: own, writes, end: End::Commit, failed_check: None }, steps.len())
    }

    fn tell(&mut self, node: Node, value: Value) {
        let (t, from) = self.told[node as usize];
        let (observed, next) = self.stretch(t, from);
        let told = self.explorer.behaviours().add_after(node, value, observed);
        assert_eq!(told as usize, self.told.len());
        self.told.push((t, next));
    }

    fn go(&mut self, calls_max: u64) -> bool {
        let done = self.explorer.run(calls_max, &|| true);
        for (node, value) in self.explorer.requests() {
            self.tell(node, value);
        }
        done
    }

    fn finish(mut self) -> (Counts, Vec<String>) {
        while !self.go(u64::MAX / 2) {}
        let counts = self.explorer.counts();
        (counts, sorted(self.explorer.collected()))
    }
}

fn sorted(found: Vec<Vec<(u16, Vec<u16>)>>) -> Vec<String> {
    let named = |mut history: Vec<(u16, Vec<u16>)>| {
        history.sort();
        format!("{history:?}")
    };
    let mut found: Vec<String> = found.into_iter().map(named).collect();
    found.sort();
    found
}

fn counts_at_all_levels(program: &Program) -> [u64; 6] {
    LEVELS.map(|level| {
        let (counts, found) = Running::<u64>::new(program, level, Method::Swapping).finish();
        let (wide, in_wide_sets) = Running::<Wide>::new(program, level, Method::Swapping).finish();
        let (plain, by_plain_search) = Running::<u64>::new(program, level, Method::Plain).finish();
        assert_eq!(found, in_wide_sets);
        assert_eq!(found, by_plain_search);
        assert_eq!((counts.explored, counts.histories), (wide.explored, wide.histories));
        assert_eq!(counts.histories, plain.histories);
        assert_eq!(found.len() as u64, counts.histories);
        if level <= Level::Causal {
            assert_eq!((counts.fruitless, counts.end_states), (0, counts.histories));
        }
        counts.histories
    })
}

fn lost_histories() -> Program {
    vec![vec![vec![Read('x'), Read('y')]], vec![vec![Write('y')]], vec![vec![Write('y')], vec![Write('x')]]]
}

#[test]
fn half_of_a_transaction_is_seen_only_at_read_committed() {
    let program = vec![vec![vec![Read('x'), Read('y')]], vec![vec![Write('x'), Write('y')]]];
    assert_eq!(counts_at_all_levels(&program), [3, 2, 2, 2, 2, 2]);
}

#[test]
fn lost_updates_and_write_skew_end_at_their_levels() {
    let lost_update = vec![vec![vec![Read('x'), Write('x')]], vec![vec![Read('x'), Write('x')]]];
    assert_eq!(counts_at_all_levels(&lost_update), [3, 3, 3, 3, 2, 2]);
    let write_skew = vec![vec![vec![Read('x'), Write('y')]], vec![vec![Read('y'), Write('x')]]];
    assert_eq!(counts_at_all_levels(&write_skew), [3, 3, 3, 3, 3, 2]);
}

#[test]
fn no_history_is_lost_where_the_printed_condition_loses_one() {
    assert_eq!(counts_at_all_levels(&lost_histories()), [6, 6, 5, 5, 5, 5]);
}

#[test]
fn a_transaction_that_reads_its_own_write_and_aborts_has_both_histories() {
    let program = vec![vec![vec![Read('x'), Write('x'), Read('x'), Abort]], vec![vec![Write('x')]]];
    assert_eq!(counts_at_all_levels(&program), [2, 2, 2, 2, 2, 2]);
}

#[test]
fn prefix_is_decided_at_the_end() {
    let program = vec![
        vec![vec![Read('q')]],
        vec![vec![Write('x')]],
        vec![vec![Write('y')], vec![Read('x')]],
        vec![vec![Read('x'), Write('k')]],
        vec![vec![Read('k'), Read('y'), Write('q')]],
    ];
    assert_eq!(counts_at_all_levels(&program), [32, 32, 32, 30, 30, 30]);
}

#[test]
fn a_walk_that_stops_after_every_execution_goes_on_where_it_was() {
    let program = lost_histories();
    for level in LEVELS {
        let (expected, all) = Running::<u64>::new(&program, level, Method::Swapping).finish();
        let mut running = Running::<u64>::new(&program, level, Method::Swapping);
        let mut found = Vec::new();
        loop {
            // What is told is forgotten with the walk, so that it must not end before it has gone on.
            let before = running.explorer.counts().explored;
            let mut done = false;
            while !done && running.explorer.counts().explored == before {
                done = running.go(1);
            }
            if done {
                break;
            }
            found.extend(running.explorer.collected());
            let (counts, left) = (running.explorer.counts(), running.explorer.left());
            running = Running::new(&program, level, Method::Swapping);
            running.explorer.restore_counts(counts);
            for execution in &left {
                while let Err(Restoring::Needs(node, value)) = running.explorer.restore(execution) {
                    running.tell(node, value);
                }
            }
        }
        found.extend(running.explorer.collected());
        assert_eq!(sorted(found), all);
        let counts = running.explorer.counts();
        assert_eq!((counts.explored, counts.histories), (expected.explored, expected.histories));
    }
}

#[test]
fn an_estimate_that_keeps_everything_is_exact() {
    let large = vec![vec![vec![Read('x'), Write('y')], vec![Read('y'), Read('x'), Write('x')]]; 3];
    for program in [lost_histories(), large] {
        for (level, method) in LEVELS.iter().flat_map(|&level| [(level, Method::Swapping), (level, Method::Plain)]) {
            let mut running = Running::<u64>::new(&program, level, method);
            assert_eq!(running.explorer.estimated(), None);
            while !running.explorer.estimate(100_000, 1_000) {
                for (node, value) in running.explorer.requests() {
                    running.tell(node, value);
                }
            }
            let estimated = running.explorer.estimated();
            let (counts, _) = running.finish();
            let off = estimated.expect("it was estimated") / counts.explored as f64 - 1.0;
            assert!(off.abs() < 1e-9, "{level:?} {method:?}: {off}");
        }
    }
}
