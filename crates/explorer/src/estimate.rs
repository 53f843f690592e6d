//! How large the tree of executions is, without walking through it.
//!
//! *Stochastic enumeration* (Rubinstein 2013; Vaisman and Kroese 2017): go through the tree level by level, and keep of each
//! level only a few executions, chosen at random among all children of those that were kept of the level above. If `n` of about
//! `size` executions were kept and have `c` children together, the next level has about `size · c / n`. The expected value is
//! exact whatever the tree; how far one pass is off depends on how much alike the subtrees of one level are. With `n = 1` it is
//! Knuth's single random path (1975). Each pass keeps twice as many as the one before, and counts twice as much.

use crate::behaviour::{Behaviours, End, Node, Value};
use crate::bits::Set;
use crate::history::{History, INITIAL, Program, Txn, Undo};
use crate::swaps::{Scratch, movable, swap};
use crate::worker::{Known, Method, Task, just_read};

/// Bytes that the kept executions of a level may take.
const BYTES_MAX: usize = 16 << 20;

/// Estimates of one exploration, pass by pass.
#[derive(Debug)]
pub struct Estimator<S> {
    /// The executions that were kept of the level that is being gone through, and how many of them are done.
    level: Vec<Task<S>>,
    at: usize,
    /// About how many executions the level has.
    size: f64,
    /// Those kept of the next level so far, how many it was chosen from, and the most to keep.
    next: Vec<Task<S>>,
    children: u64,
    kept_max: usize,
    /// Calls of this pass so far.
    calls: f64,
    /// Over the passes that are finished: their estimates, each times the number of executions kept, and those numbers.
    sum: f64,
    weights: f64,
    kept_end: usize,
    random: u64,
    scratch: Scratch<S>,
    undo: Undo<S>,
}

impl<S: Set> Estimator<S> {
    /// Keeps at most so many executions of a level in the first pass, fewer if they are large.
    pub fn new(program: &Program<S>, behaviours: &Behaviours, kept_max: usize) -> Self {
        let bytes = (4 * program.len() + behaviours.keys()) * size_of::<S>();
        let kept_end = (BYTES_MAX / bytes.max(1)).max(1);
        Estimator {
            level: Vec::new(),
            at: 0,
            size: 0.0,
            next: Vec::new(),
            children: 0,
            kept_max: kept_max.clamp(1, kept_end),
            calls: 0.0,
            sum: 0.0,
            weights: 0.0,
            kept_end,
            random: 0x9e37_79b9_7f4a_7c15,
            scratch: Scratch::default(),
            undo: Undo::default(),
        }
    }

    /// The weighted mean of the passes so far: about how many calls of EXPLORE there are in all.
    pub fn calls(&self) -> Option<f64> {
        (self.weights > 0.0).then(|| self.sum / self.weights)
    }

    /// What has to be told before it can go on: which value was read at the end of which stretch.
    pub fn requests(&self) -> impl Iterator<Item = (Node, Value)> + '_ {
        self.level[self.at..].iter().filter_map(|task| task.unknown)
    }

    /// Goes on for so many executions, until a pass is finished, or until something has to be told; whether a pass was finished.
    pub fn go(&mut self, known: &Known<'_, S>, executions_max: usize) -> bool {
        if self.level.is_empty() {
            let history = History::new(known.program.len(), known.behaviours.keys());
            self.level.push(Task { history, unknown: None });
            (self.size, self.calls) = (1.0, 0.0);
        }
        for _ in 0..executions_max {
            let task = &mut self.level[self.at];
            if let Some((node, value)) = task.unknown {
                let Some(child) = known.behaviours.after(node, value) else { return false };
                task.history.node[task.history.pending as usize] = child;
            }
            let mut history = std::mem::take(&mut task.history);
            self.at += 1;
            self.calls += self.size / self.level.len() as f64 * self.expand(known, &mut history);
            if self.at == self.level.len() && !self.descend() {
                return true;
            }
        }
        false
    }

    /// Goes to the next level; `false` if there is none.
    fn descend(&mut self) -> bool {
        self.size *= self.children as f64 / self.level.len() as f64;
        std::mem::swap(&mut self.level, &mut self.next);
        self.next.clear();
        (self.at, self.children) = (0, 0);
        if self.level.is_empty() {
            self.sum += self.calls * self.kept_max as f64;
            self.weights += self.kept_max as f64;
            self.kept_max = (2 * self.kept_max).min(self.kept_end);
        }
        !self.level.is_empty()
    }

    /// Offers all that can come after an execution for the next level; how many calls led to it from the execution above.
    fn expand(&mut self, known: &Known<'_, S>, history: &mut History<S>) -> f64 {
        let Known { program, behaviours, question } = known;
        if history.pending == INITIAL {
            self.begin(known, history);
            return 1.0;
        }
        let pending = history.pending as usize;
        let node = history.node[pending];
        let stretch = behaviours.at(node);
        match stretch.end {
            End::Read(key) => {
                for source in std::iter::once(INITIAL).chain(history.writers(key).members().map(|t| t as Txn)) {
                    let what = (key, source);
                    if history.read(program, question.steering, what, &mut self.scratch.forced, &mut self.undo) {
                        let unknown = Some((node, history.written(behaviours, source, key)));
                        self.offer(|| Task { history: history.clone(), unknown });
                        history.undo_read(&mut self.undo);
                    }
                }
                1.0 + f64::from(stretch.steps)
            }
            End::Commit | End::Abort => {
                history.end(behaviours);
                if question.method == Method::Swapping {
                    let mut moves = Vec::new();
                    movable(history, program, behaviours, question.steering, &mut self.scratch, &mut moves);
                    for place in moves {
                        let mut moved = History::default();
                        if swap(&mut moved, history, program, question.steering, place as usize, &mut self.scratch) {
                            let unknown = Some(just_read(&moved, behaviours));
                            self.offer(|| Task { history: moved, unknown });
                        }
                    }
                }
                self.begin(known, history);
                // The end is a call of its own.
                2.0 + f64::from(stretch.steps)
            }
        }
    }

    /// Offers the executions in which the next transaction begins.
    fn begin(&mut self, known: &Known<'_, S>, history: &History<S>) {
        for txn in known.beginnings(history) {
            self.offer(|| {
                let mut begun = history.clone();
                begun.begin(known.program, txn);
                Task { history: begun, unknown: None }
            });
        }
    }

    /// Keeps every execution that is offered with the same probability (reservoir sampling).
    fn offer(&mut self, task: impl FnOnce() -> Task<S>) {
        self.children += 1;
        if self.next.len() < self.kept_max {
            self.next.push(task());
            return;
        }
        let place = self.draw(self.children);
        if place < self.kept_max as u64 {
            self.next[place as usize] = task();
        }
    }

    /// A number below `end` (SplitMix64; the slight bias of the remainder is far below what the estimate can tell).
    fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
