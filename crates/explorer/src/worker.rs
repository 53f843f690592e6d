//! The walk through the tree of executions: forward along the oracle order, back to the last choice, aside to swaps.
//!
//! Nothing is recursive: a [`Branch`] is an execution with the choices that are left on the way to it, and a swap starts a
//! branch of its own on top. What a transaction does next may be unknown: then the execution is set aside as a [`Task`] until
//! it is told, and the walk goes on elsewhere. A task depends on nothing but its execution, so it can also be given to
//! another thread, or be written down to go on another day.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::behaviour::{Behaviours, End, Node, Value};
use crate::bits::Set;
use crate::commit_order::Orders;
use crate::history::{History, INITIAL, Program, Txn, Undo};
use crate::level::Level;
use crate::outcomes::{Choices, Shown, State, States, fingerprint, keep_best, keep_first};
use crate::swaps::{Scratch, movable, swap};

/// Which executions are walked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// One for each history (EXPLORE-CE).
    Swapping,
    /// All that run one transaction at a time, in every order of the sessions; histories are met several times.
    Plain,
}

/// Which states of a history are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watched {
    /// None.
    Nothing,
    /// The one at the end of every commit order.
    Final,
    /// The ones after each commit of every commit order.
    EachCommit,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The level that every step keeps.
    pub steering: Level,
    /// The level of each transaction, in the oracle order.
    pub levels: Vec<Level>,
    /// Levels that a behaviour may break, which is then shown.
    pub against: Option<Vec<Level>>,
    /// How executions are walked through.
    pub method: Method,
    /// Which states are looked at.
    pub watched: Watched,
    /// Whether every history is handed over.
    pub collect: bool,
    /// How many behaviours that break `against` are kept.
    pub shown_max: usize,
}

/// What is shared by all workers and does not change while they work.
pub struct Known<'a, S> {
    /// The program.
    pub program: &'a Program<S>,
    /// What its transactions do.
    pub behaviours: &'a Behaviours,
    /// What is asked.
    pub question: &'a Question,
}

impl<S: Set> Known<'_, S> {
    /// The transactions that may begin when all before have ended: the first in the oracle order, or, walking plainly, the next
    /// of every session.
    pub fn beginnings(&self, history: &History<S>) -> impl Iterator<Item = Txn> {
        let most = match self.question.method {
            Method::Swapping => 1,
            Method::Plain => usize::MAX,
        };
        let waiting = (0..self.program.len()).filter(|&t| !history.started.has(t));
        let ready = waiting.filter(|&t| self.program.earlier[t].within(history.started));
        ready.take(most).map(|t| t as Txn)
    }
}

/// An execution from which the walk is to go on.
#[derive(Clone, Debug)]
pub struct Task<S> {
    /// The execution.
    pub history: History<S>,
    /// What the pending transaction has just read at the end of which stretch, if what it does then is not known.
    pub unknown: Option<(Node, Value)>,
}

/// Numbers that are added up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Executions reached, however long (calls of EXPLORE).
    pub explored: u64,
    /// Complete executions.
    pub end_states: u64,
    /// Complete histories that the levels allow.
    pub histories: u64,
    /// Executions that could not be continued.
    pub fruitless: u64,
    /// Behaviours that break the levels compared against.
    pub beyond: u64,
}

#[derive(Clone, Copy, Debug)]
enum Frame {
    /// A transaction began; the choices are those that could begin instead.
    Begin { first: u32, end: u32, next: u32 },
    /// A transaction read; the choices are the sources.
    Read { first: u32, end: u32, next: u32, went_on: bool },
    /// A transaction ended; the choices are reads that may see it instead.
    End { first: u32, end: u32, next: u32 },
}

/// An execution with the choices that are left on the way to it.
#[derive(Debug, Default)]
struct Branch<S> {
    history: History<S>,
    frames: Vec<Frame>,
    /// Transactions to choose from, of all frames.
    sources: Vec<Txn>,
    /// Reads to choose from, of all frames.
    moves: Vec<u32>,
    undo: Undo<S>,
}

