//! Weak levels where reads have several possible writers, or told values several meanings.
//!
//! A *selection* says whom every open read saw, who took effect for that, and what every told value means. For one selection
//! a weak level is decided by saturation, in polynomial time. If that finds a contradiction, the instances of the axiom
//! that it is made of are learned: "if this read saw t1, and by those reads t2 is visible, then t2 comes before t1"
//! is an edge that hangs on a few picks, and it holds for every selection that makes them. The solver then looks for a
//! selection that avoids all that was learned, until one holds or none is left. So the choices that matter are few, and
//! what is learned is what the cases of a violation are made of.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::EDGE_BYTES;
use super::allowance::Allowance;
use super::csp::{Alternative, Choice, Csp, Effects, Guarded, Meaning};
use super::net::{Net, topological};
use super::polygraph::plausible_places;
use super::sat::{Question, Solved, solve};
use super::select::{Demands, Selectors};
use crate::analysis::{Analysis, SNAPSHOT};
use crate::decision::{Decision, Open, Question as Level};
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::{Edge, Graph, Succession, session_successors};
use crate::evidence::outcome::Role;
use crate::order::acyclic::Explanation;
use crate::order::components::components;
use crate::weak::saturation::{ByOp, Inferred, Saturation, Visibility};

/// How many instances of the axiom are learned at a time, where each takes a search for its path.
const LESSONS_MAX: usize = 200;
/// How many operations of the history a step of the budget pays for, when a selection is tried.
const OPERATIONS_A_STEP: u64 = 100;

/// Why an edge is there whatever is picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Session order.
    Session,
    /// A read with one possible writer.
    Read,
    /// A `versions` line, of versions with one possible writer.
    Told(u32, u32),
    /// Evidence from outside, of this kind.
    Outside(Edge),
    /// An instance of the axiom, by its place among those learned.
    Inferred(u32),
}

/// How a transaction saw another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// By session order.
    Session,
    /// By the read of this operation.
    Read(u32),
    /// By evidence from outside.
    Outside,
}

/// A step from a transaction to one that saw it.
pub type Sight = (u32, u32, By);

/// An instance of a level's axiom, and how its reader came to see the earlier writer.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// What follows.
    pub inferred: Inferred,
    /// The steps from the earlier writer to the reader.
    pub sights: Vec<Sight>,
}

/// A weak level's problem.
pub struct Problem<'a> {
    /// The evidence.
    pub analysis: &'a Analysis,
    /// What a read shows of others; `None` if reads do not count.
    visibility: Option<Visibility>,
    /// Which transactions count for certain.
    pub roles: Vec<Role>,
    /// What is open.
    pub selectors: Selectors,
    effects: Effects,
    /// The choices, and the edges that hang on them.
    pub csp: Csp,
    /// The edges that hang on nothing.
    pub known: Vec<(u32, u32, Why)>,
    /// What was learned.
    pub lessons: Vec<Lesson>,
    seen: FxHashSet<((u32, u32), Vec<Alternative>)>,
    /// The choice of each open read, by operation.
    choice_of: FxHashMap<u32, u32>,
}

impl Analysis {
    /// Decides a weak level by search. What is certain must fit together.
    pub(crate) fn select(&self, visibility: Visibility) -> Decision {
        let repeatable = !matches!(visibility, Visibility::Nothing | Visibility::EarlierRead);
        let demands = Demands { timed: false, repeatable, reads: true };
        // An order of all transactions explains the weak levels too, and brings whom every read saw along.
        if let Some(found) = self.by_clock(SNAPSHOT) {
            return Decision::Satisfied(Some(Explanation::of(found.commits)));
        }
        let mut allowance = Allowance::of(self.options.budget);
        let selectors = Selectors::of(self, &self.roles, demands, &mut allowance);
        let held: u64 = selectors.all.iter().map(|selector| selector.candidates.len() as u64).sum();
        if selectors.too_many || !allowance.hold(held * EDGE_BYTES) {
            return Decision::Undecided(allowance.gave_up(0, selectors.all.len() as u64));
        }
        if let Some(selector) = selectors.unexplained(&self.roles) {
            return Decision::Violated(vec![selector.fault()]);
        }
        let mut problem = Problem::new(self, Some(visibility), self.roles.clone(), selectors);
        let by_op = ByOp::new(&self.history, &self.attribution);
        let certain = self.saturation(&by_op, &[]).base(Edge::Overwrite, &[]);
        for txn in 0..self.history.len() as u32 {
            for (kind, to) in certain.out(txn) {
                let why = match kind {
                    Edge::Session => Why::Session,
                    Edge::ToldSession => Why::Outside(kind),
                    _ => Why::Read,
                };
                problem.known.push((txn, to, why));
            }
        }
        problem.add_told(&self.dependencies.told);
        problem.add_outside();
        problem.decide()
    }

