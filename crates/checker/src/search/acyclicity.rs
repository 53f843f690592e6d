//! The theory behind the solver: edges come and go with its literals, and must never close a cycle.
//!
//! A topological order of all nodes is kept up as edges come (Pearce & Kelly 2006): an edge that agrees with it costs
//! nothing, another one re-orders the nodes between its ends, or finds a path back, and that path is the conflict. Taking
//! edges away leaves the order valid.

use std::cell::Cell;
use std::rc::Rc;

use batsat::{Lit, Theory, TheoryArg};

use super::net::Net;

/// How many nodes were looked at; shared with whoever watches the budget.
pub type Visits = Rc<Cell<u64>>;

/// What a decision counts for.
const DECISION_VISITS: u64 = 20;

/// An edge that is there because of a literal.
#[derive(Clone, Copy)]
struct Active {
    to: u32,
    because: Lit,
}

/// The graph under the current assignment.
pub struct Acyclicity {
    known: Net,
    known_in: Net,
    /// The edges of each literal, by its code.
    edges_of: Vec<Vec<(u32, u32)>>,
    out: Vec<Vec<Active>>,
    into: Vec<Vec<u32>>,
    /// The place of each node in the order.
    place: Vec<u32>,
    /// Edges in the order in which they came.
    trail: Vec<(u32, u32)>,
    levels: Vec<(usize, usize)>,
    /// How much of the solver's model has been taken over.
    seen: usize,
    mark: Vec<u32>,
    parent: Vec<(u32, Lit)>,
    stamp: u32,
    visits: Visits,
}

impl Acyclicity {
    /// The theory over a graph without cycles, whose nodes stand in `order`.
    pub fn new(known: Net, order: &[u32], edges_of: Vec<Vec<(u32, u32)>>, visits: Visits) -> Acyclicity {
        let nodes = known.len();
        let mut place = vec![0; nodes];
        for (at, &node) in order.iter().enumerate() {
            place[node as usize] = at as u32;
        }
        Acyclicity {
            known_in: known.reversed(),
            known,
            edges_of,
            out: vec![Vec::new(); nodes],
            into: vec![Vec::new(); nodes],
            place,
            trail: Vec::new(),
            levels: Vec::new(),
            seen: 0,
            mark: vec![0; nodes],
            parent: vec![(0, Lit::UNDEF); nodes],
            stamp: 0,
            visits,
        }
    }

    /// Adds the edges of every literal that became true; the literals of a cycle if that closes one.
    fn take_over(&mut self, model: &[Lit]) -> Option<Vec<Lit>> {
        while self.seen < model.len() {
            let literal = model[self.seen];
            self.seen += 1;
            let code = literal.idx() as usize;
            for at in 0..self.edges_of.get(code).map_or(0, Vec::len) {
                let (from, to) = self.edges_of[code][at];
                if let Some(mut cycle) = self.insert(from, to) {
                    cycle.push(literal);
                    cycle.sort_unstable();
                    cycle.dedup();
                    return Some(cycle);
                }
                self.out[from as usize].push(Active { to, because: literal });
                self.into[to as usize].push(from);
                self.trail.push((from, to));
            }
        }
        None
    }

    /// Makes room for an edge in the order, or gives the literals of a path from `to` back to `from`.
    fn insert(&mut self, from: u32, to: u32) -> Option<Vec<Lit>> {
        if from == to {
            return Some(Vec::new());
        }
        let (low, high) = (self.place[to as usize], self.place[from as usize]);
        if high < low {
            return None;
        }
        self.stamp += 1;
        let mut forward = vec![to];
        self.mark[to as usize] = self.stamp;
        let mut at = 0;
        while let Some(&node) = forward.get(at) {
            at += 1;
            let known = self.known.out(node).iter().map(|&next| (next, Lit::UNDEF));
            let active = self.out[node as usize].iter().map(|edge| (edge.to, edge.because));
            for (next, because) in known.chain(active) {
                if next == from {
                    self.visits.set(self.visits.get() + at as u64);
                    return Some(self.path(node, to, because));
                }
                if self.mark[next as usize] != self.stamp && self.place[next as usize] < high {
                    self.mark[next as usize] = self.stamp;
                    self.parent[next as usize] = (node, because);
                    forward.push(next);
                }
            }
        }
        let mut backward = vec![from];
        self.mark[from as usize] = self.stamp;
        let mut at = 0;
        while let Some(&node) = backward.get(at) {
            at += 1;
            for &next in self.known_in.out(node).iter().chain(&self.into[node as usize]) {
                if self.mark[next as usize] != self.stamp && self.place[next as usize] > low {
                    self.mark[next as usize] = self.stamp;
                    backward.push(next);
                }
            }
        }
        self.visits.set(self.visits.get() + (forward.len() + backward.len()) as u64);
        self.reorder(forward, backward);
        None
    }

    /// The literals on the way from `start` to `end`, which `last` leads on from.
    fn path(&self, end: u32, start: u32, last: Lit) -> Vec<Lit> {
        let mut literals = Vec::new();
        let mut push = |literal: Lit| {
            if literal != Lit::UNDEF {
                literals.push(literal);
            }
        };
        push(last);
        let mut node = end;
        while node != start {
            let (before, because) = self.parent[node as usize];
            push(because);
            node = before;
        }
        literals
    }

    /// What leads to the new edge goes before what follows from it, in the places that both had.
    fn reorder(&mut self, mut forward: Vec<u32>, mut backward: Vec<u32>) {
        forward.sort_unstable_by_key(|&node| self.place[node as usize]);
        backward.sort_unstable_by_key(|&node| self.place[node as usize]);
        backward.append(&mut forward);
        let mut places: Vec<u32> = backward.iter().map(|&node| self.place[node as usize]).collect();
        places.sort_unstable();
        for (node, place) in backward.into_iter().zip(places) {
            self.place[node as usize] = place;
        }
    }

    fn check(&mut self, acts: &mut TheoryArg) {
        let conflict = self.take_over(acts.model());
        if let Some(cycle) = conflict {
            let clause: Vec<Lit> = cycle.into_iter().map(|literal| !literal).collect();
            acts.raise_conflict(&clause, false);
        }
    }
}

impl Theory for Acyclicity {
    fn final_check(&mut self, acts: &mut TheoryArg) {
        self.check(acts);
    }

    fn partial_check(&mut self, acts: &mut TheoryArg) {
        self.check(acts);
    }

    fn create_level(&mut self) {
        // A decision costs the solver about this much, and after each conflict many are made again.
        self.visits.set(self.visits.get() + DECISION_VISITS);
        self.levels.push((self.trail.len(), self.seen));
    }

    fn pop_levels(&mut self, n: usize) {
        let (edges, seen) = self.levels[self.levels.len() - n];
        self.levels.truncate(self.levels.len() - n);
        for (from, to) in self.trail.drain(edges..).rev() {
            self.out[from as usize].pop();
            self.into[to as usize].pop();
        }
        self.seen = seen;
    }

    fn n_levels(&self) -> usize {
        self.levels.len()
    }

    fn explain_propagation(&mut self, _p: Lit) -> &[Lit] {
        unreachable!("nothing is propagated here")
    }
}
