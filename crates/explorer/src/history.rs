//! An execution under construction: transactions one after the other, what each read, and the order that this forces.
//!
//! The transactions stand in the order in which they were added or moved (the history order `<` of the paper). At most
//! one is pending, and it is the last. So the events of each are in one piece, and the reads of all of them are one list.

use crate::behaviour::{Behaviours, End, Key, Node};
use crate::bits::Set;
use crate::level::Level;

/// A transaction by its place in the oracle order.
pub type Txn = u16;

/// The writer of initial values; and no transaction, where one is optional.
pub const INITIAL: Txn = Txn::MAX;

/// What does not change while a program is explored.
#[derive(Clone, Debug)]
pub struct Program<S> {
    /// The session of each transaction.
    pub session: Vec<u16>,
    /// Of each transaction, those before it in its session.
    pub earlier: Vec<S>,
    /// Of each transaction, the one right before it in its session, or [`INITIAL`].
    pub previous: Vec<Txn>,
    /// How each transaction begins.
    pub roots: Vec<Node>,
}

impl<S: Set> Program<S> {
    /// Transactions in the oracle order, by their sessions; those of a session are in session order.
    pub fn new(session: Vec<u16>, roots: Vec<Node>) -> Self {
        let mut earlier = vec![S::default(); session.len()];
        let mut previous = vec![INITIAL; session.len()];
        for txn in 0..session.len() {
            for before in (0..txn).filter(|&before| session[before] == session[txn]) {
                earlier[txn].insert(before);
                previous[txn] = before as Txn;
            }
        }
        Program { session, earlier, previous, roots }
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.session.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.session.is_empty()
    }
}

/// A read of another transaction's write, or of an initial value.
#[derive(Clone, Copy, Debug)]
pub struct Read<S> {
    /// Who reads.
    pub txn: Txn,
    /// Whose write is read.
    pub source: Txn,
    /// What is read.
    pub key: Key,
    /// The stretch of the transaction that ends in this read.
    pub node: Node,
    /// The causal past of the transaction just before the read.
    pub past: S,
    /// Whom the transaction had read from before.
    pub sources: S,
}

/// An execution under construction.
#[derive(Clone, Debug, Default)]
pub struct History<S> {
    /// The transactions in the history order.
    pub order: Vec<Txn>,
    /// Of each transaction that began, its place in the order.
    pub place: Vec<u16>,
    /// Of each transaction that began, the stretch that it has reached.
    pub node: Vec<Node>,
    /// Of each transaction that began, where its reads begin in the list.
    pub first_read: Vec<u32>,
    /// All reads in the history order.
    pub reads: Vec<Read<S>>,
    /// The transactions that began.
    pub started: S,
    /// Those that committed.
    pub committed: S,
    /// The one that has not ended, or [`INITIAL`].
    pub pending: Txn,
    /// Of each transaction, its causal past: (so ∪ wr)⁺.
    pub past: Vec<S>,
    /// Of each transaction, whom it read from.
    pub sources: Vec<S>,
    /// Of each transaction, those that come before it in every commit order.
    pub before: Vec<S>,
    /// Of each key, the committed transactions that wrote it.
    pub writers: Vec<S>,
}

/// An order that a read forces: the first of the two comes first in every commit order.
pub type Forced = (Txn, Txn);

/// What is put back when a read is taken back.
///
/// Most reads force nothing: then only what comes before the reader changes, and is saved.
#[derive(Clone, Debug, Default)]
pub struct Undo<S> {
    saved: Vec<S>,
    /// Of each read, whether the order before all transactions is saved.
    whole: Vec<bool>,
}

impl<S: Set> Undo<S> {
    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.saved.clear();
        self.whole.clear();
    }

    fn save(&mut self, before: &[S], reader: usize, whole: bool) {
        if whole {
            self.saved.extend_from_slice(before);
        } else {
            self.saved.push(before[reader]);
        }
        self.whole.push(whole);
    }

    fn put_back(&mut self, before: &mut [S], reader: usize) {
        if self.whole.pop().expect("a read was saved") {
            let mark = self.saved.len() - before.len();
            before.copy_from_slice(&self.saved[mark..]);
            self.saved.truncate(mark);
        } else {
            before[reader] = self.saved.pop().expect("a read was saved");
        }
    }
}

impl<S: Set> History<S> {
    /// The history of nothing but initial values.
    pub fn new(transactions: usize, keys: usize) -> Self {
        let mut history = History::default();
        history.clear(transactions, keys);
        history
    }

    /// Back to nothing but initial values, in the memory that there is; what belongs to transactions that have not begun is
    /// left as it was, for nobody looks at it.
    pub fn clear(&mut self, transactions: usize, keys: usize) {
        self.order.clear();
        self.place.resize(transactions, 0);
        self.node.resize(transactions, 0);
        self.first_read.resize(transactions, 0);
        self.reads.clear();
        self.started = S::default();
        self.committed = S::default();
        self.pending = INITIAL;
        self.past.resize(transactions, S::default());
        self.sources.resize(transactions, S::default());
        self.before.resize(transactions, S::default());
        self.writers.clear();
        self.writers.resize(keys, S::default());
    }