    /// The same for the order of overwrites alone: `told` are those of the transactions that count in `roles`.
    pub(crate) fn select_overwrites(&self, roles: Vec<Role>, told: &[Succession]) -> Decision {
        let demands = Demands { timed: false, repeatable: false, reads: false };
        let mut allowance = Allowance::of(self.options.budget);
        let selectors = Selectors::of(self, &roles, demands, &mut allowance);
        let mut problem = Problem::new(self, None, roles, selectors);
        problem.add_told(told);
        problem.add_outside();
        problem.decide()
    }
}

impl<'a> Problem<'a> {
    fn new(
        analysis: &'a Analysis,
        visibility: Option<Visibility>,
        roles: Vec<Role>,
        selectors: Selectors,
    ) -> Problem<'a> {
        let mut csp = Csp::default();
        let effects = csp.add_effects(&selectors);
        let mut choice_of = FxHashMap::default();
        let pair = |first: u32, second: u32| (first, second);
        for (place, selector) in selectors.all.iter().enumerate() {
            choice_of.insert(selector.op, csp.add_source(analysis, &selectors, &effects, place, pair));
        }
        csp.add_meanings(analysis, &selectors, |txn| effects.get(&txn).copied(), pair);
        if visibility.is_some() {
            csp.add_sessions(analysis, &effects, pair);
        }
        csp.add_outside(analysis, question_of(visibility), &effects, |from, to, _| (from, to));
        // What must not be visible is no order; it is learned where it is seen.
        csp.edges.retain(|guarded| !matches!(guarded.meaning, Meaning::Outside(kind) if kind.is_anti()));
        let (known, lessons, seen) = (Vec::new(), Vec::new(), FxHashSet::default());
        Problem { analysis, visibility, roles, selectors, effects, csp, known, lessons, seen, choice_of }
    }

    fn add_told(&mut self, told: &[Succession]) {
        for &(first, second) in told {
            let (from, to) = (self.analysis.attribution.writer(first), self.analysis.attribution.writer(second));
            if from != INITIAL && to != INITIAL {
                self.known.push((from, to, Why::Told(first, second)));
            }
        }
    }

    /// What was told from outside about the order of commits of transactions that count for certain.
    fn add_outside(&mut self) {
        let counts = |txn: u32| self.roles[txn as usize] != Role::Absent;
        let all = self.analysis.outside.edges(question_of(self.visibility), counts);
        let commits = all.filter(|(.., kind)| kind.orders_commits());
        self.known.extend(commits.map(|(from, to, kind)| (from, to, Why::Outside(kind))));
    }

    /// What is known, as a graph.
    pub fn net(&self) -> Net {
        let edges = &self.known;
        Net::build(self.analysis.history.len(), |visit| edges.iter().for_each(|&(from, to, _)| visit(from, to)))
    }

    fn decide(mut self) -> Decision {
        let mut budget = self.analysis.options.budget;
        let price = self.analysis.history.ops.kind.len() as u64 / OPERATIONS_A_STEP + 1;
        let places = plausible_places(self.analysis);
        let reads = (self.selectors.all.len() + self.selectors.entries.len()) as u64;
        let open = Decision::Undecided(Open::Choices { pairs: 0, reads });
        loop {
            let empty = Net::of(self.analysis.history.len(), &[]);
            let order = topological(&self.net(), &empty).expect("what is certain fits together");
            let question = Question {
                csp: &self.csp,
                known: &|| self.net(),
                order: &order,
                plausible: &|choice| self.plausible(&places, choice),
            };
            let picks = match solve(&question, &mut budget) {
                Solved::Picks(picks) => picks,
                Solved::None(core) => return Decision::Violated(vec![self.lay_open(&core)]),
                Solved::OutOfBudget => return open,
            };
            if let Some(explanation) = self.attempt(&picks) {
                return Decision::Satisfied(Some(explanation));
            }
            if budget < price {
                return open;
            }
            budget -= price;
        }
    }

    /// The alternative that is tried first: the latest writer that comes before the reader in a plausible order.
    fn plausible(&self, places: &[i64], choice: u32) -> u32 {
        let Choice::Source(place) = self.csp.choices[choice as usize] else { return 0 };
        let selector = &self.selectors.all[place as usize];
        let written = |&version: &u32| match self.analysis.attribution.writer(version) {
            INITIAL => i64::MIN,
            writer => places[writer as usize],
        };
        let read = places[selector.reader as usize];
        let before = selector.candidates.iter().enumerate().filter(|(_, version)| written(version) <= read);
        before.max_by_key(|(_, version)| written(version)).map_or(0, |(at, _)| at as u32)
    }

    /// Saturates one selection: an order that explains it, or something learned.
    fn attempt(&mut self, picks: &[u32]) -> Option<Explanation> {
        let analysis = self.analysis;
        let mut roles = self.roles.clone();
        let mut effects = Vec::new();
        for (&txn, &choice) in &self.effects {
            if picks[choice as usize] == 1 {
                roles[txn as usize] = Role::Effective;
                effects.push(txn);
            }
        }
        effects.sort_unstable();
        let mut by_op = ByOp::new(&analysis.history, &analysis.attribution);
        for selector in &self.selectors.all {
            let pick = picks[self.choice_of[&selector.op] as usize] as usize;
            by_op.read_of[selector.op as usize] = selector.candidates.get(pick).copied().unwrap_or(NONE);
        }
        let holds = |guarded: &&Guarded| guarded.when.iter().all(|&(choice, alt)| picks[choice as usize] == alt);
        let told_now = self.csp.edges.iter().filter(|guarded| is_told(guarded.meaning));
        let mut told: Vec<(u32, u32)> = told_now.filter(holds).map(|guarded| guarded.edge).collect();
        let known = self.known.iter().filter(|edge| matches!(edge.2, Why::Told(..) | Why::Outside(_)));
        told.extend(known.map(|&(from, to, _)| (from, to)));
        let explanation = |order: Vec<u32>| {
            let commits = order.into_iter().filter(|&txn| roles[txn as usize] != Role::Absent).collect();
            Explanation { commits, snapshots: Vec::new(), effects: effects.clone() }
        };
        let Some(visibility) = self.visibility else {
            let graph = Graph::of_edges(analysis.history.len(), &[(Edge::Overwrite, &told)]);
            return Some(explanation(graph.by_position().expect("the solver lets no cycle pass")));
        };
        let session_next = session_successors(&analysis.history, &roles);
        let saturation = Saturation {
            history: &analysis.history,
            attribution: &analysis.attribution,
            roles: &roles,
            session_next: &session_next,
            told: &told,
            by_op: &by_op,
            session_order: analysis.options.session_order,
            told_sources: &analysis.told_sources,
        };
        let saturated = saturation.run(visibility).expect("the solver lets no cycle pass");
        let anti = analysis.outside.edges(Level::Weak(visibility), |txn| roles[txn as usize] != Role::Absent);
        let anti: Vec<(u32, u32)> = anti.filter(|(.., kind)| kind.is_anti()).map(|(a, b, _)| (a, b)).collect();
        let seen = saturation.seen_all_the_same(visibility, &anti);
        let seen: Vec<Inferred> = seen.iter().map(|&(reader, before)| Inferred::told_apart(before, reader)).collect();
        if saturated.contradictions.is_empty()
            && seen.is_empty()
            && let Some(order) = saturated.graph.by_position()
        {
            return Some(explanation(order));
        }
        let nodes = analysis.history.len();
        let found = components(nodes, &vec![true; nodes], |node, visit| {
            saturated.graph.out(node).for_each(|(_, to)| visit(to));
        });
        let mut component_of = vec![NONE; nodes];
        for (at, members) in found.iter().enumerate() {
            members.iter().for_each(|&node| component_of[node as usize] = at as u32);
        }
        let in_cycle = |edge: &&Inferred| {
            let component = component_of[edge.before as usize];
            component != NONE && component == component_of[edge.after as usize]
        };
        let closing = saturated.contradictions.iter().chain(&seen).chain(saturated.inferred.iter().filter(in_cycle));
        let sight = Sighting::new(self, &by_op, &session_next, &roles, picks);
        let lessons = closing.map(|edge| sight.lesson(edge)).filter(|(lesson, when)| self.is_new(lesson, when));
        let new: Vec<(Lesson, Vec<Alternative>)> = lessons.take(LESSONS_MAX).collect();
        assert!(!new.is_empty(), "what contradicts a selection has not been learned before");
        new.into_iter().for_each(|(lesson, when)| self.learn(lesson, when));
        None
    }

    /// The edge that a lesson says; one from a reader to itself if it cannot be.
    fn edge_of(&self, lesson: &Lesson) -> (u32, u32) {
        let Inferred { before, after, reader, .. } = lesson.inferred;
        if after == INITIAL { (reader, reader) } else { (before, after) }
    }

    fn is_new(&self, lesson: &Lesson, when: &[Alternative]) -> bool {
        !self.seen.contains(&(self.edge_of(lesson), when.to_vec()))
    }

    fn learn(&mut self, lesson: Lesson, when: Vec<Alternative>) {
        let edge = self.edge_of(&lesson);
        if !self.seen.insert((edge, when.clone())) {
            return;
        }
        let place = self.lessons.len() as u32;
        self.lessons.push(lesson);
        if when.is_empty() {
            self.known.push((edge.0, edge.1, Why::Inferred(place)));
        } else {
            self.csp.edges.push(Guarded { edge, meaning: Meaning::Inferred(place), when });
        }
    }
}

