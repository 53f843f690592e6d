//! Commit orders of a complete history: whether one exists at given levels, and which final states they allow.
//!
//! One order serves all transactions; each read obeys the level of its own transaction. An order is built from its
//! beginning. A transaction at prefix or snapshot isolation takes its snapshot at a point of its own, before it commits; one
//! at serializable, when it commits. A write is held back while somebody still has to see the version that it replaces,
//! so that what may come next depends only on *which* transactions have committed and which snapshots are taken,
//! never on their order: sets that were found to lead nowhere are not tried again.

use rustc_hash::FxHashSet;

use crate::behaviour::{Behaviours, Key, Value};
use crate::bits::Set;
use crate::history::{Forced, History, INITIAL, Program, Txn, add_forced};
use crate::level::Level;

/// Everything that decides which commit orders a complete history has.
pub struct Orders<'a, S> {
    history: &'a History<S>,
    behaviours: &'a Behaviours,
    levels: &'a [Level],
    /// Of each transaction, those that come before it in every order.
    before: Vec<S>,
    /// Of each transaction, those that must have committed when its snapshot is taken.
    direct: Vec<S>,
    /// Of each transaction, those that write one of its keys.
    conflicts: Vec<S>,
    /// Versions that somebody with a snapshot reads: the key, its writer, its readers.
    seen: Vec<(Key, Txn, S)>,
    /// Transactions that take a snapshot before they commit.
    snapshots: S,
    /// Those of them that nobody who writes one of their keys may overtake.
    guarded: S,
    /// Transactions that write nothing.
    silent: S,
}

/// Of each key that was written, who wrote it last; ascending by key.
pub type LastWriters = Vec<(Key, Txn)>;

/// Looks at a choice of last writers and what then comes before each transaction; `true` if it has seen enough.
type Visit<'v, S> = dyn FnMut(&[(Key, Txn)], &[S]) -> bool + 'v;

/// A point in an order: who has committed, and whose snapshots are taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Point<S> {
    committed: S,
    started: S,
}

/// A step of an order: a transaction commits, or takes its snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It takes its snapshot.
    Snapshot(Txn),
    /// It commits.
    Commit(Txn),
}

impl<'a, S: Set> Orders<'a, S> {
    /// The orders of a history whose transactions run at these levels, or `None` if what reads force has a cycle.
    pub fn new(
        history: &'a History<S>,
        program: &Program<S>,
        behaviours: &'a Behaviours,
        levels: &'a [Level],
        steering: Level,
    ) -> Option<Self> {
        // What the exploration has found out already serves if the levels force no more.
        let enough = levels.iter().all(|level| level.step_by_step() == steering);
        let before = if enough { history.before.clone() } else { forced_order(history, program, levels)? };
        let mut orders = Orders {
            history,
            behaviours,
            levels,
            before,
            direct: Vec::new(),
            conflicts: Vec::new(),
            seen: Vec::new(),
            snapshots: S::default(),
            guarded: S::default(),
            silent: S::default(),
        };
        if orders.steers() {
            return Some(orders);
        }
        let count = levels.len();
        orders.direct = (0..count).map(|t| program.earlier[t].or(history.sources[t])).collect();
        for (t, level) in levels.iter().enumerate() {
            match level {
                Level::Prefix => orders.snapshots.insert(t),
                Level::Snapshot => {
                    orders.snapshots.insert(t);
                    orders.guarded.insert(t);
                }
                _ => {}
            }
            if !history.committed.has(t) || orders.writes(t).is_empty() {
                orders.silent.insert(t);
            }
        }
        orders.conflicts = vec![S::default(); count];
        for t in orders.guarded.minus(orders.silent).members() {
            for &(key, _) in &behaviours.at(history.node[t]).writes {
                orders.conflicts[t] = orders.conflicts[t].or(history.writers(key));
            }
            orders.conflicts[t].remove(t);
        }
        for read in &history.reads {
            if levels[read.txn as usize].steers() || history.writers(read.key).is_empty() {
                continue;
            }
            let reader = S::single(read.txn as usize);
            match orders.seen.iter_mut().find(|(key, source, _)| *key == read.key && *source == read.source) {
                Some((_, _, readers)) => *readers = readers.or(reader),
                None => orders.seen.push((read.key, read.source, reader)),
            }
        }
        Some(orders)
    }

