//! Explorations, as numbers: transactions, keys, values and stretches of behaviour are named by Python's side.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isolde_explorer::behaviour::{End, Observed};
use isolde_explorer::bits::{Set, Wide};
use isolde_explorer::commit_order::Step;
use isolde_explorer::explorer::{Explorer, Left, Restoring};
use isolde_explorer::history::INITIAL;
use isolde_explorer::level::Level;
use isolde_explorer::outcomes::{Choices, Shown, State};
use isolde_explorer::worker::{Counts, Method, Question, Watched};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::enter;

/// A history as Python sees it: each transaction with whom its reads read from; -1 is the initial value.
type Sources = Vec<(u16, Vec<i32>)>;
/// A history that shows something: its check, itself, the state that it leaves.
type ShownRow = (u32, Sources, Option<State>);
/// Numbers: explored, end states, histories, fruitless, beyond.
type CountsRow = (u64, u64, u64, u64, u64);

/// A commit order: each step's transaction and whether it is the commit, and how many steps lead to the state asked for.
type OrderRow = (Vec<(u16, bool)>, usize);

enum Any {
    Small(Box<Explorer<u64>>),
    Large(Box<Explorer<Wide>>),
}

macro_rules! each {
    ($any:expr, $explorer:ident => $body:expr) => {
        match $any {
            Any::Small($explorer) => $body,
            Any::Large($explorer) => $body,
        }
    };
}

/// One exploration.
#[pyclass(frozen, module = "isolde._core._native")]
pub struct Exploration {
    inner: Arc<Mutex<Any>>,
}

impl Exploration {
    fn lock(&self) -> MutexGuard<'_, Any> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Exploration {
    #[new]
    #[pyo3(signature = (*, sessions, steering, levels, against, plain, watched, collect, shown_max, threads))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        sessions: Vec<u16>,
        steering: &str,
        levels: Vec<String>,
        against: Option<Vec<String>>,
        plain: bool,
        watched: &str,
        collect: bool,
        shown_max: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let named = |names: Vec<String>| names.iter().map(|name| level_named(name)).collect::<PyResult<Vec<_>>>();
        let steering = level_named(steering)?;
        if !steering.steers() {
            return Err(PyValueError::new_err("only levels up to causal can steer an exploration"));
        }
        let question = Question {
            steering,
            levels: named(levels)?,
            against: against.map(named).transpose()?,
            method: if plain { Method::Plain } else { Method::Swapping },
            watched: match watched {
                "nothing" => Watched::Nothing,
                "final" => Watched::Final,
                "each-commit" => Watched::EachCommit,
                _ => return Err(PyValueError::new_err(format!("unknown states {watched}"))),
            },
            collect,
            shown_max,
        };
        if question.levels.len() != sessions.len() {
            return Err(PyValueError::new_err("there is one level for each transaction"));
        }
        let any = if sessions.len() <= u64::CAPACITY {
            Any::Small(Box::new(Explorer::new(sessions, question, threads)))
        } else if sessions.len() <= Wide::CAPACITY {
            Any::Large(Box::new(Explorer::new(sessions, question, threads)))
        } else {
            return Err(PyValueError::new_err(format!("more than {} transactions", Wide::CAPACITY)));
        };
        Ok(Exploration { inner: Arc::new(Mutex::new(any)) })
    }

    /// Tells the initial value of the next key; the key's number.
    fn add_key(&self, initial: u32) -> u32 {
        each!(&mut *self.lock(), explorer => explorer.behaviours().add_key(initial))
    }

    /// Tells how a transaction begins; the number of the stretch.
    fn add_root(
        &self,
        txn: u16,
        steps: u32,
        writes: Vec<(u32, u32)>,
        end: &str,
        key: u32,
        failed_check: Option<u32>,
    ) -> PyResult<u32> {
        let observed = Observed { steps, writes, end: end_named(end, key)?, failed_check };
        Ok(each!(&mut *self.lock(), explorer => explorer.add_root(txn, observed)))
    }

    /// Tells what comes after a value is read at the end of a stretch; the number of the new stretch.
    #[allow(clippy::too_many_arguments)]
    fn add_after(
        &self,
        parent: u32,
        value: u32,
        steps: u32,
        writes: Vec<(u32, u32)>,
        end: &str,
        key: u32,
        failed_check: Option<u32>,
    ) -> PyResult<u32> {
        let observed = Observed { steps, writes, end: end_named(end, key)?, failed_check };
        Ok(each!(&mut *self.lock(), explorer => explorer.behaviours().add_after(parent, value, observed)))
    }

    /// Goes on for about so many calls; whether nothing is left.
    fn run(&self, py: Python<'_>, calls_max: u64) -> PyResult<bool> {
        let inner = self.inner.clone();
        enter(py, move |keep_on| {
            let mut any = inner.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(each!(&mut *any, explorer => explorer.run(calls_max, keep_on)))
        })
    }

    /// The behaviours that have to be told: pairs of a stretch and the value read at its end.
    fn requests(&self) -> Vec<(u32, u32)> {
        each!(&*self.lock(), explorer => explorer.requests())
    }

    /// Goes on with estimating the size of the whole; whether one more estimate is finished.
    fn estimate(&self, kept_max: usize, executions_max: usize) -> bool {
        each!(&mut *self.lock(), explorer => explorer.estimate(kept_max, executions_max))
    }

    /// About how many calls there are in all, if that was estimated.
    fn estimated(&self) -> Option<f64> {
        each!(&*self.lock(), explorer => explorer.estimated())
    }

    /// What was counted.
    fn counts(&self) -> CountsRow {
        let counts = each!(&*self.lock(), explorer => explorer.counts());
        let Counts { explored, end_states, histories, fruitless, beyond } = counts;
        (explored, end_states, histories, fruitless, beyond)
    }

    /// States that wait to be judged.
    fn unjudged(&self) -> Vec<State> {
        each!(&mut *self.lock(), explorer => explorer.unjudged())
    }

    /// Says of states which check fails on them, if one does.
    fn judge(&self, verdicts: Vec<(State, Option<u32>)>) {
        each!(&mut *self.lock(), explorer => for (state, failed) in verdicts {
            explorer.states().judge(state, failed);
        });
    }

    /// The shortest history for each check that failed.
    fn failed(&self) -> Vec<ShownRow> {
        let failed = each!(&*self.lock(), explorer => explorer.failed());
        failed.into_iter().map(|(check, shown)| shown_row(check, shown)).collect()
    }

    /// Behaviours that break the levels compared against, the shortest first.
    fn beyond(&self) -> Vec<Sources> {
        let beyond = each!(&*self.lock(), explorer => explorer.beyond());
        beyond.into_iter().map(|shown| sources(shown.choices)).collect()
    }

    /// Histories that were not handed over yet.
    fn collected(&self) -> Vec<Sources> {
        let collected = each!(&mut *self.lock(), explorer => explorer.collected());
        collected.into_iter().map(sources).collect()
    }

    /// A commit order of a complete history: each step, whether it is the commit, and how many steps lead to the state.
    fn commit_order(&self, history: Sources, state: Option<State>) -> PyResult<Option<OrderRow>> {
        let found = each!(&*self.lock(), explorer => explorer.commit_order(&choices(history), state.as_ref()));
        let found = found.map_err(|_| PyValueError::new_err("no execution of this program"))?;
        Ok(found.map(|(steps, reached)| {
            let named = |step| match step {
                Step::Snapshot(txn) => (txn, false),
                Step::Commit(txn) => (txn, true),
            };
            (steps.into_iter().map(named).collect(), reached)
        }))
    }

    /// What is left to walk through: executions, whether the last transaction is pending.
    fn left(&self) -> Vec<(Sources, bool)> {
        let left = each!(&mut *self.lock(), explorer => explorer.left());
        left.into_iter().map(|left| (sources(left.choices), left.pending)).collect()
    }

    /// Goes on from an execution; or the stretch and the value read at its end that must be told first.
    fn restore(&self, history: Sources, pending: bool) -> PyResult<Option<(u32, u32)>> {
        let left = Left { choices: choices(history), pending };
        match each!(&mut *self.lock(), explorer => explorer.restore(&left)) {
            Ok(()) => Ok(None),
            Err(Restoring::Needs(node, value)) => Ok(Some((node, value))),
            Err(Restoring::Impossible) => Err(PyValueError::new_err("no execution of this program")),
        }
    }

    /// Counts go on from here.
    fn restore_counts(&self, counts: CountsRow) {
        let (explored, end_states, histories, fruitless, beyond) = counts;
        let counts = Counts { explored, end_states, histories, fruitless, beyond };
        each!(&mut *self.lock(), explorer => explorer.restore_counts(counts));
    }
}