/// One walk, its unfinished branches, and what it has found.
#[derive(Debug)]
pub struct Worker<S> {
    branches: Vec<Branch<S>>,
    /// Branches that are done, for their memory.
    spare: Vec<Branch<S>>,
    scratch: Scratch<S>,
    /// Executions that cannot go on until a behaviour is told.
    pub parked: Vec<Task<S>>,
    /// What was counted.
    pub counts: Counts,
    /// The shortest history for each assertion that failed inside a transaction.
    pub failed: BTreeMap<u32, Shown>,
    /// Behaviours that break the levels compared against.
    pub beyond: Vec<Shown>,
    /// Histories to hand over.
    pub collected: Vec<Choices>,
    /// States that were not shared yet.
    pub states: Vec<(State, Shown)>,
    met: FxHashSet<u128>,
}

impl<S: Set> Default for Worker<S> {
    fn default() -> Self {
        Worker {
            branches: Vec::new(),
            spare: Vec::new(),
            scratch: Scratch::default(),
            parked: Vec::new(),
            counts: Counts::default(),
            failed: BTreeMap::new(),
            beyond: Vec::new(),
            collected: Vec::new(),
            states: Vec::new(),
            met: FxHashSet::default(),
        }
    }
}

impl<S: Set> Worker<S> {
    /// Whether nothing is left to walk through.
    pub fn is_idle(&self) -> bool {
        self.branches.is_empty()
    }

    /// Takes a task on, before everything that is left to do.
    pub fn take(&mut self, known: &Known<'_, S>, task: Task<S>) {
        let Task { history, unknown } = task;
        let branch = self.spare.pop().unwrap_or_default();
        self.start(known, Branch { history, ..branch }, unknown);
    }

    /// Starts a branch, or sets its execution aside if what its pending transaction does next is not known.
    fn start(&mut self, known: &Known<'_, S>, mut branch: Branch<S>, unknown: Option<(Node, Value)>) {
        if let Some((node, value)) = unknown {
            let Some(child) = known.behaviours.after(node, value) else {
                self.parked.push(Task { history: branch.history, unknown });
                return;
            };
            branch.history.node[branch.history.pending as usize] = child;
            self.counts.explored += 1 + u64::from(known.behaviours.at(child).steps);
        }
        self.branches.push(branch);
        self.forward(known);
    }

    /// Counts the first call, on the empty history.
    pub fn count_root(&mut self) {
        self.counts.explored += 1;
    }

    /// Goes back to the last choice and takes the next one; `false` if none is left.
    pub fn next(&mut self, known: &Known<'_, S>) -> bool {
        while let Some(branch) = self.branches.last_mut() {
            let Some(frame) = branch.frames.last_mut() else {
                let mut done = self.branches.pop().expect("there is a branch");
                done.undo.clear();
                self.spare.push(done);
                continue;
            };
            match frame {
                Frame::Begin { first, end, next } => {
                    branch.history.undo_begin();
                    if *next == *end {
                        let first = *first as usize;
                        branch.frames.pop();
                        branch.sources.truncate(first);
                        continue;
                    }
                    let txn = branch.sources[*next as usize];
                    *next += 1;
                    self.begin(known, txn);
                }
                Frame::Read { .. } => {
                    branch.history.undo_read(&mut branch.undo);
                    if !self.read_next(known) {
                        continue;
                    }
                }
                Frame::End { first, end, next } => {
                    if *next == *end {
                        let first = *first as usize;
                        branch.history.undo_end(known.behaviours);
                        branch.frames.pop();
                        branch.moves.truncate(first);
                        continue;
                    }
                    let place = branch.moves[*next as usize] as usize;
                    *next += 1;
                    let steering = known.question.steering;
                    let mut moved = self.spare.pop().unwrap_or_default();
                    if !swap(&mut moved.history, &branch.history, known.program, steering, place, &mut self.scratch) {
                        self.spare.push(moved);
                        continue;
                    }
                    let unknown = just_read(&moved.history, known.behaviours);
                    self.start(known, moved, Some(unknown));
                    return true;
                }
            }
            self.forward(known);
            return true;
        }
        false
    }

    fn begin(&mut self, known: &Known<'_, S>, txn: Txn) {
        let branch = self.branches.last_mut().expect("there is a branch");
        branch.history.begin(known.program, txn);
        let root = branch.history.node[txn as usize];
        self.counts.explored += 1 + u64::from(known.behaviours.at(root).steps);
    }