    fn writes(&self, t: usize) -> &'a [(Key, u32)] {
        &self.behaviours.at(self.history.node[t]).writes
    }

    fn all(&self) -> S {
        self.history.started
    }

    /// Whether there is an order.
    pub fn any(&self) -> bool {
        self.steers() || self.complete(&self.before, None)
    }

    /// Whether every order that keeps what reads force will do.
    fn steers(&self) -> bool {
        self.levels.iter().all(|level| level.steers())
    }

    /// An order, step by step, if there is one.
    pub fn steps(&self) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        self.complete(&self.before, Some(&mut steps)).then_some(steps)
    }

    /// Whether an order exists in which these come before those; `steps` gets it.
    fn complete(&self, before: &[S], mut steps: Option<&mut Vec<Step>>) -> bool {
        if self.steers() {
            if let Some(steps) = steps {
                steps.extend(self.sorted(before).into_iter().map(Step::Commit));
            }
            return true;
        }
        let mut hopeless: FxHashSet<Point<S>> = FxHashSet::default();
        // Each entry: a point, the steps that can be tried there, and how many led to it.
        let mut stack: Vec<(Point<S>, Vec<Step>, usize)> = Vec::new();
        let mut taken: Vec<Step> = Vec::new();
        let mut point = Point::default();
        loop {
            self.free_steps(before, &mut point, &mut taken);
            if point.committed == self.all() {
                if let Some(steps) = steps.as_deref_mut() {
                    *steps = taken;
                }
                return true;
            }
            if !hopeless.contains(&point) {
                let options = self.options(before, point);
                stack.push((point, options, taken.len()));
            }
            loop {
                let Some((here, options, length)) = stack.last_mut() else { return false };
                taken.truncate(*length);
                if let Some(step) = options.pop() {
                    point = *here;
                    self.take(&mut point, step);
                    taken.push(step);
                    break;
                }
                hopeless.insert(*here);
                stack.pop();
            }
        }
    }

    /// The transactions one after the other, none before those that come before it; in the history order where it is free.
    fn sorted(&self, before: &[S]) -> Vec<Txn> {
        let mut committed = S::default();
        let mut sorted = Vec::new();
        while committed != self.all() {
            let ready = |&&txn: &&Txn| !committed.has(txn as usize) && before[txn as usize].within(committed);
            let &next = self.history.order.iter().find(ready).expect("what comes before what has no cycle");
            committed.insert(next as usize);
            sorted.push(next);
        }
        sorted
    }

    fn take(&self, point: &mut Point<S>, step: Step) {
        match step {
            Step::Snapshot(txn) => point.started.insert(txn as usize),
            Step::Commit(txn) => {
                point.committed.insert(txn as usize);
                point.started.insert(txn as usize);
            }
        }
    }

    /// Takes all steps that can only help: snapshots that nobody's write can spoil, and ends of transactions without writes.
    fn free_steps(&self, before: &[S], point: &mut Point<S>, taken: &mut Vec<Step>) {
        loop {
            let mut moved = false;
            for t in self.all().minus(point.committed).members() {
                let waits = self.snapshots.has(t) && !point.started.has(t);
                if waits {
                    let harmless = !self.guarded.has(t) || self.silent.has(t);
                    if harmless && self.may_start(*point, t) {
                        self.step(point, Step::Snapshot(t as Txn), taken);
                        moved = true;
                    }
                } else if self.silent.has(t) && before[t].within(point.committed) {
                    self.step(point, Step::Commit(t as Txn), taken);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn step(&self, point: &mut Point<S>, step: Step, taken: &mut Vec<Step>) {
        self.take(point, step);
        taken.push(step);
    }

    fn options(&self, before: &[S], point: Point<S>) -> Vec<Step> {
        let mut options = Vec::new();
        for t in self.all().minus(point.committed).members() {
            if self.snapshots.has(t) && !point.started.has(t) {
                if self.may_start(point, t) {
                    options.push(Step::Snapshot(t as Txn));
                }
            } else if self.may_commit(before, point, t) {
                options.push(Step::Commit(t as Txn));
            }
        }
        options.reverse();
        options
    }

    fn may_start(&self, point: Point<S>, t: usize) -> bool {
        self.direct[t].within(point.committed)
    }

    fn may_commit(&self, before: &[S], point: Point<S>, t: usize) -> bool {
        if !before[t].within(point.committed) {
            return false;
        }
        // Nobody at snapshot isolation is overtaken between its snapshot and its commit.
        let open = self.guarded.and(point.started).minus(point.committed);
        if open.members().any(|other| other != t && self.conflicts[other].has(t)) {
            return false;
        }
        let waiting = self.all().minus(point.started);
        self.writes(t).iter().all(|&(key, _)| {
            self.seen.iter().all(|&(seen, source, readers)| {
                let mut readers = readers.and(waiting);
                readers.remove(t);
                seen != key
                    || source as usize == t
                    || readers.is_empty()
                    || (source != INITIAL && !point.committed.has(source as usize))
            })
        })
    }

    /// The final states of all orders: of each written key, who wrote it last.
    pub fn final_writers(&self) -> Vec<LastWriters> {
        let mut found = Vec::new();
        self.choose(&self.written_keys(), self.before.clone(), &mut Vec::new(), &mut |chosen, before| {
            if self.steers() || self.complete(before, None) {
                found.push(chosen.to_vec());
            }
            false
        });
        found
    }

    /// An order that leaves this state.
    pub fn steps_to(&self, state: &[(Key, Value)]) -> Option<Vec<Step>> {
        let mut found = None;
        self.choose(&self.written_keys(), self.before.clone(), &mut Vec::new(), &mut |chosen, before| {
            let leaves = |&(key, txn): &(Key, Txn)| (key, self.history.written(self.behaviours, txn, key));
            if chosen.iter().map(leaves).eq(state.iter().copied()) {
                let mut steps = Vec::new();
                if self.complete(before, Some(&mut steps)) {
                    found = Some(steps);
                }
            }
            found.is_some()
        });
        found
    }

    fn written_keys(&self) -> Vec<Key> {
        (0..self.history.writers.len() as Key).filter(|&key| !self.history.writers(key).is_empty()).collect()
    }

    /// Goes through the choices of a last writer for each key that leave no cycle, until `visit` has seen enough.
    fn choose(&self, keys: &[Key], before: Vec<S>, chosen: &mut Vec<(Key, Txn)>, visit: &mut Visit<'_, S>) -> bool {
        let Some((&key, rest)) = keys.split_first() else { return visit(chosen, &before) };
        let writers = self.history.writers(key);
        for last in writers.members() {
            let others = writers.minus(S::single(last));
            if others.members().any(|other| before[other].has(last)) {
                continue;
            }
            let forced: Vec<Forced> = others.members().map(|other| (other as Txn, last as Txn)).collect();
            let mut narrowed = before.clone();
            if add_forced(&mut narrowed, self.all(), &forced) {
                chosen.push((key, last as Txn));
                let enough = self.choose(rest, narrowed, chosen, visit);
                chosen.pop();
                if enough {
                    return true;
                }
            }
        }
        false
    }

    /// The states after each commit of all orders that can be completed: of each key written by then, its last writer.
    pub fn prefix_writers(&self) -> FxHashSet<LastWriters> {
        let mut search =
            Prefixes { orders: self, known: rustc_hash::FxHashMap::default(), found: FxHashSet::default() };
        search.go(Point::default(), &[]);
        search.found
    }
}

/// The search through all orders, remembering states too.
struct Prefixes<'o, 'a, S> {
    orders: &'o Orders<'a, S>,
    known: rustc_hash::FxHashMap<(Point<S>, LastWriters), bool>,
    found: FxHashSet<LastWriters>,
}

impl<S: Set> Prefixes<'_, '_, S> {
    /// Whether an order goes on from here to its end.
    fn go(&mut self, point: Point<S>, state: &[(Key, Txn)]) -> bool {
        let orders = self.orders;
        if point.committed == orders.all() {
            self.found.insert(state.to_vec());
            return true;
        }
        if let Some(&known) = self.known.get(&(point, state.to_vec())) {
            return known;
        }
        let mut completes = false;
        for step in orders.options(&orders.before, point) {
            let mut next = point;
            orders.take(&mut next, step);
            completes |= self.go(next, &orders.after(step, state));
        }
        if completes && !point.committed.is_empty() {
            self.found.insert(state.to_vec());
        }
        self.known.insert((point, state.to_vec()), completes);
        completes
    }
}

impl<S: Set> Orders<'_, S> {
    /// An order in which a commit leaves this state, and how many steps lead to it.
    pub fn steps_through(&self, wanted: &[(Key, Value)]) -> Option<(Vec<Step>, usize)> {
        let mut path =
            Through { orders: self, wanted, hopeless: FxHashSet::default(), steps: Vec::new(), reached: None };
        path.go(Point::default(), &[]).then(|| (path.steps, path.reached.expect("the state was reached")))
    }

    /// The last writers after a step.
    fn after(&self, step: Step, state: &[(Key, Txn)]) -> LastWriters {
        let mut after = state.to_vec();
        if let Step::Commit(txn) = step
            && self.history.committed.has(txn as usize)
        {
            for &(key, _) in self.writes(txn as usize) {
                match after.binary_search_by_key(&key, |&(written, _)| written) {
                    Ok(place) => after[place].1 = txn,
                    Err(place) => after.insert(place, (key, txn)),
                }
            }
        }
        after
    }
}

/// The search for an order that goes through a state.
struct Through<'o, 'a, S> {
    orders: &'o Orders<'a, S>,
    wanted: &'o [(Key, Value)],
    hopeless: FxHashSet<(Point<S>, LastWriters, bool)>,
    steps: Vec<Step>,
    reached: Option<usize>,
}

impl<S: Set> Through<'_, '_, S> {
    fn go(&mut self, point: Point<S>, state: &[(Key, Txn)]) -> bool {
        let orders = self.orders;
        let mut here = false;
        if self.reached.is_none() && !self.steps.is_empty() {
            let leaves = |&(key, txn): &(Key, Txn)| (key, orders.history.written(orders.behaviours, txn, key));
            if state.iter().map(leaves).eq(self.wanted.iter().copied()) {
                self.reached = Some(self.steps.len());
                here = true;
            }
        }
        if point.committed == orders.all() && self.reached.is_some() {
            return true;
        }
        let mark = (point, state.to_vec(), self.reached.is_some());
        if !self.hopeless.contains(&mark) {
            for step in orders.options(&orders.before, point) {
                let mut next = point;
                orders.take(&mut next, step);
                self.steps.push(step);
                if self.go(next, &orders.after(step, state)) {
                    return true;
                }
                self.steps.pop();
            }
            self.hopeless.insert(mark);
        }
        if here {
            self.reached = None;
        }
        false
    }
}

/// What the reads of a history force if each obeys the level of its transaction; `None` if that has a cycle.
fn forced_order<S: Set>(history: &History<S>, program: &Program<S>, levels: &[Level]) -> Option<Vec<S>> {
    let mut before = vec![S::default(); levels.len()];
    let mut forced = Vec::new();
    let mut next = 0;
    for &txn in &history.order {
        let t = txn as usize;
        if program.previous[t] != INITIAL {
            let p = program.previous[t] as usize;
            before[t] = before[p].or(S::single(p));
        }
        let first = next;
        while next < history.reads.len() && history.reads[next].txn == txn {
            let read = history.reads[next];
            let earlier = &history.reads[first..next];
            let (seen, what) = ((read.past, read.sources), (read.key, read.source));
            if !history.forced(program, levels[t], txn, earlier, seen, what, &mut forced) {
                return None;
            }
            if read.source != INITIAL {
                let s = read.source as usize;
                before[t] = before[t].or(before[s]).or(S::single(s));
            }
            if !add_forced(&mut before, history.started, &forced) {
                return None;
            }
            next += 1;
        }
    }
    Some(before)
}
