//! What is known of the order, as a graph over the transactions.
//!
//! Edges: session order between neighbours, `wr` from the writer to its readers, `ww` from a version to
//! the one that is known to follow it, and `rw` from the readers of a version to the writer of that next
//! one. Which version follows is known when its writer read the one before (read-modify-write): at
//! serializable and snapshot isolation nothing can come between the two. The versions of a key thus
//! form chains; the chain of the initial version comes first, and when at most one other chain exists,
//! the order is complete and nothing is left open (Wei et al. 2025, algorithm 1, for more than
//! mini-transactions).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use isolde_history::History;
use rustc_hash::FxHashMap;

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::chains::Chains;
use crate::evidence::faults::Fault;
use crate::evidence::outcome::Role;
use crate::evidence::outside::Outside;
use crate::parallel;

/// The kind of an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Edge {
    /// `wr`: the target read what the source wrote.
    Read,
    /// `ww`: the target overwrote it.
    Overwrite,
    /// `so`, between neighbours of a session.
    Session,
    /// `rw`: the reader came before the overwriter.
    AntiDependency,
    /// `predicate-wr`: what the source wrote changed what a predicate of the target matched.
    PredicateRead,
    /// `predicate-rw`: the target changed what a predicate of the source had matched.
    PredicateAntiDependency,
    /// `so`, told from outside.
    ToldSession,
    /// `rt`, told from outside.
    ToldTime,
}

impl Edge {
    /// Whether the source only read what the target then changed: it must have read before, and may commit after.
    #[inline]
    pub fn is_anti(self) -> bool {
        matches!(self, Edge::AntiDependency | Edge::PredicateAntiDependency)
    }

    /// Whether prefix takes it as an order of commits alone: the target need not have read after it.
    #[inline]
    pub fn orders_commits(self) -> bool {
        matches!(self, Edge::Overwrite | Edge::PredicateRead)
    }
}

/// The edges that somebody collected, as (from, to), and of which kind.
type Listed = Vec<(u32, u32, Edge)>;

/// The known graph, as adjacency lists end to end.
#[derive(Clone)]
pub struct Graph {
    first: Vec<u32>,
    target: Vec<u32>,
    kind: Vec<Edge>,
}

impl Graph {
    /// The edges that leave `txn`.
    #[inline]
    pub fn out(&self, txn: u32) -> impl Iterator<Item = (Edge, u32)> + '_ {
        let range = self.first[txn as usize] as usize..self.first[txn as usize + 1] as usize;
        self.kind[range.clone()].iter().copied().zip(self.target[range].iter().copied())
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A graph of these edges, by kind.
    pub fn of_edges(nodes: usize, edges: &[(Edge, &[(u32, u32)])]) -> Graph {
        let listed = |(kind, edges): &(Edge, &[(u32, u32)])| edges.iter().map(|&(a, b)| (a, b, *kind)).collect();
        Graph::build(nodes, &edges.iter().map(listed).collect::<Vec<_>>())
    }

    /// This graph and more edges.
    pub fn with(&self, more: impl Iterator<Item = (u32, u32, Edge)>) -> Graph {
        let known = (0..self.len() as u32).flat_map(|txn| self.out(txn).map(move |(kind, to)| (txn, to, kind)));
        Graph::build(self.len(), &[known.collect(), more.collect()])
    }

