//! Evidence from outside of the history: what a database, or somebody who asked it, tells about the order.
//!
//! Three kinds, all of them columns of integers: *edges* between transactions, each with its relation; *told orders*, the
//! versions of a key as they were installed, by the operations that wrote them; and a *serial order*, the transactions as the
//! database says that they took effect. What a relation means at a level is the table of [`Relation::edge`]. An edge counts
//! if both its transactions do.

use isolde_history::{History, Op, Status};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decision::Question;
use crate::evidence::attribution::{Attribution, NONE};
use crate::evidence::dependencies::Edge;
use crate::evidence::outcome::Role;
use crate::order::acyclic::Rule;
use crate::order::reasons::Relation;
use crate::weak::saturation::Visibility;

/// What was told besides the history. Nothing, by default.
#[derive(Clone, Default, Debug)]
pub struct Outside {
    /// The transactions that come first.
    pub from: Vec<u32>,
    /// Those that come after.
    pub to: Vec<u32>,
    /// In what sense.
    pub relation: Vec<Relation>,
    /// Versions as they were installed, oldest first, chain by chain: the operations that wrote them, [`NONE`] for the initial
    /// one of the key.
    pub chains: Vec<Vec<u32>>,
    /// The transactions in the order in which the database says that they took effect.
    pub serial: Vec<u32>,
    /// Whether the edges hold all that operations without a key (scans, SQL) have to say.
    pub complete: bool,
    /// The operations of the chains: their transactions took effect.
    installed: Vec<u32>,
    /// The edges between two transactions.
    between: FxHashMap<(u32, u32), Vec<u32>>,
}

/// A place of the evidence that cannot be used, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The columns of the edges do not have one length.
    Columns,
    /// An edge names no transaction of the history, or one twice.
    Edge(usize),
    /// An entry of a chain is no write of the key of the chain, or one that was aborted; or the initial version does not come first.
    Version(usize, usize),
    /// A place of the serial order names no transaction of the history, an aborted one, or one that has a place already.
    Serial(usize),
}

impl Outside {
    /// Puts the columns together.
    pub fn new(
        history: &History,
        from: Vec<u32>,
        to: Vec<u32>,
        relation: Vec<Relation>,
        chains: Vec<Vec<u32>>,
        serial: Vec<u32>,
    ) -> Result<Outside, Unusable> {
        if from.len() != to.len() || from.len() != relation.len() {
            return Err(Unusable::Columns);
        }
        let known = |txn: u32| (txn as usize) < history.len();
        if let Some(at) = (0..from.len()).find(|&at| !known(from[at]) || !known(to[at]) || from[at] == to[at]) {
            return Err(Unusable::Edge(at));
        }
        for (line, chain) in chains.iter().enumerate() {
            let mut key = None;
            for (at, &op) in chain.iter().enumerate() {
                let usable = match written_key(history, op) {
                    _ if op == NONE => at == 0,
                    Some(other) => *key.get_or_insert(other) == other,
                    None => false,
                };
                if !usable {
                    return Err(Unusable::Version(line, at));
                }
            }
        }
        let mut placed = FxHashSet::default();
        let aborted = |txn: u32| history.txns.status[txn as usize] == Status::Aborted;
        if let Some(at) = serial.iter().position(|&txn| !known(txn) || aborted(txn) || !placed.insert(txn)) {
            return Err(Unusable::Serial(at));
        }
        let installed = chains.iter().flatten().copied().filter(|&op| op != NONE).collect();
        let between = FxHashMap::default();
        let mut outside = Outside { from, to, relation, chains, serial, complete: false, installed, between };
        if history.has_lists() {
            outside.add_list_orders(history);
        }
        for at in 0..outside.from.len() {
            outside.between.entry((outside.from[at], outside.to[at])).or_default().push(at as u32);
        }
        Ok(outside)
    }

    /// Lists show the order of what was read; what was told of the rest is as good as an overwrite, since nobody read it.
    fn add_list_orders(&mut self, history: &History) {
        let writer = |op: u32| history.txns.ops_end.partition_point(|&end| end <= op) as u32;
        for chain in std::mem::take(&mut self.chains) {
            let writers: Vec<u32> = chain.into_iter().filter(|&op| op != NONE).map(writer).collect();
            for pair in writers.windows(2).filter(|pair| pair[0] != pair[1]) {
                self.from.push(pair[0]);
                self.to.push(pair[1]);
                self.relation.push(Relation::Ww);
            }
        }
    }

    /// The same, with whether the edges hold all that operations without a key have to say.
    pub fn completed(self, complete: bool) -> Outside {
        Outside { complete, ..self }
    }

    /// Whether there are no edges.
    pub fn has_no_edges(&self) -> bool {
        self.from.is_empty()
    }

    /// The places of the edges from one transaction to another.
    pub fn edges_between(&self, from: u32, to: u32) -> &[u32] {
        self.between.get(&(from, to)).map_or(&[], |all| all)
    }