    /// The committed transactions that wrote a key.
    #[inline]
    pub fn writers(&self, key: Key) -> S {
        // Keys that were found after this history was made have no writers in it.
        self.writers.get(key as usize).copied().unwrap_or_default()
    }

    /// The value that a read of a key sees if it reads from `source`.
    #[inline]
    pub fn written(&self, behaviours: &Behaviours, source: Txn, key: Key) -> u32 {
        if source == INITIAL {
            return behaviours.initial(key);
        }
        let writes = &behaviours.at(self.node[source as usize]).writes;
        writes.iter().find(|&&(written, _)| written == key).expect("a source has written the key").1
    }

    /// Adds the beginning of a transaction.
    pub fn begin(&mut self, program: &Program<S>, txn: Txn) {
        let t = txn as usize;
        self.place[t] = self.order.len() as u16;
        self.order.push(txn);
        self.started.insert(t);
        self.pending = txn;
        self.first_read[t] = self.reads.len() as u32;
        self.node[t] = program.roots[t];
        self.sources[t] = S::default();
        let previous = program.previous[t];
        (self.past[t], self.before[t]) = match previous {
            INITIAL => (S::default(), S::default()),
            _ => {
                let p = previous as usize;
                (self.past[p].or(S::single(p)), self.before[p].or(S::single(p)))
            }
        };
    }

    /// Takes the beginning of the pending transaction back.
    pub fn undo_begin(&mut self) {
        let txn = self.order.pop().expect("a transaction began");
        self.started.remove(txn as usize);
        self.pending = INITIAL;
    }

    /// Ends the pending transaction.
    pub fn end(&mut self, behaviours: &Behaviours) {
        let t = self.pending as usize;
        let stretch = behaviours.at(self.node[t]);
        if stretch.end == End::Commit {
            self.committed.insert(t);
            for &(key, _) in &stretch.writes {
                let key = key as usize;
                if key >= self.writers.len() {
                    self.writers.resize(key + 1, S::default());
                }
                self.writers[key].insert(t);
            }
        }
        self.pending = INITIAL;
    }

    /// Takes the end of the last transaction back.
    pub fn undo_end(&mut self, behaviours: &Behaviours) {
        let txn = *self.order.last().expect("a transaction ended");
        let t = txn as usize;
        if self.committed.has(t) {
            self.committed.remove(t);
            for &(key, _) in &behaviours.at(self.node[t]).writes {
                self.writers[key as usize].remove(t);
            }
        }
        self.pending = txn;
    }

    /// The reads of a transaction so far, if it is the last.
    pub fn reads_of_last(&self, txn: Txn) -> &[Read<S>] {
        &self.reads[self.first_read[txn as usize] as usize..]
    }

    /// What the axiom of a level forces if a transaction, after the reads `earlier`, reads `key` from `source`.
    ///
    /// Only what is new is told: of the levels that look at everything the transaction reads, also what this read forces
    /// for the earlier ones. `None`: it would force something before the initial values.
    #[allow(clippy::too_many_arguments)]
    pub fn forced(
        &self,
        program: &Program<S>,
        level: Level,
        txn: Txn,
        earlier: &[Read<S>],
        (past, sources): (S, S),
        (key, source): (Key, Txn),
        forced: &mut Vec<Forced>,
    ) -> bool {
        forced.clear();
        let own = if source == INITIAL { S::default() } else { S::single(source as usize) };
        let mut force = |overwritten: S, target: Txn| -> bool {
            if overwritten.is_empty() {
                return true;
            }
            if target == INITIAL {
                return false;
            }
            forced.extend(overwritten.members().map(|first| (first as Txn, target)));
            true
        };
        match level.step_by_step() {
            Level::ReadCommitted => force(sources.and(self.writers(key)).minus(own), source),
            Level::ReadAtomic => {
                let direct = program.earlier[txn as usize].or(sources);
                if !force(direct.and(self.writers(key)).minus(own), source) {
                    return false;
                }
                let new = own.minus(direct);
                new.is_empty()
                    || earlier
                        .iter()
                        .all(|read| read.source == source || force(new.and(self.writers(read.key)), read.source))
            }
            Level::Causal => {
                let whole = match source {
                    INITIAL => past,
                    _ => past.or(own).or(self.past[source as usize]),
                };
                if !force(whole.and(self.writers(key)).minus(own), source) {
                    return false;
                }
                let new = whole.minus(past);
                new.is_empty()
                    || earlier.iter().all(|read| {
                        let mut overwritten = new.and(self.writers(read.key));
                        if read.source != INITIAL {
                            overwritten.remove(read.source as usize);
                        }
                        force(overwritten, read.source)
                    })
            }
            _ => true,
        }
    }