    /// Goes on with the next source of the read that the last frame is about; `false` if none is left, the frame is gone then.
    fn read_next(&mut self, known: &Known<'_, S>) -> bool {
        let branch = self.branches.last_mut().expect("there is a branch");
        let Branch { history, frames, sources, undo, .. } = branch;
        let Some(Frame::Read { first, end, next, went_on }) = frames.last_mut() else {
            unreachable!("the last frame is a read's");
        };
        let pending = history.pending as usize;
        let node = history.node[pending];
        let End::Read(key) = known.behaviours.at(node).end else { unreachable!("the stretch ends in a read") };
        while *next < *end {
            let source = sources[*next as usize];
            *next += 1;
            if !history.read(known.program, known.question.steering, (key, source), &mut self.scratch.forced, undo) {
                continue;
            }
            *went_on = true;
            let value = history.written(known.behaviours, source, key);
            if let Some(child) = known.behaviours.after(node, value) {
                history.node[pending] = child;
                self.counts.explored += 1 + u64::from(known.behaviours.at(child).steps);
                return true;
            }
            self.parked.push(Task { history: history.clone(), unknown: Some((node, value)) });
            history.undo_read(undo);
        }
        if !*went_on {
            self.counts.fruitless += 1;
        }
        let first = *first as usize;
        frames.pop();
        sources.truncate(first);
        false
    }

    /// Extends the execution of the last branch until it is complete or cannot go on.
    fn forward(&mut self, known: &Known<'_, S>) {
        loop {
            let branch = self.branches.last_mut().expect("there is a branch");
            let Branch { history, frames, sources, moves, .. } = branch;
            if history.pending == INITIAL {
                let first = sources.len() as u32;
                sources.extend(known.beginnings(history));
                let end = sources.len() as u32;
                if first == end {
                    self.complete(known);
                    return;
                }
                let txn = sources[first as usize];
                frames.push(Frame::Begin { first, end, next: first + 1 });
                self.begin(known, txn);
                continue;
            }
            match known.behaviours.at(history.node[history.pending as usize]).end {
                End::Read(key) => {
                    let first = sources.len() as u32;
                    sources.push(INITIAL);
                    sources.extend(history.writers(key).members().map(|writer| writer as Txn));
                    let end = sources.len() as u32;
                    frames.push(Frame::Read { first, end, next: first, went_on: false });
                    if !self.read_next(known) {
                        return;
                    }
                }
                End::Commit | End::Abort => {
                    history.end(known.behaviours);
                    self.counts.explored += 1;
                    let first = moves.len() as u32;
                    if known.question.method == Method::Swapping {
                        let steering = known.question.steering;
                        movable(history, known.program, known.behaviours, steering, &mut self.scratch, moves);
                    }
                    let end = moves.len() as u32;
                    frames.push(Frame::End { first, end, next: first });
                }
            }
        }
    }

    /// Looks at the complete execution of the last branch.
    fn complete(&mut self, known: &Known<'_, S>) {
        let Known { program, behaviours, question } = known;
        let branch = self.branches.last().expect("there is a branch");
        let history = &branch.history;
        self.counts.end_states += 1;
        let steering = question.steering;
        let filtered = question.levels.iter().any(|&level| level != steering);
        let watched = question.watched != Watched::Nothing;
        let orders =
            (filtered || watched).then(|| Orders::new(history, program, behaviours, &question.levels, steering));
        if filtered && !orders.as_ref().is_some_and(|orders| orders.as_ref().is_some_and(Orders::any)) {
            return;
        }
        if question.method == Method::Plain && !self.met.insert(fingerprint(&history.choices())) {
            return;
        }
        self.counts.histories += 1;
        let shown = || Shown { events: history.events(behaviours), choices: history.choices(), state: None };
        if behaviours.checks_fail() {
            let ends = history.order.iter().map(|&t| history.node[t as usize]);
            let nodes = history.reads.iter().map(|read| read.node).chain(ends);
            for check in nodes.filter_map(|node| behaviours.at(node).failed_check) {
                keep_best(&mut self.failed, check, shown());
            }
        }
        if let Some(levels) = &question.against
            && !Orders::new(history, program, behaviours, levels, steering).is_some_and(|orders| orders.any())
        {
            self.counts.beyond += 1;
            self.beyond.push(shown());
            if self.beyond.len() >= 2 * question.shown_max.max(1) {
                keep_first(&mut self.beyond, question.shown_max);
            }
        }
        if let (true, Some(Some(orders))) = (watched, &orders) {
            let states: Vec<Vec<_>> = match question.watched {
                Watched::EachCommit => orders.prefix_writers().into_iter().collect(),
                _ => orders.final_writers(),
            };
            for writers in states {
                let state = writers.iter().map(|&(key, txn)| (key, history.written(behaviours, txn, key))).collect();
                self.states.push((state, shown()));
            }
        }
        if question.collect {
            self.collected.push(history.choices());
        }
    }

