//! Is there a forbidden cycle?
//!
//! Serializable forbids every cycle. Snapshot isolation forbids those without two adjacent
//! anti-dependencies: (so ∪ wr ∪ ww) ; rw? must be acyclic (Cerone & Gotsman 2018). That composition is
//! never built. Each transaction is two nodes instead: a dependency leads from *plain* T to *arrived* S;
//! an anti-dependency leads from arrived S to plain U; and arrived S leads to plain S. An anti-dependency
//! can then only follow a dependency. Prefix lets an overwriter start before what it overwrites is there, so
//! its overwrites lead from plain to plain. Nodes without predecessors are taken away until none is left
//! (satisfied, and the order in which they went explains the history) or all that remain lie on or
//! behind a cycle.

use crate::evidence::attribution::NONE;
use crate::evidence::dependencies::{Edge, Graph};
use crate::evidence::realtime::Timeline;

/// Which cycles are forbidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// All of them.
    Serializable,
    /// Those in which no two anti-dependencies are adjacent.
    Snapshot,
    /// Those that a transaction's reads before its writes make: the overwriter need not have seen what it overwrote.
    Prefix,
}

/// The graph as the rule sees it: numbered nodes and their successors.
pub struct Space<'a> {
    /// The known order.
    pub graph: &'a Graph,
    /// Which cycles are forbidden.
    pub rule: Rule,
    /// Real time, if it must be kept.
    pub timeline: Option<&'a Timeline>,
}

/// What a node of a [`Space`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A transaction from which any edge may follow that the rule lets start here.
    Plain(u32),
    /// A transaction reached by a dependency (snapshot rule only).
    Arrived(u32),
    /// A time node.
    Time(u32),
}

impl Space<'_> {
    fn txns(&self) -> u32 {
        self.graph.len() as u32
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        let txns = self.graph.len();
        let times = self.timeline.map_or(0, |t| t.by_start.len());
        match self.rule {
            Rule::Serializable => txns + times,
            Rule::Snapshot | Rule::Prefix => 2 * txns + times,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a node.
    #[inline]
    pub fn number(&self, node: Node) -> u32 {
        match (node, self.rule) {
            (Node::Plain(txn), _) => txn,
            // Only the snapshot rule tells the two apart.
            (Node::Arrived(txn), Rule::Serializable) => txn,
            (Node::Arrived(txn), Rule::Snapshot | Rule::Prefix) => self.txns() + txn,
            (Node::Time(place), Rule::Serializable) => self.txns() + place,
            (Node::Time(place), Rule::Snapshot | Rule::Prefix) => 2 * self.txns() + place,
        }
    }

    /// The node behind a number.
    #[inline]
    pub fn node(&self, number: u32) -> Node {
        let txns = self.txns();
        if number < txns {
            return Node::Plain(number);
        }
        match self.rule {
            Rule::Serializable => Node::Time(number - txns),
            Rule::Snapshot | Rule::Prefix if number < 2 * txns => Node::Arrived(number - txns),
            Rule::Snapshot | Rule::Prefix => Node::Time(number - 2 * txns),
        }
    }

    /// Calls `visit` with the number of every successor.
    #[inline]
    pub fn successors(&self, number: u32, mut visit: impl FnMut(u32)) {
        self.labelled(number, |to, _| visit(to));
    }

    /// The same, with the edge of the graph that it comes from; none for those of time and inside a transaction.
    #[inline]
    pub fn labelled(&self, number: u32, mut visit: impl FnMut(u32, Option<Edge>)) {
        match self.node(number) {
            Node::Plain(txn) => {
                for (kind, target) in self.graph.out(txn) {
                    match (self.rule, kind) {
                        (Rule::Serializable, _) => visit(target, Some(kind)),
                        (Rule::Prefix, kind) if kind.orders_commits() => visit(target, Some(kind)),
                        (Rule::Snapshot | Rule::Prefix, kind) if kind.is_anti() => {}
                        (Rule::Snapshot | Rule::Prefix, _) => visit(self.txns() + target, Some(kind)),
                    }
                }
                if let Some(timeline) = self.timeline
                    && timeline.enters[txn as usize] != NONE
                {
                    visit(self.number(Node::Time(timeline.enters[txn as usize])), None);
                }
            }
            Node::Arrived(txn) => {
                visit(txn, None);
                for (kind, target) in self.graph.out(txn) {
                    if kind.is_anti() {
                        visit(target, Some(kind));
                    }
                }
            }
            Node::Time(place) => {
                let timeline = self.timeline.expect("time nodes belong to a timeline");
                visit(self.number(Node::Arrived(timeline.by_start[place as usize])), None);
                if (place as usize) + 1 < timeline.by_start.len() {
                    visit(number + 1, None);
                }
            }
        }
    }

    /// All nodes in an order that follows every edge, or which of them lie on or behind a cycle.
    pub fn order(&self) -> Result<Vec<u32>, Vec<bool>> {
        let count = self.len();
        let mut waiting = vec![0u32; count];
        for number in 0..count as u32 {
            self.successors(number, |next| waiting[next as usize] += 1);
        }
        let mut ready: Vec<u32> = (0..count as u32).rev().filter(|&n| waiting[n as usize] == 0).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(number) = ready.pop() {
            order.push(number);
            self.successors(number, |next| {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    ready.push(next);
                }
            });
        }
        if order.len() == count { Ok(order) } else { Err(waiting.iter().map(|&w| w > 0).collect()) }
    }

    /// What an order of the nodes says about the counted transactions.
    pub fn explanation(&self, order: &[u32], counts: impl Fn(u32) -> bool) -> Explanation {
        let mut explanation = Explanation { commits: Vec::new(), snapshots: Vec::new(), effects: Vec::new() };
        let mut seen = vec![0u32; self.graph.len()];
        for &number in order {
            match self.node(number) {
                Node::Plain(txn) if counts(txn) => {
                    explanation.commits.push(txn);
                    if self.rule != Rule::Serializable {
                        explanation.snapshots.push(seen[txn as usize]);
                    }
                }
                Node::Arrived(txn) => seen[txn as usize] = explanation.commits.len() as u32,
                Node::Plain(_) | Node::Time(_) => {}
            }
        }
        explanation
    }
}

/// An order that explains a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The transactions as they took effect.
    pub commits: Vec<u32>,
    /// For each of them how many had taken effect when it read; empty if each read right before it took effect.
    pub snapshots: Vec<u32>,
    /// Transactions of unknown outcome that took effect, although nobody certainly read from them; ascending.
    pub effects: Vec<u32>,
}

impl Explanation {
    /// An order in which each read right before it took effect.
    pub fn of(commits: Vec<u32>) -> Explanation {
        Explanation { commits, snapshots: Vec::new(), effects: Vec::new() }
    }
}
