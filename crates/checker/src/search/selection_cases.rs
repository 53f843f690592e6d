//! Why no selection satisfies a weak level: cases, each of which ends in a cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cases::Small;
use super::csp::{Alternative, Choice, Csp, Guarded, Meaning};
use super::drawing::{Closed, Holding, draw};
use super::net::Net;
use super::selection::{By, Lesson, Problem, Why};
use crate::decision::{CycleEdge, Proof, Violation};
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::Edge;
use crate::order::reasons::{Basis, Evidence, Relation};
use crate::order::shortest::Step;

/// An edge: known, or by its place in the problem.
#[derive(Clone, Copy)]
enum Label {
    Known(Why),
    Chosen(usize),
}

type Labelled = (u32, u32, Label);

impl Problem<'_> {
    /// These choices leave no selection.
    pub fn lay_open(&self, core: &[u32]) -> Violation {
        let is_effect = |choice: u32| matches!(self.csp.choices[choice as usize], Choice::Effect(_));
        let asked: FxHashSet<u32> = core
            .iter()
            .copied()
            .chain((0..self.csp.choices.len() as u32).filter(|&choice| is_effect(choice)))
            .collect();
        let needed = |guarded: &&Guarded| guarded.when.iter().all(|(choice, _)| asked.contains(choice));
        let part = Csp {
            choices: self.csp.choices.clone(),
            alternatives: self.csp.alternatives.clone(),
            excluded: self.csp.excluded.clone(),
            edges: self.csp.edges.iter().filter(needed).cloned().collect(),
        };
        match self.drawn(&part, asked.into_iter().collect()) {
            Some((Proof::Cycle(edges), _)) => Violation::Cycle(edges),
            Some((proof, choices)) => Violation::NoOrder { proof: Some(proof), choices, txns: Vec::new() },
            None => {
                let readers = core.iter().filter_map(|&choice| match self.csp.choices[choice as usize] {
                    Choice::Source(place) => Some(self.selectors.all[place as usize].reader),
                    Choice::Order(..) | Choice::Effect(_) | Choice::Meant(_) => None,
                });
                let mut txns: Vec<u32> = readers.collect();
                txns.sort_unstable();
                txns.dedup();
                Violation::NoOrder { proof: None, choices: core.len() as u64, txns }
            }
        }
    }

    fn drawn(&self, csp: &Csp, mut wanted: Vec<u32>) -> Option<(Proof, u64)> {
        wanted.sort_unstable();
        let nodes = self.analysis.history.len();
        let tree = Small::over(csp, &self.net(), &Net::of(nodes, &[]))?.lay_open(wanted)?;
        let mut known: FxHashMap<u32, Vec<(u32, Label)>> = FxHashMap::default();
        for &(from, to, why) in &self.known {
            known.entry(from).or_default().push((to, Label::Known(why)));
        }
        let mut choices = FxHashSet::default();
        let mut cycle = |closing: usize, picks: &[Alternative]| self.cycle(csp, &known, closing, picks);
        let assumption = |(choice, alternative): Alternative| {
            self.selectors.assumption(self.analysis, csp.choices[choice as usize], alternative)
        };
        let (proof, _) = draw(&tree, &mut Vec::new(), &mut choices, &mut cycle, &assumption)?;
        Some((proof, choices.len() as u64))
    }

    fn cycle(
        &self,
        csp: &Csp,
        known: &FxHashMap<u32, Vec<(u32, Label)>>,
        closing: usize,
        picks: &[Alternative],
    ) -> Option<Closed> {
        let holding = Holding::of(csp, picks);
        let mut chosen: FxHashMap<u32, Vec<(u32, Label)>> = FxHashMap::default();
        for (at, guarded) in holding.edges() {
            chosen.entry(guarded.edge.0).or_default().push((guarded.edge.1, Label::Chosen(at)));
        }
        let (from, to) = csp.edges[closing].edge;
        let mut steps: Vec<Labelled> = vec![(from, to, Label::Chosen(closing))];
        if from != to {
            steps.extend(path(&[known, &chosen], to, from)?);
        }
        let mut used = FxHashSet::default();
        for &(_, _, label) in &steps {
            if let Label::Chosen(at) = label {
                used.extend(holding.needs(at));
            }
        }
        Some((self.edges(csp, &steps), used))
    }

    /// The edges of a cycle with the operations behind them; neighbours of a session are one step.
    fn edges(&self, csp: &Csp, steps: &[Labelled]) -> Vec<CycleEdge> {
        let mut edges: Vec<CycleEdge> = Vec::new();
        for &(from, to, label) in steps {
            let meaning = match label {
                Label::Known(Why::Session) => Meaning::Session,
                Label::Known(Why::Read) => {
                    edges.push(self.known_edge(from, to, Edge::Read, Relation::Wr));
                    continue;
                }
                Label::Known(Why::Outside(kind)) => {
                    edges.push(self.analysis.outside_edge(from, to, kind, false));
                    continue;
                }
                Label::Known(Why::Told(first, second)) => {
                    edges.push(self.analysis.told_edge(from, to, first, second, false));
                    continue;
                }
                Label::Known(Why::Inferred(place)) => {
                    edges.extend(self.inferred(&self.lessons[place as usize], false));
                    continue;
                }
                Label::Chosen(at) => csp.edges[at].meaning,
            };
            match meaning {
                Meaning::Session => match edges.last_mut() {
                    Some(last) if along_a_session(last) => last.to = to,
                    _ => edges.push(self.known_edge(from, to, Edge::Session, Relation::So)),
                },
                Meaning::Source(place, version) => {
                    let read_op = self.selectors.all[place as usize].op;
                    edges.push(self.read_edge(self.analysis.op_of(version), read_op, true));
                }
                Meaning::Told(first, second) => edges.push(self.analysis.told_edge(from, to, first, second, true)),
                Meaning::Outside(kind) => edges.push(self.analysis.outside_edge(from, to, kind, true)),
                Meaning::Inferred(place) => edges.extend(self.inferred(&self.lessons[place as usize], true)),
                Meaning::Order(..) => unreachable!("weak levels order no chains"),
            }
        }
        // A way along a session may begin at the end of the list.
        if edges.len() > 2
            && along_a_session(&edges[0])
            && along_a_session(&edges[edges.len() - 1])
            && let Some(last) = edges.pop()
        {
            edges[0].from = last.from;
        }
        edges
    }

    fn known_edge(&self, from: u32, to: u32, kind: Edge, relation: Relation) -> CycleEdge {
        let mut edge = self.analysis.explain(&[(from, to, Step::Known(kind))]).remove(0);
        edge.reasons.retain(|reason| reason.relation == relation);
        edge
    }

    fn read_edge(&self, written_op: u32, read_op: u32, assumed: bool) -> CycleEdge {
        let key = self.analysis.history.ops.key[read_op as usize];
        let reason = Evidence::seen(Relation::Wr, key, written_op, read_op, NONE);
        let (from, to) = (self.analysis.txn_of(written_op), self.analysis.txn_of(read_op));
        CycleEdge { from, to, taken: Relation::Wr, reasons: vec![reason], assumed }
    }

    /// What the axiom says. That a reader of the initial version saw another is shown step by step.
    fn inferred(&self, lesson: &Lesson, assumed: bool) -> Vec<CycleEdge> {
        let Lesson { inferred, sights } = lesson;
        if inferred.after != INITIAL {
            let reason = self.analysis.inferred_reason(Relation::Ww, inferred, NONE, inferred.read_op);
            let (from, to) = (inferred.before, inferred.after);
            return vec![CycleEdge { from, to, taken: Relation::Ww, reasons: vec![reason], assumed }];
        }
        let reader = inferred.reader;
        let mut edges: Vec<CycleEdge> = sights
            .iter()
            .map(|&(from, to, op)| match op {
                By::Session => self.known_edge(from, to, Edge::Session, Relation::So),
                By::Outside => self.analysis.outside_edge(from, to, Edge::ToldSession, assumed),
                By::Read(op) => {
                    let key = self.analysis.history.ops.key[op as usize];
                    self.read_edge(self.analysis.installed_by(from, key), op, assumed)
                }
            })
            .collect();
        if inferred.read_op == NONE {
            edges.push(self.analysis.outside_edge(reader, inferred.before, Edge::AntiDependency, assumed));
            return edges;
        }
        let reason = self.analysis.inferred_reason(Relation::Rw, inferred, inferred.read_op, NONE);
        let (from, to) = (reader, inferred.before);
        edges.push(CycleEdge { from, to, taken: Relation::Rw, reasons: vec![reason], assumed });
        edges
    }
}

