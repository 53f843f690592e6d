//! The levels below snapshot isolation: decided by what [`crate::weak::saturation`] infers, and explained.

use std::collections::VecDeque;

use isolde_history::Status;
use rustc_hash::FxHashMap;

use crate::analysis::{Analysis, rw};
use crate::decision::{CycleEdge, Decision, Method, Open, Question, REPORTED_MAX, Violation};
use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::chains::Chains;
use crate::evidence::dependencies::{Counts, Edge, Graph, Succession};
use crate::evidence::list_overwrites;
use crate::evidence::outcome::Role;
use crate::order::acyclic::{Explanation, Rule, Space};
use crate::order::reasons::{Basis, Evidence, Relation};
use crate::order::shortest::{CycleStep, Step};
use crate::weak::saturation::{ByOp, Inferred, Saturated, Saturation, Visibility};

impl Analysis {
    /// PL-1: an order of the writers that follows every told chain, or a cycle of those. What was read does not bind
    /// anybody, so one of unknown outcome is taken to have done nothing, unless a told value needs it.
    pub(crate) fn overwrites(&self, all: bool, method: &mut Method) -> Decision {
        if let Some(&op) = self.attribution.shared_in_doubt.first() {
            // Whether an element tells who came first hangs on how many of its appenders took effect.
            let count = self.attribution.shared_in_doubt.len() as u64;
            return Decision::Undecided(Open::AmbiguousRead(op, count));
        }
        let uncertain = self.history.txns.status.contains(&Status::Unknown);
        let roles: Vec<Role> = if uncertain { self.committed() } else { self.roles.clone() };
        let known = &self.dependencies;
        let (told, mut violations) = if self.history.has_lists() {
            let keys = 0..self.attribution.keys();
            let shown = |key| list_overwrites::shown(&self.history, &self.attribution, &roles, key);
            (keys.flat_map(shown).collect(), Vec::new())
        } else if uncertain {
            let mut chains = Chains::find(&self.history, &self.attribution, &roles, &mut Counts::default());
            chains.add_told(&self.history, &self.attribution, &roles, &mut Counts::default());
            let installed = self.outside.told(&self.history, &self.attribution, &roles);
            chains.add_installed(installed, &self.attribution, &roles, &mut Counts::default());
            (chains.told, self.misplaced(&chains.before_initial, &chains.told_twice))
        } else {
            (known.told.clone(), self.misplaced(&known.before_initial, &known.told_twice))
        };
        if !violations.is_empty() && !all {
            return Decision::Violated(violations);
        }
        let mut edges: Vec<(u32, u32)> = between_writers(&self.attribution, &told).map(|(pair, _)| pair).collect();
        let counts = |txn: u32| roles[txn as usize] != Role::Absent;
        edges.extend(self.outside.edges(Question::Overwrites, counts).map(|(from, to, _)| (from, to)));
        let graph = Graph::of_edges(self.history.len(), &[(Edge::Overwrite, &edges)]);
        let space = Space { graph: &graph, rule: Rule::Serializable, timeline: None };
        let versions: FxHashMap<(u32, u32), Succession> = between_writers(&self.attribution, &told).collect();
        let explain = |cycle: &[CycleStep]| {
            let edge = |&(from, to, _): &CycleStep| match versions.get(&(from, to)) {
                Some(&(first, second)) => self.told_edge(from, to, first, second, false),
                None => self.outside_edge(from, to, Edge::Overwrite, false),
            };
            cycle.iter().map(edge).collect()
        };
        match self.acyclic_or(&space, all, explain) {
            Err(cycles) => {
                violations.extend(cycles);
                Decision::Violated(violations)
            }
            Ok(_) if !violations.is_empty() => Decision::Violated(violations),
            Ok(_) if self.dependencies.told_ambiguously => {
                *method = Method::Search;
                self.select_overwrites(roles, &told)
            }
            Ok(commits) => Decision::Satisfied(Some(Explanation::of(commits))),
        }
    }

