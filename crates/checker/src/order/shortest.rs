//! A shortest forbidden cycle inside a component.
//!
//! Breadth-first search from every transaction of the component, never deeper than the best cycle so
//! far. Session order counts as one edge however many transactions of the session it skips, so the search
//! *rides* along a session at no cost. Real time needs no time nodes here: it is an interval order, so a
//! cycle with several real-time edges always has a shorter one with a single one, and the search starts
//! right behind that edge.

use std::collections::VecDeque;

use isolde_history::History;
use rustc_hash::FxHashSet;

use crate::evidence::attribution::NONE;
use crate::evidence::dependencies::{Dependencies, Edge};
use crate::evidence::realtime;
use crate::order::acyclic::{Node, Rule, Space};

/// How an edge of a cycle came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An edge of the graph.
    Known(Edge),
    /// Real time.
    RealTime,
}

/// An edge of a cycle: from, to, and how.
pub type CycleStep = (u32, u32, Step);

/// Edge visits after which the best cycle so far is taken.
const VISITS_MAX: u64 = 200_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Arrived,
    Riding,
}

const STATES: u32 = 3;

/// The search, reusable over the components of one space.
pub struct Finder<'a> {
    space: &'a Space<'a>,
    dependencies: &'a Dependencies,
    history: &'a History,
    distance: Vec<u32>,
    parent: Vec<u32>,
    touched: Vec<u32>,
    visits: u64,
}

impl<'a> Finder<'a> {
    /// A search in `space`.
    pub fn new(space: &'a Space<'a>, dependencies: &'a Dependencies, history: &'a History) -> Self {
        let states = space.graph.len() * STATES as usize;
        Finder {
            space,
            dependencies,
            history,
            distance: vec![NONE; states],
            parent: vec![NONE; states],
            touched: Vec::new(),
            visits: 0,
        }
    }

    /// The shortest cycle through `members` of at most `length_max` edges.
    pub fn cycle(&mut self, members: &[u32], length_max: usize) -> Option<Vec<CycleStep>> {
        let inside: FxHashSet<u32> = members.iter().copied().collect();
        let mut best: Option<Vec<CycleStep>> = None;
        let real_time = self.space.timeline.is_some();
        for &member in members {
            // A real-time edge is a dependency: what it leads to is reached, not yet plain.
            let source = match (self.space.node(member), self.space.rule) {
                (Node::Arrived(txn), _) if real_time => txn,
                (Node::Plain(txn), Rule::Serializable) => txn,
                (Node::Plain(txn), Rule::Snapshot | Rule::Prefix) if !real_time => txn,
                _ => continue,
            };
            let bound = best.as_ref().map_or(length_max, |b| b.len() - 1) as u32;
            if bound < 2 || (best.is_some() && self.visits > VISITS_MAX) {
                break;
            }
            best = self.from(source, &inside, bound, real_time).or(best);
        }
        best
    }

    fn push(&mut self, state: u32, distance: u32, parent: u32) -> bool {
        if self.distance[state as usize] <= distance {
            return false;
        }
        if self.distance[state as usize] == NONE {
            self.touched.push(state);
        }
        self.distance[state as usize] = distance;
        self.parent[state as usize] = parent;
        true
    }