/// The names of the levels that an exploration knows.
#[pyfunction]
pub fn exploration_levels() -> Vec<&'static str> {
    LEVELS.iter().map(|&(name, _)| name).collect()
}

const LEVELS: [(&str, Level); 7] = [
    ("trivial", Level::Trivial),
    ("read-committed", Level::ReadCommitted),
    ("read-atomic", Level::ReadAtomic),
    ("causal", Level::Causal),
    ("prefix", Level::Prefix),
    ("snapshot-isolation", Level::Snapshot),
    ("serializable", Level::Serializable),
];

fn level_named(name: &str) -> PyResult<Level> {
    let found = LEVELS.iter().find(|&&(known, _)| known == name);
    found.map(|&(_, level)| level).ok_or_else(|| PyValueError::new_err(format!("unknown level {name}")))
}

fn end_named(end: &str, key: u32) -> PyResult<End> {
    match end {
        "read" => Ok(End::Read(key)),
        "commit" => Ok(End::Commit),
        "abort" => Ok(End::Abort),
        _ => Err(PyValueError::new_err(format!("unknown end {end}"))),
    }
}

fn sources(choices: Choices) -> Sources {
    let named = |source: u16| if source == INITIAL { -1 } else { i32::from(source) };
    choices.into_iter().map(|(txn, read)| (txn, read.into_iter().map(named).collect())).collect()
}

fn choices(history: Sources) -> Choices {
    let txn = |source: i32| u16::try_from(source).unwrap_or(INITIAL);
    history.into_iter().map(|(reader, read)| (reader, read.into_iter().map(txn).collect())).collect()
}

fn shown_row(check: u32, shown: Shown) -> ShownRow {
    (check, sources(shown.choices), shown.state)
}