fn question_of(visibility: Option<Visibility>) -> Level {
    visibility.map_or(Level::Overwrites, Level::Weak)
}

fn is_told(meaning: Meaning) -> bool {
    match meaning {
        Meaning::Told(..) => true,
        Meaning::Outside(kind) => kind.orders_commits(),
        Meaning::Order(..) | Meaning::Source(..) | Meaning::Session | Meaning::Inferred(_) => false,
    }
}

/// Who saw whom in one selection.
struct Sighting<'p, 'a> {
    problem: &'p Problem<'a>,
    by_op: &'p ByOp,
    picks: &'p [u32],
    /// The transaction before each in its session, or [`NONE`].
    previous: Vec<u32>,
    /// Who takes part in the selection.
    there: Vec<bool>,
}

impl<'p, 'a> Sighting<'p, 'a> {
    fn new(problem: &'p Problem<'a>, by_op: &'p ByOp, session_next: &[u32], roles: &[Role], picks: &'p [u32]) -> Self {
        let mut previous = vec![NONE; session_next.len()];
        for (txn, &next) in session_next.iter().enumerate().filter(|_| problem.analysis.options.session_order) {
            if next != NONE {
                previous[next as usize] = txn as u32;
            }
        }
        let there = roles.iter().map(|&role| role != Role::Absent).collect();
        Sighting { problem, by_op, picks, previous, there }
    }