    /// What prefix knows for certain: session order, reads, and what the database told.
    pub(crate) fn prefix_graph(&self) -> Graph {
        let by_op = ByOp::new(&self.history, &self.attribution);
        let told = self.told();
        self.saturation(&by_op, &told).base(Edge::Overwrite, &told)
    }

    /// The successions that the database told, between transactions.
    pub(crate) fn told(&self) -> Vec<(u32, u32)> {
        between_writers(&self.attribution, &self.dependencies.told).map(|(pair, _)| pair).collect()
    }

    /// The roles if nobody of unknown outcome took effect.
    fn committed(&self) -> Vec<Role> {
        let left_out = if self.options.judge_aborted { Role::ReadsOnly } else { Role::Absent };
        let roles = self.history.txns.status.iter().zip(&self.roles);
        let mut roles: Vec<Role> =
            roles.map(|(&status, &role)| if status == Status::Unknown { left_out } else { role }).collect();
        for op in self.outside.installed() {
            roles[self.txn_of(op) as usize] = Role::Effective;
        }
        roles
    }

    pub(crate) fn saturation<'s>(&'s self, by_op: &'s ByOp, told: &'s [(u32, u32)]) -> Saturation<'s> {
        Saturation {
            history: &self.history,
            attribution: &self.attribution,
            roles: &self.roles,
            session_next: &self.dependencies.session_next,
            told,
            by_op,
            session_order: self.options.session_order,
            told_sources: &self.told_sources,
        }
    }

    /// The weak levels: an order that follows all consequences, or what contradicts one.
    pub(crate) fn weak(&self, visibility: Visibility, all: bool) -> Result<Vec<u32>, Vec<Violation>> {
        let by_op = ByOp::new(&self.history, &self.attribution);
        let mut told = self.told();
        let question = Question::Weak(visibility);
        let outside = || self.outside.edges(question, |txn| self.counts(txn));
        told.extend(outside().filter(|(.., kind)| kind.orders_commits()).map(|(from, to, _)| (from, to)));
        let anti: Vec<(u32, u32)> =
            outside().filter(|(.., kind)| kind.is_anti()).map(|(from, to, _)| (from, to)).collect();
        let saturation = self.saturation(&by_op, &told);
        let Some(saturated) = saturation.run(visibility) else {
            // Without a past there is nothing to infer: the cycle of reads and sessions is the violation.
            return self.weak(Visibility::Nothing, all);
        };
        let past = saturation.base(Edge::Overwrite, &[]);
        let mut violations: Vec<Violation> = saturated
            .contradictions
            .iter()
            .take(if all { REPORTED_MAX } else { 1 })
            .map(|edge| Violation::Cycle(self.missed_write(&past, edge, visibility)))
            .collect();
        for (reader, writer) in saturation.seen_all_the_same(visibility, &anti) {
            if violations.is_empty() || (all && violations.len() < REPORTED_MAX) {
                let mut steps = self.sight(&past, writer, reader, visibility);
                steps.push(rw(reader, writer));
                violations.push(Violation::Cycle(self.explain(&steps)));
            }
        }
        if !violations.is_empty() && !all {
            return Err(violations);
        }
        let space = Space { graph: &saturated.graph, rule: Rule::Serializable, timeline: None };
        match self.acyclic_or(&space, all, |cycle| self.explain_weak(&past, &saturated, cycle, visibility)) {
            Ok(order) if violations.is_empty() => Ok(order),
            Ok(_) => Err(violations),
            Err(cycles) => {
                violations.extend(cycles);
                Err(violations)
            }
        }
    }

    /// A weak level, by search where reads have several writers or told values several meanings.
    pub(crate) fn weak_or_search(&self, visibility: Visibility, all: bool, method: &mut Method) -> Decision {
        match self.weak(visibility, all) {
            Err(found) => Decision::Violated(found),
            Ok(_) if self.has_open_reads() || self.dependencies.told_ambiguously => {
                *method = Method::Search;
                self.select(visibility)
            }
            Ok(commits) => Decision::Satisfied(Some(Explanation::of(commits))),
        }
    }

    fn acyclic_or(
        &self,
        space: &Space<'_>,
        all: bool,
        explain: impl Fn(&[CycleStep]) -> Vec<CycleEdge>,
    ) -> Result<Vec<u32>, Vec<Violation>> {
        // Causal is saturated with respect to this very order.
        if let Some(order) = space.graph.by_position() {
            return Ok(order.into_iter().filter(|&txn| self.roles[txn as usize] != Role::Absent).collect());
        }
        space.order().map(|_| Vec::new()).map_err(|left| {
            let mut explained = vec![false; self.history.len()];
            let cycles = self.shortest_cycles(space, &left, all, &mut explained);
            cycles.iter().map(|cycle| Violation::Cycle(explain(cycle))).collect()
        })
    }

    /// A reader to which `edge.before` was visible, and which yet read an older version.
    fn missed_write(&self, past: &Graph, edge: &Inferred, visibility: Visibility) -> Vec<CycleEdge> {
        let reader = self.txn_of(edge.read_op);
        let mut steps = self.sight(past, edge.before, reader, visibility);
        steps.push(rw(reader, edge.before));
        let mut cycle = self.explain(&steps);
        if visibility == Visibility::EarlierRead {
            // Neither the session nor what was read later makes a writer visible here.
            cycle[0].reasons.retain(|reason| reason.relation == Relation::Wr && reason.to_op < edge.read_op);
        }
        if let Some(last) = cycle.last_mut() {
            last.reasons.retain(|reason| reason.relation == Relation::Rw && reason.from_op == edge.read_op);
            if last.reasons.is_empty() {
                last.reasons.push(self.inferred_reason(Relation::Rw, edge, edge.read_op, NONE));
            }
        }
        cycle
    }

    /// How a writer was visible to a reader: in one step, or by the fewest where the level follows a path.
    fn sight(&self, past: &Graph, writer: u32, reader: u32, visibility: Visibility) -> Vec<CycleStep> {
        let session = &self.history.txns.session;
        let same = self.options.session_order && session[writer as usize] == session[reader as usize];
        let read = past.out(writer).any(|(kind, to)| matches!(kind, Edge::Read | Edge::ToldSession) && to == reader);
        match visibility {
            Visibility::CausalPast if !read && !same => path(past, writer, reader),
            _ if read => vec![(writer, reader, Step::Known(Edge::Read))],
            _ => vec![(writer, reader, Step::Known(Edge::Session))],
        }
    }

    /// The reason of an inferred edge: the writes of the key that the read was about.
    pub(crate) fn inferred_reason(&self, relation: Relation, edge: &Inferred, from_op: u32, seen_op: u32) -> Evidence {
        let key = self.history.ops.key[edge.read_op as usize];
        let written_by = |txn: u32| self.installed_by(txn, key);
        match relation {
            Relation::Rw => Evidence::seen(relation, key, from_op, written_by(edge.before), seen_op),
            _ => Evidence::seen(relation, key, written_by(edge.before), written_by(edge.after), seen_op),
        }
    }

    /// The operation by which a transaction installed its version of a key, or [`NONE`].
    pub(crate) fn installed_by(&self, txn: u32, key: u32) -> u32 {
        let mut rows = self.history.ops_of(txn).rev();
        let last = rows.find(|&row| {
            self.history.ops.key[row] == key
                && self.attribution.installs[self.attribution.place(key, row as u32) as usize]
        });
        last.map_or(NONE, |row| row as u32)
    }

    fn explain_weak(
        &self,
        past: &Graph,
        saturated: &Saturated,
        cycle: &[CycleStep],
        visibility: Visibility,
    ) -> Vec<CycleEdge> {
        let inferred =
            |from: u32, to: u32| saturated.inferred.iter().find(|edge| edge.before == from && edge.after == to);
        // A cycle of two, where the one overwrote what the other wrote, is told by the reader in between.
        if let [(a, b, _), (c, d, _)] = *cycle {
            for (from, to) in [(a, b), (c, d)] {
                // What is inferred itself says nothing of an overwrite that the reader would have to know of.
                if let Some(edge) = inferred(from, to).filter(|_| inferred(to, from).is_none()) {
                    let overwrote = self.reasons(to, from);
                    let key = self.history.ops.key[edge.read_op as usize];
                    let known = |r: &Evidence| r.relation == Relation::Ww && r.key == key && r.basis != Basis::Inferred;
                    if overwrote.iter().any(known) {
                        return self.missed_write(past, edge, visibility);
                    }
                }
            }
        }
        let mut edges = self.explain(cycle);
        for edge in &mut edges {
            edge.reasons.retain(|reason| match reason.relation {
                Relation::So | Relation::Wr => true,
                Relation::Ww | Relation::PredicateWr => reason.basis == Basis::Outside,
                Relation::Rw | Relation::PredicateRw | Relation::Rt => false,
            });
            if edge.reasons.is_empty() {
                edge.taken = Relation::Ww;
                match inferred(edge.from, edge.to) {
                    Some(found) => {
                        edge.reasons.push(self.inferred_reason(Relation::Ww, found, NONE, found.read_op));
                    }
                    None => {
                        let all = self.reasons(edge.from, edge.to);
                        edge.reasons.extend(all.into_iter().filter(|reason| reason.relation == Relation::Ww));
                    }
                }
            }
        }
        edges
    }
}

