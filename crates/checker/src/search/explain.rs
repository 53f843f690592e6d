//! Why a search found nothing: the choices that matter, laid open.

use rustc_hash::FxHashSet;

use super::cases::Small;
use super::csp::{Alternative, Choice, Csp, Meaning};
use super::drawing::{Closed, Holding, draw};
use super::orders::{Orders, ROUND_MAX};
use super::paths::{Extra, Label, Labelled, Paths};
use super::polygraph::Polygraph;
use super::prune::{Pruned, derived_edges};
use super::select::Selectors;
use crate::decision::{Assumption, CycleEdge, Proof, Violation};
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::Edge;
use crate::order::acyclic::Node;
use crate::order::components::components;
use crate::order::reasons::{Basis, Evidence, Relation, basis};
use crate::order::shortest::{CycleStep, Step};

/// More pairs of chains than this are not laid open.
const PAIRS_MAX: usize = 400;
/// From so many nodes of a component a cycle is looked for.
const STARTS_MAX: usize = 40;
/// Everything that pruning decided.
const ALL_ROUNDS: u8 = ROUND_MAX + 1;

/// A pair of chains, the lower one first.
type Pair = (u32, u32);

/// What is to be explained.
pub struct Explainer<'p, 'a> {
    /// The problem.
    pub polygraph: &'p Polygraph<'a>,
    /// Its open reads.
    pub selectors: &'p Selectors,
    /// What pruning decided.
    pub pruned: &'p Pruned,
}

impl Explainer<'_, '_> {
    /// What was decided contradicts what is known.
    pub fn contradiction(&self) -> Violation {
        let cycle = self.decided_cycle();
        let decided: Vec<Pair> = self.decided(&cycle);
        if decided.is_empty() {
            return Violation::Cycle(self.edges(&cycle, None));
        }
        self.lay_open(decided, Vec::new())
    }

    /// These choices have no solution.
    pub fn unsolvable(&self, core: &[Choice]) -> Violation {
        let mut pairs = Vec::new();
        let mut sources = Vec::new();
        for choice in core {
            match *choice {
                Choice::Order(a, b) => pairs.push((a.min(b), a.max(b))),
                Choice::Source(_) | Choice::Meant(_) => sources.push(*choice),
                Choice::Effect(_) => {}
            }
        }
        // What pruning decided may be needed too: the cycles of a first tree show what of it.
        let first = Round { explainer: self, before_round: ALL_ROUNDS, orders: &self.pruned.orders };
        if let Some(drawn) = first.draw(&pairs, &sources) {
            pairs.extend(drawn.decided);
        }
        self.lay_open(pairs, sources)
    }

    fn paths(&self) -> Paths<'_, '_> {
        Paths::new(self.polygraph, &self.pruned.orders)
    }

    /// The pairs on a path that pruning decided.
    fn decided(&self, path: &[Labelled]) -> Vec<Pair> {
        let pairs = path.iter().filter_map(|&(_, _, label)| match label {
            Label::Order(a, b) => Some((a, b)),
            Label::Known(_) | Label::Inside | Label::Chosen(_) => None,
        });
        pairs.filter_map(|(a, b)| self.decided_pair(a, b)).collect()
    }

    fn decided_pair(&self, a: u32, b: u32) -> Option<Pair> {
        let round = self.paths().group(a).get(a, b).map_or(0, |(_, round)| round);
        (round > 0).then_some((a.min(b), a.max(b)))
    }

    /// The pair whose order makes a read of a chosen version come before an overwrite, if pruning decided it.
    fn decided_behind(&self, csp: &Csp, at: usize) -> Option<Pair> {
        let Meaning::Source(_, version) = csp.edges[at].meaning else { return None };
        let end = Some(self.polygraph.ends[version as usize]).filter(|&end| end != NONE)?;
        let target = csp.edges[at].edge.1;
        let others = self.paths().group(end).chains().filter(|&other| other != end);
        let mut behind = others.filter(|&other| {
            let head = self.polygraph.head(other);
            head != INITIAL && self.polygraph.commit(head) == target
        });
        behind.next().and_then(|other| self.decided_pair(end, other))
    }

    /// A cheap cycle of what is known and decided.
    fn decided_cycle(&self) -> Vec<Labelled> {
        let nodes = self.polygraph.known.len();
        let found = components(nodes, &vec![true; nodes], |node, visit| {
            let both = self.polygraph.known.out(node).iter().chain(self.pruned.derived.out(node));
            both.for_each(|&to| visit(to));
        });
        let component = found.first().expect("what has no order has a component");
        let inside: FxHashSet<u32> = component.iter().copied().collect();
        let paths = self.paths();
        let step = (component.len() / STARTS_MAX).max(1);
        let cycles = component.iter().step_by(step).filter_map(|&start| {
            let (_, steps) = paths.path(start, |node| node == start, ALL_ROUNDS, &Extra::default(), Some(&inside))?;
            Some(((self.decided(&steps).len(), steps.len()), steps))
        });
        cycles.min_by_key(|(weight, _)| *weight).expect("a node of a component lies on a cycle").1
    }