    /// Whether the forced order can be added to what every commit order already contains.
    pub fn agrees(&self, forced: &[Forced], scratch: &mut Vec<S>) -> bool {
        if forced.iter().any(|&(first, second)| self.before[first as usize].has(second as usize)) {
            return false;
        }
        let target = forced.first().map_or(INITIAL, |&(_, second)| second);
        if forced.iter().all(|&(_, second)| second == target) {
            // Several ways into one transaction make a cycle only if one of them does.
            return true;
        }
        scratch.clone_from(&self.before);
        add_forced(scratch, self.started, forced)
    }

    /// Adds a read of the pending transaction if the level allows it; nothing happens if it does not.
    pub fn read(
        &mut self,
        program: &Program<S>,
        level: Level,
        (key, source): (Key, Txn),
        forced: &mut Vec<Forced>,
        undo: &mut Undo<S>,
    ) -> bool {
        let txn = self.pending;
        let t = txn as usize;
        let (past, sources) = (self.past[t], self.sources[t]);
        let earlier = self.reads_of_last(txn);
        if !self.forced(program, level, txn, earlier, (past, sources), (key, source), forced) {
            return false;
        }
        undo.save(&self.before, t, !forced.is_empty());
        if source != INITIAL {
            let s = source as usize;
            let arrived = self.before[s].or(S::single(s));
            self.before[t] = self.before[t].or(arrived);
        }
        if !add_forced(&mut self.before, self.started, forced) {
            undo.put_back(&mut self.before, t);
            return false;
        }
        self.reads.push(Read { txn, source, key, node: self.node[t], past, sources });
        if source != INITIAL {
            let s = source as usize;
            self.past[t] = past.or(self.past[s]).or(S::single(s));
            self.sources[t].insert(s);
        }
        true
    }

    /// Takes the last read of the pending transaction back, but not the order that it forced; the reader.
    pub fn forget_read(&mut self) -> usize {
        let read = self.reads.pop().expect("there was a read");
        let t = read.txn as usize;
        self.past[t] = read.past;
        self.sources[t] = read.sources;
        self.node[t] = read.node;
        t
    }

    /// Takes the last read of the pending transaction back.
    pub fn undo_read(&mut self, undo: &mut Undo<S>) {
        let reader = self.forget_read();
        undo.put_back(&mut self.before, reader);
    }

    /// Computes what comes before what in every commit order anew, from the reads; whether that is possible.
    pub fn reorder(&mut self, program: &Program<S>, level: Level, forced: &mut Vec<Forced>) -> bool {
        let mut before = std::mem::take(&mut self.before);
        before.fill(S::default());
        let mut next = 0;
        let mut possible = true;
        for &txn in &self.order {
            let t = txn as usize;
            let previous = program.previous[t];
            if previous != INITIAL {
                let p = previous as usize;
                before[t] = before[p].or(S::single(p));
            }
            let first = self.first_read[t] as usize;
            while possible && next < self.reads.len() && self.reads[next].txn == txn {
                let read = self.reads[next];
                let earlier = &self.reads[first..next];
                let (seen, what) = ((read.past, read.sources), (read.key, read.source));
                possible = self.forced(program, level, txn, earlier, seen, what, forced);
                if read.source != INITIAL {
                    let s = read.source as usize;
                    before[t] = before[t].or(before[s]).or(S::single(s));
                }
                possible = possible && add_forced(&mut before, self.started, forced);
                next += 1;
            }
        }
        self.before = before;
        possible
    }

    /// How many events the history has, each beginning and end counted.
    pub fn events(&self, behaviours: &Behaviours) -> u32 {
        let ends = self.order.iter().map(|&txn| 2 + behaviours.at(self.node[txn as usize]).steps);
        let reads = self.reads.iter().map(|read| 1 + behaviours.at(read.node).steps);
        ends.chain(reads).sum()
    }

    /// Whom each transaction read from, in the history order: what tells this history from all others of the program.
    pub fn choices(&self) -> Vec<(Txn, Vec<Txn>)> {
        let mut choices: Vec<(Txn, Vec<Txn>)> = self.order.iter().map(|&txn| (txn, Vec::new())).collect();
        for read in &self.reads {
            choices[self.place[read.txn as usize] as usize].1.push(read.source);
        }
        choices
    }
}

/// Adds forced orders to what comes before each transaction, and what follows from them; whether there is no cycle.
pub fn add_forced<S: Set>(before: &mut [S], started: S, forced: &[Forced]) -> bool {
    for &(first, second) in forced {
        let (a, b) = (first as usize, second as usize);
        if before[b].has(a) {
            continue;
        }
        if a == b || before[a].has(b) {
            return false;
        }
        let arrived = before[a].or(S::single(a));
        for later in started.members() {
            if later == b || before[later].has(b) {
                before[later] = before[later].or(arrived);
            }
        }
    }
    true
}