/// The transactions that successions of versions lead between, with the versions.
fn between_writers<'t>(
    attribution: &'t Attribution,
    told: &'t [Succession],
) -> impl Iterator<Item = ((u32, u32), Succession)> + 't {
    let writers = |&(before, after): &Succession| (attribution.writer(before), attribution.writer(after));
    told.iter().map(move |pair| (writers(pair), *pair)).filter(|((from, to), _)| *from != INITIAL && *to != INITIAL)
}

/// A shortest path of reads and session order; however much of a session it skips, that is one step.
fn path(past: &Graph, from: u32, to: u32) -> Vec<CycleStep> {
    // Where it is, and whether it came there along a session, which it then follows at no cost.
    type State = (u32, bool);
    let start: State = (from, false);
    let mut best: FxHashMap<State, u32> = FxHashMap::from_iter([(start, 0)]);
    let mut parent: FxHashMap<State, State> = FxHashMap::default();
    let mut queue = VecDeque::from([(start, 0)]);
    let mut end = start;
    while let Some((state, steps)) = queue.pop_front() {
        if state.0 == to {
            end = state;
            break;
        }
        if best[&state] < steps {
            continue;
        }
        for (kind, next) in past.out(state.0) {
            let riding = kind == Edge::Session;
            let (next, steps) = ((next, riding), if riding && state.1 { steps } else { steps + 1 });
            if best.get(&next).is_none_or(|&known| steps < known) {
                best.insert(next, steps);
                parent.insert(next, state);
                if riding && state.1 {
                    queue.push_front((next, steps));
                } else {
                    queue.push_back((next, steps));
                }
            }
        }
    }
    let mut steps: Vec<CycleStep> = Vec::new();
    let mut at = end;
    while let Some(&before) = parent.get(&at) {
        match steps.last_mut() {
            Some((first, _, Step::Known(Edge::Session))) if at.1 => *first = before.0,
            _ => {
                let kind = if at.1 { Edge::Session } else { Edge::Read };
                steps.push((before.0, at.0, Step::Known(kind)));
            }
        }
        at = before;
    }
    steps.reverse();
    steps
}