    /// All pairs that the reasons for these decisions hang on.
    fn with_reasons(&self, decided: Vec<Pair>) -> Vec<Pair> {
        let paths = self.paths();
        let mut seen: FxHashSet<Pair> = decided.iter().copied().collect();
        let mut queue = decided;
        let mut all = Vec::new();
        while let Some((low, high)) = queue.pop() {
            all.push((low, high));
            let Some((first, round)) = paths.group(low).get(low, high) else { continue };
            if all.len() > PAIRS_MAX || round == 0 {
                continue;
            }
            // The order that was ruled out, and the path that it would have closed.
            let (a, b) = if first { (high, low) } else { (low, high) };
            let mut closing: Vec<(u32, u32)> = Vec::new();
            self.polygraph.edges(a, b, |edge| {
                closing.push(edge);
                true
            });
            let mut best: Option<Vec<Pair>> = None;
            let starts: FxHashSet<u32> = closing.iter().map(|&(_, to)| to).collect();
            for start in starts {
                let goal = |node: u32| closing.contains(&(node, start));
                if let Some((_, steps)) = paths.path(start, goal, round, &Extra::default(), None) {
                    let needs = self.decided(&steps);
                    if best.as_ref().is_none_or(|other| needs.len() < other.len()) {
                        best = Some(needs);
                    }
                }
            }
            let more = best.unwrap_or_default();
            queue.extend(more.into_iter().filter(|&pair| seen.insert(pair)));
        }
        all
    }

    fn lay_open(&self, decided: Vec<Pair>, sources: Vec<Choice>) -> Violation {
        let mut pairs = self.with_reasons(decided);
        pairs.sort_unstable();
        pairs.dedup();
        let base: Vec<Orders> = self.polygraph.groups.iter().map(Orders::new).collect();
        let round = Round { explainer: self, before_round: 1, orders: &base };
        let drawn = if pairs.len() <= PAIRS_MAX { round.draw(&pairs, &sources) } else { None };
        match drawn {
            Some(Drawn { proof: Proof::Cycle(edges), .. }) => Violation::Cycle(edges),
            Some(drawn) => Violation::NoOrder { proof: Some(drawn.proof), choices: drawn.choices, txns: Vec::new() },
            None => {
                let heads = pairs.iter().flat_map(|&(a, b)| [self.polygraph.head(a), self.polygraph.head(b)]);
                let readers = sources.iter().filter_map(|choice| match *choice {
                    Choice::Source(place) => Some(self.selectors.all[place as usize].reader),
                    Choice::Order(..) | Choice::Effect(_) | Choice::Meant(_) => None,
                });
                let mut txns: Vec<u32> = heads.chain(readers).filter(|&txn| txn != INITIAL).collect();
                txns.sort_unstable();
                txns.dedup();
                Violation::NoOrder { proof: None, choices: (pairs.len() + sources.len()) as u64, txns }
            }
        }
    }

