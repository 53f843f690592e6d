//! What an exploration has found: counts, the shortest violation of each check, states that wait to be judged.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::behaviour::{Key, Value};
use crate::history::Txn;

/// A state of the keys that were written, ascending by key.
pub type State = Vec<(Key, Value)>;

/// How many states that were judged good are remembered; a state that is forgotten is judged again.
const REMEMBERED_MAX: usize = 4 << 20;

/// A complete history: whom each transaction read from, in the history order.
pub type Choices = Vec<(Txn, Vec<Txn>)>;

/// A history that shows something, with the state that it leaves if that is what is shown.
#[derive(Clone, Debug)]
pub struct Shown {
    /// How many events it has.
    pub events: u32,
    /// The history.
    pub choices: Choices,
    /// A state that it can leave.
    pub state: Option<State>,
}

impl Shown {
    /// The order in which violations are shown: the shortest first, then by what was read, so that it never depends on the
    /// order in which they were found.
    fn rank(&self) -> (u32, Choices, &Option<State>) {
        let mut sorted = self.choices.clone();
        sorted.sort();
        (self.events, sorted, &self.state)
    }

    fn better_than(&self, other: &Shown) -> bool {
        self.events < other.events || (self.events == other.events && self.rank() < other.rank())
    }
}

/// Puts a history where the best one for a check is kept.
pub fn keep_best(best: &mut BTreeMap<u32, Shown>, check: u32, shown: Shown) {
    match best.get_mut(&check) {
        Some(known) if !shown.better_than(known) => {}
        Some(known) => *known = shown,
        None => {
            best.insert(check, shown);
        }
    }
}

/// Keeps the first `most` of the histories, in the order in which they are shown.
pub fn keep_first(shown: &mut Vec<Shown>, most: usize) {
    if shown.len() > most {
        shown.sort_by(|a, b| a.rank().cmp(&b.rank()));
        shown.truncate(most);
    }
}

/// Final states, and what the invariants say of them.
#[derive(Debug, Default)]
pub struct States {
    /// States that nobody has judged yet, with the best history that leaves them.
    waiting: FxHashMap<State, Shown>,
    bad: FxHashMap<State, u32>,
    good: FxHashSet<u128>,
    /// The shortest history for each check that failed on a state.
    pub best: BTreeMap<u32, Shown>,
}

impl States {
    /// Notes that a history leaves a state.
    pub fn saw(&mut self, state: State, shown: impl FnOnce() -> Shown) {
        if let Some(&check) = self.bad.get(&state) {
            let shown = Shown { state: Some(state), ..shown() };
            keep_best(&mut self.best, check, shown);
        } else if let Some(known) = self.waiting.get_mut(&state) {
            let shown = Shown { state: Some(state), ..shown() };
            if shown.better_than(known) {
                *known = shown;
            }
        } else if !self.good.contains(&digest(&state)) {
            let shown = Shown { state: Some(state.clone()), ..shown() };
            self.waiting.insert(state, shown);
        }
    }

    /// How many states wait to be judged.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The states that wait to be judged.
    pub fn unjudged(&self) -> Vec<State> {
        let mut states: Vec<State> = self.waiting.keys().cloned().collect();
        states.sort();
        states
    }

    /// Says of a state that it is good, or which check fails on it.
    pub fn judge(&mut self, state: State, failed: Option<u32>) {
        let Some(shown) = self.waiting.remove(&state) else { return };
        match failed {
            Some(check) => {
                keep_best(&mut self.best, check, shown);
                self.bad.insert(state, check);
            }
            None => {
                if self.good.len() >= REMEMBERED_MAX {
                    self.good.clear();
                }
                self.good.insert(digest(&state));
            }
        }
    }
}

/// A fingerprint that no two states share by chance.
fn digest(content: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        content.hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}

/// A fingerprint of a history that does not depend on the history order.
pub fn fingerprint(choices: &Choices) -> u128 {
    let mut sorted = choices.clone();
    sorted.sort();
    digest(&sorted)
}
