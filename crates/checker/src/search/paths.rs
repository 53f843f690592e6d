//! Paths with a reason for every edge, for the few that somebody will look at.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::orders::Orders;
use super::polygraph::Polygraph;
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::Edge;
use crate::order::acyclic::{Node, Rule};

/// Why an edge is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// The evidence shows it.
    Known(Edge),
    /// A part of the line of time, or the way from a transaction's reads to its writes.
    Inside,
    /// The first chain comes before the second.
    Order(u32, u32),
    /// An edge of the problem, by its place, that a choice brings.
    Chosen(u32),
}

/// An edge with its reason.
pub type Labelled = (u32, u32, Label);

/// Edges that are there for now, by the node they leave.
pub type Extra = FxHashMap<u32, Vec<(u32, Label)>>;

/// The graph with reasons: what is known, and what pruning decided before some round.
pub struct Paths<'p, 'a> {
    polygraph: &'p Polygraph<'a>,
    orders: &'p [Orders],
}

/// Session order and the line of time are ridden, other evidence is a step, what had to be decided is a long one.
fn cost(label: Label) -> u64 {
    match label {
        Label::Inside => 0,
        Label::Known(Edge::Session) => 1,
        Label::Known(_) => 100,
        Label::Order(..) | Label::Chosen(_) => 10_000,
    }
}

impl<'p, 'a> Paths<'p, 'a> {
    /// The graph of a polygraph and what was decided about it.
    pub fn new(polygraph: &'p Polygraph<'a>, orders: &'p [Orders]) -> Self {
        Paths { polygraph, orders }
    }

    /// The group of a chain.
    pub fn group(&self, chain: u32) -> &'p Orders {
        &self.orders[self.polygraph.groups.partition_point(|group| group.chains.end <= chain)]
    }

    /// Calls `visit` with every edge that leaves a node.
    fn each(&self, node: u32, before_round: u8, visit: &mut dyn FnMut(u32, Label)) {
        let space = &self.polygraph.space;
        let (txn, commits, reads) = match space.node(node) {
            Node::Time(_) => {
                space.successors(node, |to| visit(to, Label::Inside));
                return;
            }
            Node::Plain(txn) => (txn, true, space.rule == Rule::Serializable),
            Node::Arrived(txn) => (txn, false, true),
        };
        space.labelled(node, |to, kind| visit(to, kind.map_or(Label::Inside, Label::Known)));
        if before_round == 0 {
            return;
        }
        for row in self.polygraph.analysis.history.ops_of(txn) {
            let key = self.polygraph.analysis.history.ops.key[row];
            let read = self.polygraph.by_op.read_of[row];
            if reads && read != NONE {
                self.behind(
                    self.polygraph.ends[read as usize],
                    before_round,
                    |head| (self.polygraph.commit(head), head != txn),
                    visit,
                );
            }
            if commits && self.polygraph.by_op.installs[row] {
                let attribution = &self.polygraph.analysis.attribution;
                let version = attribution.version_at(attribution.place(key, row as u32));
                self.behind(
                    self.polygraph.ends[version as usize],
                    before_round,
                    |head| (self.polygraph.overwrite_target(head), true),
                    visit,
                );
            }
        }
    }

    /// The heads of the chains that are known to come after one.
    fn behind(
        &self,
        chain: u32,
        before_round: u8,
        target: impl Fn(u32) -> (u32, bool),
        visit: &mut dyn FnMut(u32, Label),
    ) {
        if chain == NONE {
            return;
        }
        let group = self.group(chain);
        for other in group.chains().filter(|&other| other != chain && self.polygraph.certain[other as usize]) {
            let head = self.polygraph.head(other);
            if head != INITIAL && group.get(chain, other).is_some_and(|(first, round)| first && round < before_round) {
                let (to, wanted) = target(head);
                if wanted {
                    visit(to, Label::Order(chain, other));
                }
            }
        }
    }

    /// A cheapest path of at least one edge from `start` to a node that `goal` accepts, over what was known before a
    /// round and `extra`, inside of a set of nodes if one is given.
    pub fn path(
        &self,
        start: u32,
        goal: impl Fn(u32) -> bool,
        before_round: u8,
        extra: &Extra,
        inside: Option<&FxHashSet<u32>>,
    ) -> Option<(u32, Vec<Labelled>)> {
        let mut best: FxHashMap<u32, (u64, Labelled)> = FxHashMap::default();
        let mut queue = BinaryHeap::from([Reverse((0u64, start))]);
        while let Some(Reverse((distance, node))) = queue.pop() {
            if best.get(&node).is_some_and(|&(known, _)| known < distance) {
                continue;
            }
            if best.contains_key(&node) && goal(node) {
                let mut steps = vec![best[&node].1];
                while steps[steps.len() - 1].0 != start {
                    steps.push(best[&steps[steps.len() - 1].0].1);
                }
                steps.reverse();
                return Some((node, steps));
            }
            let mut relax = |to: u32, label: Label| {
                let through = distance + cost(label);
                let allowed = inside.is_none_or(|inside| inside.contains(&to));
                if allowed && best.get(&to).is_none_or(|&(known, _)| through < known) {
                    best.insert(to, (through, (node, to, label)));
                    queue.push(Reverse((through, to)));
                }
            };
            self.each(node, before_round, &mut relax);
            for &(to, label) in extra.get(&node).map_or(&[][..], |all| all) {
                relax(to, label);
            }
        }
        None
    }
}