    /// The transactions around a closed path, with the operations behind each edge.
    fn edges(&self, cycle: &[Labelled], csp: Option<&Csp>) -> Vec<CycleEdge> {
        let analysis = self.polygraph.analysis;
        let mut edges: Vec<CycleEdge> = Vec::new();
        let mut sessions: Option<(u32, u32)> = None;
        let mut ended: Option<u32> = None;
        let known = |from: u32, to: u32, step: Step| -> Vec<CycleEdge> {
            let steps: [CycleStep; 1] = [(from, to, step)];
            analysis.explain(&steps)
        };
        // A path may begin on the line of time; then what led there comes last.
        let first = cycle.iter().position(|&(from, ..)| !matches!(self.polygraph.space.node(from), Node::Time(_)));
        let turned = cycle.iter().cycle().skip(first.unwrap_or(0)).take(cycle.len());
        for &(from, to, label) in turned {
            let (from, to) = match (self.polygraph.space.node(from), self.polygraph.space.node(to)) {
                (Node::Plain(txn), Node::Time(_)) => {
                    if let Some((start, end)) = sessions.take() {
                        edges.extend(known(start, end, Step::Known(Edge::Session)));
                    }
                    ended = Some(txn);
                    continue;
                }
                (Node::Time(_), Node::Plain(txn) | Node::Arrived(txn)) => {
                    if let Some(before) = ended.take() {
                        edges.extend(known(before, txn, Step::RealTime));
                    }
                    continue;
                }
                (Node::Plain(a) | Node::Arrived(a), Node::Plain(b) | Node::Arrived(b))
                    if a != b || matches!(label, Label::Chosen(_)) =>
                {
                    (a, b)
                }
                _ => continue,
            };
            if label == Label::Known(Edge::Session) {
                sessions = Some((sessions.map_or(from, |(start, _)| start), to));
                continue;
            }
            if let Some((start, end)) = sessions.take() {
                edges.extend(known(start, end, Step::Known(Edge::Session)));
            }
            match label {
                Label::Known(kind) => edges.extend(known(from, to, Step::Known(kind))),
                Label::Inside => {}
                Label::Order(a, b) => edges.push(self.ordered(from, to, a, b, false)),
                Label::Chosen(at) => edges.extend(csp.map(|csp| self.chosen(csp, at as usize, from, to))),
            }
        }
        if let Some((start, end)) = sessions.take() {
            match edges.first_mut() {
                Some(next)
                    if next.taken == Relation::So && next.from == end && next.reasons[0].basis == Basis::Seen =>
                {
                    let to = next.to;
                    *next = known(start, to, Step::Known(Edge::Session)).remove(0);
                }
                _ => edges.extend(known(start, end, Step::Known(Edge::Session))),
            }
        }
        edges
    }

    /// The edge from the end of a chain, or a reader of it, to the head of another.
    fn ordered(&self, from: u32, to: u32, a: u32, b: u32, assumed: bool) -> CycleEdge {
        let analysis = self.polygraph.analysis;
        let (last, first) = (self.polygraph.chains[a as usize].last, self.polygraph.chains[b as usize].first);
        let key = analysis.attribution.key_of(first);
        let basis = if assumed {
            Basis::Seen
        } else {
            basis(&analysis.history, &analysis.attribution, &analysis.dependencies, last, first)
        };
        let evidence = if analysis.attribution.writer(last) == from {
            let (from_op, to_op) = (analysis.op_of(last), analysis.op_of(first));
            Evidence::known(Relation::Ww, key, (from_op, to_op, NONE), basis)
        } else {
            let mut rows = analysis.history.ops_of(from);
            let read = rows.find(|&row| self.polygraph.by_op.read_of[row] == last);
            let from_op = read.map_or(NONE, |row| row as u32);
            Evidence::known(Relation::Rw, key, (from_op, analysis.op_of(first), analysis.op_of(last)), basis)
        };
        CycleEdge { from, to, taken: evidence.relation, reasons: vec![evidence], assumed }
    }

    /// An edge that a choice brings.
    fn chosen(&self, csp: &Csp, at: usize, from: u32, to: u32) -> CycleEdge {
        match csp.edges[at].meaning {
            Meaning::Source(place, version) => {
                let selector = &self.selectors.all[place as usize];
                let (key, read) = (selector.key, selector.op);
                let evidence = if to == selector.reader {
                    let from_op = self.polygraph.analysis.op_of(version);
                    Evidence::seen(Relation::Wr, key, from_op, read, NONE)
                } else {
                    let (to_op, seen_op) = (self.written_by(to, key), self.polygraph.analysis.op_of(version));
                    let basis = self.basis_behind(csp, at, version, to_op);
                    Evidence::known(Relation::Rw, key, (read, to_op, seen_op), basis)
                };
                CycleEdge { from, to, taken: evidence.relation, reasons: vec![evidence], assumed: true }
            }
            Meaning::Order(a, b) => self.ordered(from, to, a, b, true),
            Meaning::Told(first, second) => self.polygraph.analysis.told_edge(from, to, first, second, true),
            Meaning::Outside(kind) => self.polygraph.analysis.outside_edge(from, to, kind, true),
            Meaning::Inferred(_) => unreachable!("only weak levels infer"),
            Meaning::Session => self.polygraph.analysis.explain(&[(from, to, Step::Known(Edge::Session))]).remove(0),
        }
    }

    /// How it is known that what an operation wrote came after a version that somebody is taken to have read.
    fn basis_behind(&self, csp: &Csp, at: usize, version: u32, written_op: u32) -> Basis {
        let analysis = self.polygraph.analysis;
        let is_order = |choice: u32| matches!(csp.choices[choice as usize], Choice::Order(..));
        if written_op == NONE || csp.edges[at].when.iter().any(|&(choice, _)| is_order(choice)) {
            return Basis::Seen;
        }
        let key = analysis.history.ops.key[written_op as usize];
        let after = analysis.attribution.version_at(analysis.attribution.place(key, written_op));
        basis(&analysis.history, &analysis.attribution, &analysis.dependencies, version, after)
    }