    /// The edges that a question counts, between transactions that `counts` accepts: from, to, and as what.
    pub fn edges<'o>(
        &'o self,
        question: Question,
        counts: impl Fn(u32) -> bool + 'o,
    ) -> impl Iterator<Item = (u32, u32, Edge)> + 'o {
        let all = (0..self.from.len()).map(|at| (self.from[at], self.to[at], self.relation[at]));
        all.filter(move |&(from, to, _)| counts(from) && counts(to))
            .filter_map(move |(from, to, relation)| Some((from, to, relation.edge(question)?)))
    }

    /// By transaction: those that it is told to have seen, by reads or because they came before it.
    pub fn sources(&self) -> FxHashMap<u32, Vec<u32>> {
        let mut sources: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let seen = |at: &usize| matches!(self.relation[*at], Relation::So | Relation::Wr);
        for at in (0..self.from.len()).filter(seen) {
            sources.entry(self.to[at]).or_default().push(self.from[at]);
        }
        sources
    }

    /// Transactions of unknown outcome that took effect because somebody read from them: reader and writer.
    pub fn read_from(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let reads = |at: &usize| matches!(self.relation[*at], Relation::Wr | Relation::PredicateWr);
        (0..self.from.len()).filter(reads).map(|at| (self.to[at], self.from[at]))
    }

    /// The operations whose versions are told to have been installed: their transactions took effect.
    pub fn installed(&self) -> impl Iterator<Item = u32> + '_ {
        self.installed.iter().copied()
    }

    /// The told orders, by key, as versions of which each differs from the one before it.
    pub fn told(&self, history: &History, attribution: &Attribution, roles: &[Role]) -> Vec<(u32, Vec<u32>)> {
        let mut all = Vec::new();
        for chain in &self.chains {
            let Some(key) = chain.iter().find_map(|&op| written_key(history, op)) else { continue };
            let mut versions: Vec<u32> = Vec::with_capacity(chain.len());
            for &op in chain {
                let version = if op == NONE {
                    Some(Attribution::initial_version(key))
                } else {
                    // Only the last version that a transaction makes of a key is installed.
                    let place = attribution.place(key, op) as usize;
                    let txn = attribution.txn[place];
                    let same = attribution.places(key).skip_while(|&other| other < place);
                    let last = same.take_while(|&other| attribution.txn[other] == txn);
                    let mut last = last.filter(|&other| attribution.installs[other]);
                    last.next()
                        .filter(|_| roles[txn as usize] == Role::Effective)
                        .map(|at| attribution.version_at(at as u32))
                };
                versions.extend(version.filter(|version| versions.last() != Some(version)));
            }
            all.push((key, versions));
        }
        all
    }
}

fn written_key(history: &History, op: u32) -> Option<u32> {
    if op as usize >= history.ops.kind.len() {
        return None;
    }
    let txn = history.txns.ops_end.partition_point(|&end| end <= op);
    let key = match history.op(op as usize) {
        Op::Write(key, _) | Op::Append(key, _) => key,
        Op::Cas(key, cas) if cas.applied => key,
        Op::Read(..) | Op::Cas(..) | Op::Scan(_) | Op::Sql(_) => return None,
    };
    (history.txns.status[txn] != Status::Aborted).then_some(key)
}

impl Relation {
    /// As what an edge of this relation counts for a question, if it does (certificates, version 1; levels, version 1).
    ///
    /// | relation | read uncommitted | PL-2 to causal | prefix | snapshot isolation | repeatable read | serializable |
    /// | --- | --- | --- | --- | --- | --- | --- |
    /// | `ww` | yes | order of commits | order of commits | commit before start | yes | yes |
    /// | `so`, `wr` | | order of commits; visible from read atomic up | commit before start | commit before start | yes | yes |
    /// | `predicate-wr` | | order of commits | order of commits | commit before start | yes | yes |
    /// | `rw` | | not visible, from read atomic up | start before commit | start before commit | yes | yes |
    /// | `predicate-rw` | | | | start before commit | | yes |
    ///
    /// `rt` counts where real time does, as `so`. Linearizable asks for one order a key, and has no graph of transactions.
    pub fn edge(self, question: Question) -> Option<Edge> {
        use Relation::{PredicateRw, PredicateWr, Rt, Rw, So, Wr, Ww};
        let sees = |visibility: Visibility| matches!(visibility, Visibility::DirectlyBefore | Visibility::CausalPast);
        match (question, self) {
            (Question::Linearizable, _) => None,
            (_, Ww) => Some(Edge::Overwrite),
            (Question::Overwrites, _) => None,
            (_, So) => Some(Edge::ToldSession),
            (_, Wr) => Some(Edge::Read),
            (_, PredicateWr) => Some(Edge::PredicateRead),
            (Question::Weak(visibility), Rw) if !sees(visibility) => None,
            (_, Rw) => Some(Edge::AntiDependency),
            (Question::Acyclic { real_time, .. }, Rt) => real_time.then_some(Edge::ToldTime),
            (Question::Acyclic { rule: Rule::Serializable, predicates, .. }, PredicateRw) => {
                predicates.then_some(Edge::PredicateAntiDependency)
            }
            (Question::Acyclic { .. }, PredicateRw) => Some(Edge::PredicateAntiDependency),
            (Question::Weak(_) | Question::Prefix, Rt | PredicateRw) => None,
        }
    }
}
