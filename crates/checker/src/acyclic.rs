//! Is there a forbidden cycle?
//!
//! Serializable forbids every cycle. Snapshot isolation forbids those without two adjacent
//! anti-dependencies: (so ∪ wr ∪ ww) ; rw? must be acyclic (Cerone & Gotsman 2018). That composition is
//! never built. Each transaction is two nodes instead: a dependency leads from *plain* T to *arrived* S;
//! an anti-dependency leads from arrived S to plain U; and arrived S leads to plain S. An anti-dependency
//! can then only follow a dependency. Nodes without predecessors are taken away until none is left
//! (satisfied, and the order in which they went explains the history) or all that remain lie on or
//! behind a cycle.

use crate::attribution::NONE;
use crate::dependencies::{Edge, Graph};
use crate::outcome::Role;
use crate::realtime::Timeline;

/// Which cycles are forbidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// All of them.
    Serializable,
    /// Those in which no two anti-dependencies are adjacent.
    Snapshot,
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
            Rule::Snapshot => 2 * txns + times,
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
            (Node::Arrived(txn), Rule::Snapshot) => self.txns() + txn,
            (Node::Time(place), Rule::Serializable) => self.txns() + place,
            (Node::Time(place), Rule::Snapshot) => 2 * self.txns() + place,
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
            Rule::Snapshot if number < 2 * txns => Node::Arrived(number - txns),
            Rule::Snapshot => Node::Time(number - 2 * txns),
        }
    }

    /// Calls `visit` with the number of every successor.
    #[inline]
    pub fn successors(&self, number: u32, mut visit: impl FnMut(u32)) {
        match self.node(number) {
            Node::Plain(txn) => {
                for (kind, target) in self.graph.out(txn) {
                    match (self.rule, kind) {
                        (Rule::Serializable, _) => visit(target),
                        (Rule::Snapshot, Edge::Dependency | Edge::Session) => visit(self.txns() + target),
                        (Rule::Snapshot, Edge::AntiDependency) => {}
                    }
                }
                if let Some(timeline) = self.timeline
                    && timeline.enters[txn as usize] != NONE
                {
                    visit(self.number(Node::Time(timeline.enters[txn as usize])));
                }
            }
            Node::Arrived(txn) => {
                visit(txn);
                for (kind, target) in self.graph.out(txn) {
                    if kind == Edge::AntiDependency {
                        visit(target);
                    }
                }
            }
            Node::Time(place) => {
                let timeline = self.timeline.expect("time nodes belong to a timeline");
                visit(self.number(Node::Arrived(timeline.by_start[place as usize])));
                if (place as usize) + 1 < timeline.by_start.len() {
                    visit(number + 1);
                }
            }
        }
    }

    /// The counted transactions in an order that explains them, or which nodes lie on or behind a cycle.
    pub fn order(&self, roles: &[Role]) -> Result<Vec<u32>, Vec<bool>> {
        let count = self.len();
        let mut waiting = vec![0u32; count];
        for number in 0..count as u32 {
            self.successors(number, |next| waiting[next as usize] += 1);
        }
        let mut ready: Vec<u32> = (0..count as u32).rev().filter(|&n| waiting[n as usize] == 0).collect();
        let mut order = Vec::with_capacity(self.graph.len());
        let mut done = 0;
        while let Some(number) = ready.pop() {
            done += 1;
            if let Node::Plain(txn) = self.node(number)
                && roles[txn as usize] != Role::Absent
            {
                order.push(txn);
            }
            self.successors(number, |next| {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    ready.push(next);
                }
            });
        }
        if done == count { Ok(order) } else { Err(waiting.iter().map(|&w| w > 0).collect()) }
    }
}