    fn written_by(&self, txn: u32, key: u32) -> u32 {
        let analysis = self.polygraph.analysis;
        let installed = |&row: &usize| analysis.history.ops.key[row] == key && self.polygraph.by_op.installs[row];
        analysis.history.ops_of(txn).find(installed).map_or(NONE, |row| row as u32)
    }

    fn assumption(&self, csp: &Csp, (choice, alternative): Alternative) -> Assumption {
        match csp.choices[choice as usize] {
            Choice::Order(a, b) => {
                let (first, second) = if alternative == 0 { (a, b) } else { (b, a) };
                let (last, head) =
                    (self.polygraph.chains[first as usize].last, self.polygraph.chains[second as usize].first);
                Assumption::Before {
                    first_op: self.polygraph.analysis.op_of(last),
                    second_op: self.polygraph.analysis.op_of(head),
                }
            }
            other @ (Choice::Source(_) | Choice::Meant(_) | Choice::Effect(_)) => {
                self.selectors.assumption(self.polygraph.analysis, other, alternative)
            }
        }
    }
}

/// A proof, how many choices it makes, and what of pruning its cycles use.
struct Drawn {
    proof: Proof,
    choices: u64,
    decided: Vec<Pair>,
}

/// A problem over what was known before some round.
struct Round<'e, 'p, 'a> {
    explainer: &'e Explainer<'p, 'a>,
    before_round: u8,
    orders: &'e [Orders],
}

impl Round<'_, '_, '_> {
    fn draw(&self, pairs: &[Pair], sources: &[Choice]) -> Option<Drawn> {
        let Explainer { polygraph, selectors, .. } = *self.explainer;
        let open = pairs.iter().copied().filter(|&(a, b)| {
            let group = polygraph.groups.partition_point(|group| group.chains.end <= a);
            self.orders[group].get(a, b).is_none()
        });
        let mut csp = Csp::of(polygraph, selectors, self.orders, open);
        let wanted: Vec<u32> = (0..csp.choices.len() as u32)
            .filter(|&choice| match csp.choices[choice as usize] {
                Choice::Source(_) | Choice::Meant(_) => sources.contains(&csp.choices[choice as usize]),
                Choice::Order(..) | Choice::Effect(_) => true,
            })
            .collect();
        let asked: FxHashSet<u32> = wanted.iter().copied().collect();
        csp.edges.retain(|guarded| guarded.when.iter().all(|(choice, _)| asked.contains(choice)));
        let derived = derived_edges(polygraph, self.orders, &vec![0; polygraph.known.len()]);
        let tree = Small::over(&csp, &polygraph.known, &derived)?.lay_open(wanted)?;
        let mut drawing =
            Drawing { round: self, csp: &csp, paths: Paths::new(polygraph, self.orders), decided: Vec::new() };
        let mut choices = FxHashSet::default();
        let mut cycle = |closing: usize, picks: &[Alternative]| drawing.cycle(closing, picks);
        let assumption = |pick: Alternative| self.explainer.assumption(&csp, pick);
        let (proof, _) = draw(&tree, &mut Vec::new(), &mut choices, &mut cycle, &assumption)?;
        Some(Drawn { proof, choices: choices.len() as u64, decided: drawing.decided })
    }
}

struct Drawing<'r, 'e, 'p, 'a> {
    round: &'r Round<'e, 'p, 'a>,
    csp: &'r Csp,
    paths: Paths<'r, 'a>,
    decided: Vec<Pair>,
}

impl Drawing<'_, '_, '_, '_> {
    fn cycle(&mut self, closing: usize, picks: &[Alternative]) -> Option<Closed> {
        let holding = Holding::of(self.csp, picks);
        let mut extra = Extra::default();
        for (at, guarded) in holding.edges() {
            extra.entry(guarded.edge.0).or_default().push((guarded.edge.1, Label::Chosen(at as u32)));
        }
        let (from, to) = self.csp.edges[closing].edge;
        let mut steps = Vec::new();
        if from != to {
            steps = self.paths.path(to, |node| node == from, self.round.before_round, &extra, None)?.1;
        }
        steps.insert(0, (from, to, Label::Chosen(closing as u32)));
        let mut used = FxHashSet::default();
        for &(_, _, label) in &steps {
            if let Label::Chosen(at) = label {
                used.extend(holding.needs(at as usize));
                self.decided.extend(self.round.explainer.decided_behind(self.csp, at as usize));
            }
        }
        self.decided.extend(self.round.explainer.decided(&steps));
        Some((self.round.explainer.edges(&steps, Some(self.csp)), used))
    }
}