    /// A topological order that departs from the file's as little as it must; `None` if there is a cycle.
    pub fn by_position(&self) -> Option<Vec<u32>> {
        let mut waiting = vec![0u32; self.len()];
        for &target in &self.target {
            waiting[target as usize] += 1;
        }
        let mut ready: BinaryHeap<Reverse<u32>> =
            (0..self.len() as u32).filter(|&txn| waiting[txn as usize] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(Reverse(txn)) = ready.pop() {
            order.push(txn);
            for (_, next) in self.out(txn) {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
        (order.len() == self.len()).then_some(order)
    }

    fn build(nodes: usize, lists: &[Listed]) -> Graph {
        let mut first = vec![0u32; nodes + 1];
        for &(from, ..) in lists.iter().flatten() {
            first[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let count = first[nodes] as usize;
        let (mut target, mut kinds) = (vec![0u32; count], vec![Edge::Read; count]);
        let mut next = first.clone();
        for &(from, to, kind) in lists.iter().flatten() {
            let slot = &mut next[from as usize];
            target[*slot as usize] = to;
            kinds[*slot as usize] = kind;
            *slot += 1;
        }
        Graph { first, target, kind: kinds }
    }
}

/// How many edges of each kind are known, and what is not.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Session order.
    pub so: u64,
    /// Reads attributed to another transaction.
    pub wr: u64,
    /// Known successions of versions.
    pub ww: u64,
    /// Reads that came before a known overwrite.
    pub rw: u64,
    /// Successions of versions that only the database told; `ww` does not count them.
    pub told_ww: u64,
    /// Reads that came before an overwrite by what only the database told; `rw` does not count them.
    pub told_rw: u64,
    /// Keys with more than one chain that could come next.
    pub open_keys: u64,
    /// Pairs of chains whose order is open.
    pub open_pairs: u64,
}

/// A version and one that came later.
pub type Succession = (u32, u32);

/// Who told that one version came later than another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teller {
    /// A `versions` line of the history, by values.
    Line,
    /// A told order of evidence from outside, by operations.
    Outside,
}

/// The known order: the graph and the tables it was made from.
pub struct Dependencies {
    /// The graph.
    pub graph: Graph,
    /// For each version the one that a reader of it installed next, or [`NONE`].
    pub overwritten_by: Vec<u32>,
    /// Further known successors of a version.
    pub also_followed_by: FxHashMap<u32, Vec<u32>>,
    /// Whether each version was made from the one before it, so that nothing can come between.
    pub made: Vec<bool>,
    /// Versions that two transactions read and overwrote: the version and the two that they installed.
    pub divergences: Vec<(u32, u32, u32)>,
    /// Versions that the database is said to have installed before the initial one of their key.
    pub before_initial: Vec<u32>,
    /// Versions that the database is said to have installed twice in a row.
    pub told_twice: Vec<u32>,
    /// Successions of versions that the database told.
    pub told: Vec<(u32, u32)>,
    /// Those of them that what was read does not show.
    pub told_only: FxHashMap<Succession, Teller>,
    /// Whether a told version has several possible writers, so that what was told could not be used whole.
    pub told_ambiguously: bool,
    /// Reads of lists that do not go together with others of the same key.
    pub list_faults: Vec<Fault>,
    /// The next counted transaction of the session, or [`NONE`].
    pub session_next: Vec<u32>,
    /// How much is known.
    pub counts: Counts,
}

impl Dependencies {
    /// The version that was made from `version`, or [`NONE`].
    #[inline]
    pub fn made_into(&self, version: u32) -> u32 {
        let next = self.overwritten_by[version as usize];
        if next != NONE && self.made[next as usize] { next } else { NONE }
    }

    /// The versions that are known to follow `version`.
    pub fn followers(&self, version: u32) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.overwritten_by[version as usize]).filter(|&v| v != NONE);
        let more = self.also_followed_by.get(&version).map_or(&[][..], |all| all);
        first.into_iter().chain(more.iter().copied())
    }
}

/// Collects everything that is known.
pub fn collect(
    history: &History,
    outside: &Outside,
    attribution: &Attribution,
    roles: &[Role],
    session_order: bool,
    threads: usize,
) -> Dependencies {
    let nodes = history.len();
    let mut counts = Counts::default();
    let mut chains = Chains::find(history, attribution, roles, &mut counts);
    chains.add_told(history, attribution, roles, &mut counts);
    chains.add_installed(outside.told(history, attribution, roles), attribution, roles, &mut counts);
    let session_next = session_successors(history, roles);
    let mut lists = edges_by_key(attribution, roles, &chains, threads, &mut counts);
    if session_order {
        let session: Listed = (0..nodes as u32)
            .filter(|&txn| session_next[txn as usize] != NONE)
            .map(|txn| (txn, session_next[txn as usize], Edge::Session))
            .collect();
        counts.so = session.len() as u64;
        lists.push(session);
    }
    Dependencies {
        graph: Graph::build(nodes, &lists),
        overwritten_by: chains.overwritten_by,
        also_followed_by: chains.also,
        made: chains.made,
        divergences: chains.divergences,
        before_initial: chains.before_initial,
        told_twice: chains.told_twice,
        told: chains.told,
        told_only: chains.told_only,
        told_ambiguously: chains.told_ambiguously,
        list_faults: chains.list_faults,
        session_next,
        counts,
    }
}

/// The next transaction of the session that counts, or [`NONE`].
pub fn session_successors(history: &History, roles: &[Role]) -> Vec<u32> {
    let mut next = vec![NONE; history.len()];
    let mut last = vec![NONE; history.sessions.len()];
    for txn in 0..history.len() {
        if roles[txn] == Role::Absent {
            continue;
        }
        let last = &mut last[history.txns.session[txn] as usize];
        if *last != NONE {
            next[*last as usize] = txn as u32;
        }
        *last = txn as u32;
    }
    next
}

/// The `wr`, `ww` and `rw` edges, one list a thread.
fn edges_by_key(
    attribution: &Attribution,
    roles: &[Role],
    chains: &Chains,
    threads: usize,
    counts: &mut Counts,
) -> Vec<Listed> {
    let places = attribution.op.len();
    let share = places.div_ceil(threads.max(1)).max(1);
    let jobs = (0..places).step_by(share).map(|first| {
        let range = first..(first + share).min(places);
        move || edges_of_places(attribution, roles, chains, range)
    });
    let parts = parallel::run(jobs.collect());
    // A read-modify-write has its `wr` edge; the other successions need one of their own.
    let mut told = Vec::new();
    let also = chains.also.iter().flat_map(|(&before, all)| all.iter().map(move |&after| (before, after)));
    for (before, after) in chains.placed.iter().copied().chain(also) {
        let (from, to) = (attribution.writer(before), attribution.writer(after));
        if chains.told_only.contains_key(&(before, after)) {
            counts.told_ww += 1;
        } else {
            counts.ww += 1;
        }
        if from != INITIAL && to != INITIAL && from != to {
            told.push((from, to, Edge::Overwrite));
        }
    }
    let mut lists = vec![told];
    for (list, part) in parts {
        counts.wr += part.wr;
        counts.ww += part.ww;
        counts.rw += part.rw;
        counts.told_rw += part.told_rw;
        lists.push(list);
    }
    lists
}

fn edges_of_places(
    attribution: &Attribution,
    roles: &[Role],
    chains: &Chains,
    places: std::ops::Range<usize>,
) -> (Listed, Counts) {
    let mut edges = Vec::with_capacity(places.len() * 3 / 2);
    let mut counts = Counts::default();
    let mut before = (NONE, NONE);
    for place in places {
        let version = attribution.read_of[place];
        if version == NONE {
            continue;
        }
        let reader = attribution.txn[place];
        if roles[reader as usize] == Role::Absent || before == (reader, version) {
            continue;
        }
        before = (reader, version);
        let writer = attribution.writer(version);
        counts.wr += 1;
        if writer != INITIAL && writer != reader {
            edges.push((writer, reader, Edge::Read));
        }
        let first = chains.overwritten_by[version as usize];
        let more = chains.also.get(&version).map_or(&[][..], |all| all);
        for after in std::iter::once(first).filter(|&v| v != NONE).chain(more.iter().copied()) {
            let overwriter = attribution.writer(after);
            if overwriter == reader {
                counts.ww += 1;
            } else if overwriter != INITIAL {
                // The set is empty unless the database told something.
                if chains.told_only.contains_key(&(version, after)) {
                    counts.told_rw += 1;
                } else {
                    counts.rw += 1;
                }
                edges.push((reader, overwriter, Edge::AntiDependency));
            }
        }
    }
    (edges, counts)
}