    /// A cycle through `source`: back to it, or, behind a real-time edge into it, to any transaction that
    /// was over before it began.
    fn from(
        &mut self,
        source: u32,
        inside: &FxHashSet<u32>,
        bound: u32,
        behind_real_time: bool,
    ) -> Option<Vec<CycleStep>> {
        let code = |txn: u32, state: State| txn * STATES + state as u32;
        let arrived = match self.space.rule {
            Rule::Serializable => State::Plain,
            Rule::Snapshot | Rule::Prefix => State::Arrived,
        };
        let start = code(source, if behind_real_time { arrived } else { State::Plain });
        let mut queue = VecDeque::new();
        self.push(start, u32::from(behind_real_time), NONE);
        queue.push_back(start);
        let mut goal: Option<(u32, u32, u32)> = None;
        'search: while let Some(at) = queue.pop_front() {
            let (txn, distance) = (at / STATES, self.distance[at as usize]);
            if goal.is_some_and(|(best, ..)| distance >= best) || distance > bound {
                break;
            }
            let state = [State::Plain, State::Arrived, State::Riding][(at % STATES) as usize];
            if behind_real_time && state == State::Plain && realtime::precedes(self.history, txn, source) {
                goal = Some((distance, at, NONE));
                break 'search;
            }
            let mut next: Vec<(u32, State, u32)> = Vec::new();
            match state {
                State::Plain => {
                    for (kind, target) in self.space.graph.out(txn) {
                        match (kind, self.space.rule) {
                            (kind, Rule::Prefix) if kind.orders_commits() => next.push((target, State::Plain, 1)),
                            (Edge::Session, _) => next.push((target, State::Riding, 1)),
                            (kind, Rule::Serializable) if kind.is_anti() => next.push((target, State::Plain, 1)),
                            (kind, Rule::Snapshot | Rule::Prefix) if kind.is_anti() => {}
                            _ => next.push((target, arrived, 1)),
                        }
                    }
                }
                State::Arrived => {
                    next.push((txn, State::Plain, 0));
                    for (kind, target) in self.space.graph.out(txn) {
                        if kind.is_anti() {
                            next.push((target, State::Plain, 1));
                        }
                    }
                }
                State::Riding => {
                    next.push((txn, arrived, 0));
                    let following = self.dependencies.session_next[txn as usize];
                    if following != NONE {
                        next.push((following, State::Riding, 0));
                    }
                }
            }
            self.visits += next.len() as u64;
            for (target, state, cost) in next {
                let number = self.space.number(match state {
                    State::Plain => Node::Plain(target),
                    State::Arrived | State::Riding => Node::Arrived(target),
                });
                if !inside.contains(&number) || distance + cost > bound {
                    continue;
                }
                let to = code(target, state);
                if !behind_real_time && to == start {
                    if goal.is_none_or(|(best, ..)| distance + cost < best) {
                        goal = Some((distance + cost, at, start));
                    }
                } else if self.push(to, distance + cost, at) {
                    if cost == 0 {
                        queue.push_front(to);
                    } else {
                        queue.push_back(to);
                    }
                }
            }
        }
        let cycle = goal.map(|(_, last, closing)| self.unwind(source, last, closing, behind_real_time));
        for state in self.touched.drain(..) {
            self.distance[state as usize] = NONE;
        }
        cycle
    }

    /// The edges from the source to `last`, and the one that closes the cycle.
    fn unwind(&self, source: u32, last: u32, closing: u32, behind_real_time: bool) -> Vec<CycleStep> {
        let mut path = Vec::new();
        let mut at = last;
        while at != NONE {
            path.push(at);
            at = self.parent[at as usize];
        }
        path.reverse();
        if closing != NONE {
            path.push(closing);
        }
        let mut steps: Vec<CycleStep> = Vec::new();
        for pair in path.windows(2) {
            let (from, to) = (pair[0] / STATES, pair[1] / STATES);
            let riding = |code: u32| code % STATES == State::Riding as u32;
            if from == to {
                continue;
            }
            match steps.last_mut() {
                Some((_, end, Step::Known(Edge::Session))) if riding(pair[0]) && riding(pair[1]) => *end = to,
                _ if riding(pair[1]) => steps.push((from, to, Step::Known(Edge::Session))),
                _ => {
                    let kind = self.kind_between(from, to, pair[0] % STATES == State::Plain as u32);
                    steps.push((from, to, Step::Known(kind)));
                }
            }
        }
        if behind_real_time {
            steps.push((last / STATES, source, Step::RealTime));
        }
        steps
    }

    fn kind_between(&self, from: u32, to: u32, plain: bool) -> Edge {
        let all = || self.space.graph.out(from).filter(|&(_, target)| target == to).map(|(kind, _)| kind);
        let depends = all().find(|kind| !kind.is_anti() && *kind != Edge::Session).filter(|_| plain);
        depends.or_else(|| all().find(|kind| kind.is_anti())).unwrap_or(Edge::AntiDependency)
    }
}