/// Whether an edge follows a session; what comes next in it is then the same step.
fn along_a_session(edge: &CycleEdge) -> bool {
    edge.taken == Relation::So && edge.reasons.iter().all(|reason| reason.basis != Basis::Outside)
}

/// A path that rather takes known edges than chosen ones.
fn path(graphs: &[&FxHashMap<u32, Vec<(u32, Label)>>], from: u32, to: u32) -> Option<Vec<Labelled>> {
    let mut cost: FxHashMap<u32, u32> = FxHashMap::from_iter([(from, 0)]);
    let mut came: FxHashMap<u32, (u32, Label)> = FxHashMap::default();
    let mut queue = BinaryHeap::from([Reverse((0, from))]);
    while let Some(Reverse((so_far, node))) = queue.pop() {
        if node == to {
            break;
        }
        if cost[&node] < so_far {
            continue;
        }
        for &(next, label) in graphs.iter().filter_map(|graph| graph.get(&node)).flatten() {
            let step = match label {
                Label::Known(Why::Session) => 1,
                Label::Known(_) => 10,
                Label::Chosen(_) => 1_000,
            };
            if cost.get(&next).is_none_or(|&known| so_far + step < known) {
                cost.insert(next, so_far + step);
                came.insert(next, (node, label));
                queue.push(Reverse((so_far + step, next)));
            }
        }
    }
    let mut steps = Vec::new();
    let mut at = to;
    while at != from {
        let &(before, label) = came.get(&at)?;
        steps.push((before, at, label));
        at = before;
    }
    steps.reverse();
    Some(steps)
}