    /// The instance of the axiom behind an edge, with the picks that it hangs on.
    fn lesson(&self, edge: &Inferred) -> (Lesson, Vec<Alternative>) {
        let reader = edge.reader;
        let sights = self.sights(edge, reader);
        let mut when: Vec<Alternative> = self.pick(edge.read_op).into_iter().collect();
        when.extend(sights.iter().filter_map(|&(_, _, by)| self.pick_behind(by)));
        // Who wrote took effect; who only read, or stands in a session, may be judged even if it did not.
        let read_from = sights.iter().filter(|(_, _, by)| matches!(by, By::Read(_))).map(|&(from, _, _)| from);
        let looked = std::iter::once(reader).chain(sights.iter().flat_map(|&(from, to, _)| [from, to]));
        let doubtful = looked.filter(|&txn| self.problem.roles[txn as usize] == Role::Absent);
        let there = [edge.before, edge.after].into_iter().chain(read_from).chain(doubtful);
        when.extend(there.filter_map(|txn| self.problem.effects.get(&txn)).map(|&effect| (effect, 1)));
        when.sort_unstable();
        when.dedup();
        (Lesson { inferred: *edge, sights }, when)
    }

    fn pick_behind(&self, by: By) -> Option<Alternative> {
        match by {
            By::Read(op) => self.pick(op),
            By::Session | By::Outside => None,
        }
    }