    /// Hands the states over that were seen since the last time.
    pub fn share(&mut self, states: &mut States) {
        for (state, shown) in self.states.drain(..) {
            states.saw(state, || shown);
        }
    }

    /// Everything that is left to walk through, as tasks; the worker is idle then.
    pub fn unfinished(&mut self, known: &Known<'_, S>) -> Vec<Task<S>> {
        let mut tasks = Vec::new();
        while let Some(task) = self.split(known, true) {
            tasks.push(task);
        }
        self.branches.clear();
        tasks
    }

    /// Gives a part of what is left away: a choice of the branch that was begun first, or of the last one.
    pub fn split(&mut self, known: &Known<'_, S>, newest: bool) -> Option<Task<S>> {
        loop {
            let places = self.branches.iter().enumerate().flat_map(|(b, branch)| {
                let left = branch.frames.iter().enumerate().filter(|(_, frame)| frame.left() > 0);
                left.map(move |(f, _)| (b, f))
            });
            let (b, f) = if newest { places.last()? } else { { places }.next()? };
            if let Some(task) = self.given_away(known, b, f) {
                return Some(task);
            }
        }
    }

    /// The last choice of a frame as a task, or `None` if the level does not allow it.
    fn given_away(&mut self, known: &Known<'_, S>, b: usize, f: usize) -> Option<Task<S>> {
        let Known { program, behaviours, question } = known;
        let branch = &mut self.branches[b];
        let mut history = branch.history.clone();
        // Takes everything back that came after the frame; the forced order is computed anew.
        for frame in branch.frames[f + 1..].iter().rev() {
            match frame {
                Frame::Begin { .. } => history.undo_begin(),
                Frame::Read { .. } => {
                    history.forget_read();
                }
                Frame::End { .. } => history.undo_end(behaviours),
            }
        }
        match &mut branch.frames[f] {
            Frame::Begin { end, .. } => {
                *end -= 1;
                let txn = branch.sources[*end as usize];
                history.undo_begin();
                history.reorder(program, question.steering, &mut self.scratch.forced);
                history.begin(program, txn);
                self.counts.explored += 1 + u64::from(behaviours.at(history.node[txn as usize]).steps);
                Some(Task { history, unknown: None })
            }
            Frame::Read { end, .. } => {
                *end -= 1;
                let source = branch.sources[*end as usize];
                let read = *history.reads.last().expect("the frame has a read");
                history.forget_read();
                history.reorder(program, question.steering, &mut self.scratch.forced);
                let what = (read.key, source);
                if !history.read(program, question.steering, what, &mut self.scratch.forced, &mut Undo::default()) {
                    return None;
                }
                let value = history.written(behaviours, source, read.key);
                Some(Task { history, unknown: Some((read.node, value)) })
            }
            Frame::End { end, .. } => {
                *end -= 1;
                let place = branch.moves[*end as usize] as usize;
                history.reorder(program, question.steering, &mut self.scratch.forced);
                let mut moved = History::default();
                if !swap(&mut moved, &history, program, question.steering, place, &mut self.scratch) {
                    return None;
                }
                let unknown = Some(just_read(&moved, behaviours));
                Some(Task { history: moved, unknown })
            }
        }
    }
}

/// What the pending transaction has just read, and at the end of which stretch.
pub fn just_read<S: Set>(history: &History<S>, behaviours: &Behaviours) -> (Node, Value) {
    let read = history.reads.last().expect("the pending transaction has read");
    (read.node, history.written(behaviours, read.source, read.key))
}

impl Frame {
    /// How many choices were not taken yet.
    fn left(&self) -> u32 {
        match *self {
            Frame::Begin { end, next, .. } | Frame::Read { end, next, .. } | Frame::End { end, next, .. } => end - next,
        }
    }
}
