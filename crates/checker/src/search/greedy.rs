//! A first guess: run the transactions one after the other, in the order in which they plausibly happened.
//!
//! A transaction waits until everything that is known to come before it has run, and until it may begin a new
//! chain of a key: the chain that is current must have come to its end, and all its readers must have read. A history
//! that a correct database made mostly runs through, and the order in which it did explains it: nothing need be
//! searched. If it gets stuck, the order in which chains began is still a good start for the search.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::net::Net;
use super::polygraph::Polygraph;
use super::select::Selectors;
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::outcome::Role;
use crate::order::acyclic::{Node, Rule};

/// How far it got.
pub struct Guess {
    /// The nodes that ran, in order.
    pub order: Vec<u32>,
    /// Whether that is all of them.
    pub complete: bool,
    /// When each chain began; [`NONE`] if it did not.
    pub began: Vec<u32>,
}

struct Run<'p, 'a> {
    polygraph: &'p Polygraph<'a>,
    more: Option<&'p Net>,
    selectors: &'p Selectors,
    waiting: Vec<u32>,
    ready: BinaryHeap<Reverse<(i64, u32)>>,
    /// By key: the chain that began last, and the nodes that wait for it.
    latest: Vec<u32>,
    parked: Vec<Vec<u32>>,
    /// By key: the version that is there now.
    current: Vec<u32>,
    /// By chain: the one before it, how many readers of its end have not run, whether its end has run.
    before: Vec<u32>,
    readers_left: Vec<u32>,
    ended: Vec<bool>,
    guess: Guess,
}

/// Runs the transactions greedily; `more` are edges to be followed besides the known ones.
pub fn guess(polygraph: &Polygraph<'_>, selectors: &Selectors, more: Option<&Net>) -> Guess {
    let nodes = polygraph.known.len();
    let chains = polygraph.chains.len();
    let mut waiting = vec![0u32; nodes];
    for node in 0..nodes as u32 {
        polygraph.known.out(node).iter().for_each(|&to| waiting[to as usize] += 1);
        more.iter().flat_map(|more| more.out(node)).for_each(|&to| waiting[to as usize] += 1);
    }
    let keys = polygraph.analysis.attribution.keys() as usize;
    let mut run = Run {
        polygraph,
        more,
        selectors,
        waiting,
        ready: BinaryHeap::new(),
        latest: vec![NONE; keys],
        parked: vec![Vec::new(); keys],
        current: (0..keys as u32).collect(),
        before: vec![NONE; chains],
        readers_left: (0..chains)
            .map(|chain| polygraph.readers.of(polygraph.chains[chain].last).len() as u32)
            .collect(),
        ended: polygraph
            .chains
            .iter()
            .map(|chain| polygraph.analysis.attribution.writer(chain.last) == INITIAL)
            .collect(),
        guess: Guess { order: Vec::with_capacity(nodes), complete: false, began: vec![NONE; chains] },
    };
    for group in &polygraph.groups {
        run.latest[group.key as usize] = group.chains.start;
        run.guess.began[group.chains.start as usize] = 0;
    }
    for node in 0..nodes as u32 {
        if run.waiting[node as usize] == 0 {
            run.ready.push(Reverse((polygraph.moment(node), node)));
        }
    }
    while let Some(Reverse((_, node))) = run.ready.pop() {
        match run.obstacle(node) {
            Some(key) => run.parked[key as usize].push(node),
            None => run.execute(node),
        }
    }
    run.guess.complete = run.guess.order.len() == nodes;
    run.guess
}

impl Run<'_, '_> {
    /// The transaction of a node, and whether it reads there, begins chains there, writes there.
    fn roles_of(&self, node: u32) -> Option<(u32, bool, bool, bool)> {
        let (txn, reads, writes) = match (self.polygraph.space.node(node), self.polygraph.space.rule) {
            (Node::Plain(txn), Rule::Serializable) => (txn, true, true),
            (Node::Plain(txn), Rule::Snapshot | Rule::Prefix) => (txn, false, true),
            (Node::Arrived(txn), _) => (txn, true, false),
            (Node::Time(_), _) => return None,
        };
        let begins = match self.polygraph.space.rule {
            Rule::Serializable | Rule::Prefix => writes,
            Rule::Snapshot => reads,
        };
        (self.polygraph.analysis.roles[txn as usize] != Role::Absent).then_some((txn, reads, begins, writes))
    }

    fn chain_begun_by(&self, row: usize) -> Option<u32> {
        let version = self.installed(row)?;
        Some(self.polygraph.heads[version as usize]).filter(|&chain| chain != NONE)
    }

    fn installed(&self, row: usize) -> Option<u32> {
        let analysis = self.polygraph.analysis;
        let key = analysis.history.ops.key[row];
        self.polygraph.by_op.installs[row]
            .then(|| analysis.attribution.version_at(analysis.attribution.place(key, row as u32)))
    }

    /// The key that the node must wait for, if any.
    fn obstacle(&self, node: u32) -> Option<u32> {
        let (txn, reads, begins, writes) = self.roles_of(node)?;
        let analysis = self.polygraph.analysis;
        let effective = analysis.roles[txn as usize] == Role::Effective;
        if reads {
            for selector in self.selectors.of_reader(txn) {
                let key = selector.key;
                if !selector.candidates.contains(&self.current[key as usize]) {
                    return Some(key);
                }
            }
        }
        for row in analysis.history.ops_of(txn).filter(|_| effective && (begins || writes)) {
            let Some(chain) = self.chain_begun_by(row) else { continue };
            let key = analysis.history.ops.key[row];
            let latest = self.latest[key as usize];
            if begins && !(self.ended[latest as usize] || latest == chain) {
                return Some(key);
            }
            let before = if begins { latest } else { self.before[chain as usize] };
            if writes && before != chain && before != NONE && self.readers_left[before as usize] > 0 {
                return Some(key);
            }
        }
        None
    }

    fn execute(&mut self, node: u32) {
        self.guess.order.push(node);
        let more = self.more.iter().flat_map(|more| more.out(node));
        for &to in self.polygraph.known.out(node).iter().chain(more) {
            self.waiting[to as usize] -= 1;
            if self.waiting[to as usize] == 0 {
                self.ready.push(Reverse((self.polygraph.moment(to), to)));
            }
        }
        let Some((txn, reads, begins, writes)) = self.roles_of(node) else { return };
        let analysis = self.polygraph.analysis;
        let effective = analysis.roles[txn as usize] == Role::Effective;
        for row in analysis.history.ops_of(txn) {
            let key = analysis.history.ops.key[row];
            let mut changed = false;
            let read = self.polygraph.by_op.read_of[row];
            if reads && read != NONE {
                let chain = self.polygraph.ends[read as usize];
                if chain != NONE {
                    self.readers_left[chain as usize] -= 1;
                    changed |= self.readers_left[chain as usize] == 0;
                }
            }
            if effective && let Some(version) = self.installed(row) {
                if begins && let Some(chain) = self.chain_begun_by(row) {
                    self.before[chain as usize] = self.latest[key as usize];
                    self.latest[key as usize] = chain;
                    self.guess.began[chain as usize] = self.guess.order.len() as u32;
                }
                if writes {
                    self.current[key as usize] = version;
                    let chain = self.polygraph.ends[version as usize];
                    if chain != NONE {
                        self.ended[chain as usize] = true;
                    }
                    changed = true;
                }
            }
            if changed {
                for node in std::mem::take(&mut self.parked[key as usize]) {
                    self.ready.push(Reverse((self.polygraph.moment(node), node)));
                }
            }
        }
    }
}