    /// The pick behind an open read.
    fn pick(&self, op: u32) -> Option<Alternative> {
        self.problem.choice_of.get(&op).map(|&choice| (choice, self.picks[choice as usize]))
    }

    /// How the reader came to see the earlier writer.
    fn sights(&self, edge: &Inferred, reader: u32) -> Vec<Sight> {
        let analysis = self.problem.analysis;
        let session = |txn: u32| analysis.history.txns.session[txn as usize];
        match self.problem.visibility {
            None | Some(Visibility::Nothing) => Vec::new(),
            Some(Visibility::EarlierRead) => self.direct(edge.before, reader, edge.read_op).into_iter().collect(),
            Some(Visibility::DirectlyBefore) => {
                let same = session(edge.before) == session(reader) && edge.before < reader;
                if same && analysis.options.session_order {
                    return vec![(edge.before, reader, By::Session)];
                }
                self.direct(edge.before, reader, NONE).into_iter().collect()
            }
            Some(Visibility::CausalPast) => self.path(edge.before, reader),
        }
    }

    /// A read of `reader` from `writer`, in an operation before `until`; one with no other possible writer, if there is one.
    fn direct(&self, writer: u32, reader: u32, until: u32) -> Option<Sight> {
        let rows = self.problem.analysis.history.ops_of(reader).map(|row| row as u32).filter(|&op| op < until);
        let from = |op: &u32| {
            let version = self.by_op.read_of[*op as usize];
            version != NONE && self.problem.analysis.attribution.writer(version) == writer
        };
        let told = self.problem.analysis.told_sources.get(&reader).is_some_and(|all| all.contains(&writer));
        let read = rows.filter(from).min_by_key(|&op| self.pick(op).is_some());
        // Who is told to have been seen was so whatever is picked; but not before a certain operation.
        if told && until == NONE {
            return Some((writer, reader, By::Outside));
        }
        let read = read?;
        Some((writer, reader, By::Read(read)))
    }

    /// A path of session order and reads that hangs on few picks.
    fn path(&self, from: u32, to: u32) -> Vec<Sight> {
        let analysis = self.problem.analysis;
        let mut cost: FxHashMap<u32, u32> = FxHashMap::from_iter([(to, 0)]);
        let mut step: FxHashMap<u32, (u32, By)> = FxHashMap::default();
        let mut queue = VecDeque::from([(to, 0)]);
        while let Some((txn, so_far)) = queue.pop_front() {
            if cost[&txn] < so_far {
                continue;
            }
            if txn == from {
                break;
            }
            let reads = analysis.history.ops_of(txn).filter_map(|row| {
                let version = self.by_op.read_of[row];
                let writer = if version == NONE { INITIAL } else { analysis.attribution.writer(version) };
                (writer != INITIAL).then_some((writer, By::Read(row as u32)))
            });
            let before = Some((self.previous[txn as usize], By::Session)).filter(|&(txn, _)| txn != NONE);
            let told = analysis.told_sources.get(&txn).map_or(&[][..], |all| all);
            let told = told.iter().filter(|&&source| self.there[source as usize]).map(|&source| (source, By::Outside));
            for (earlier, op) in before.into_iter().chain(told).chain(reads) {
                let open = matches!(op, By::Read(op) if self.pick(op).is_some());
                let price = so_far + u32::from(open);
                if cost.get(&earlier).is_none_or(|&known| price < known) {
                    cost.insert(earlier, price);
                    step.insert(earlier, (txn, op));
                    if open {
                        queue.push_back((earlier, price));
                    } else {
                        queue.push_front((earlier, price));
                    }
                }
            }
        }
        let mut sights: Vec<Sight> = Vec::new();
        let mut at = from;
        while let Some(&(next, op)) = step.get(&at).filter(|_| at != to) {
            match sights.last_mut() {
                Some((_, end, By::Session)) if op == By::Session => *end = next,
                _ => sights.push((at, next, op)),
            }
            at = next;
        }
        sights
    }
}
