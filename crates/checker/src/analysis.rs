//! The door: read the evidence once, decide any number of levels by it.

use std::borrow::Cow;
use std::sync::Arc;

use isolde_history::{History, NO_KEY, OpKind};
use rustc_hash::FxHashMap;

use crate::decision::{CycleEdge, Decision, Method, Open, Options, Question, REPORTED_MAX, Violation};
use crate::evidence::attribution::{Attribution, INITIAL, NONE, attribute};
use crate::evidence::dependencies::{Dependencies, Edge, Graph, Teller, collect};
use crate::evidence::outcome::{Role, roles};
use crate::evidence::outside::Outside;
use crate::evidence::realtime::{timeline, without_times};
use crate::linearizable::zones;
use crate::order::acyclic::{Explanation, Rule, Space};
use crate::order::components::components;
use crate::order::reasons::{Basis, Evidence, Relation, between};
use crate::order::shortest::{CycleStep, Finder, Step};
use crate::parallel::WORTH_A_THREAD;
use crate::weak::saturation::Visibility;

/// Everything that was found out about a history before any level is asked about.
pub struct Analysis {
    pub(crate) history: Arc<History>,
    pub(crate) options: Options,
    /// What was told besides the history.
    pub outside: Outside,
    /// By transaction: those that evidence from outside says it saw, by reads or because they came before it.
    pub(crate) told_sources: FxHashMap<u32, Vec<u32>>,
    /// Who wrote what was read.
    pub attribution: Attribution,
    /// Which transactions count.
    pub roles: Vec<Role>,
    /// The known order.
    pub dependencies: Dependencies,
    unsupported: Option<OpKind>,
    /// Whether every transaction that counts has its times.
    pub timed: bool,
}

impl Analysis {
    /// Reads the evidence.
    pub fn new(history: Arc<History>, outside: Outside, options: Options) -> Self {
        let worth = history.ops.kind.len() / WORTH_A_THREAD + 1;
        let options = Options { threads: options.threads.clamp(1, worth), ..options };
        let attribution = attribute(&history, options.judge_aborted, options.threads);
        let roles = roles(&history, &outside, &attribution, options.judge_aborted);
        let dependencies = collect(&history, &outside, &attribution, &roles, options.session_order, options.threads);
        let told_sources = outside.sources();
        let unsupported = unsupported_kind(&history);
        let timed = without_times(&history, &roles).is_none();
        Analysis { history, options, outside, told_sources, attribution, roles, dependencies, unsupported, timed }
    }

    /// Decides one question, and says how. With `all`, every anomaly is reported that has a component of its own.
    pub fn decide(&self, question: Question, all: bool) -> (Decision, Method) {
        let mut method = match question {
            Question::Linearizable => Method::Zones,
            Question::Weak(_) => Method::Saturation,
            Question::Overwrites | Question::Prefix | Question::Acyclic { .. } => Method::DependencyGraph,
        };
        if let Some(kind) = self.unsupported.filter(|_| !self.outside.complete) {
            return (Decision::Undecided(Open::Operations(kind)), method);
        }
        if question == Question::Linearizable
            && let Some(txn) = zones::not_single_key(&self.history)
        {
            return (Decision::Undecided(Open::SeveralKeys(txn)), method);
        }
        let mut violations = self.faults(question, all);
        // Lists that share elements tell nothing more once one of them is wrong.
        if !violations.is_empty() && (!all || self.attribution.shared) {
            return (Decision::Violated(violations), Method::Attribution);
        }
        // The core does not try who appended an element that several transactions did.
        if let Some(open) = self.shared_elements(question) {
            return (Decision::Undecided(open), method);
        }
        if question != Question::Overwrites {
            let known = &self.dependencies;
            violations.extend(self.misplaced(&known.before_initial, &known.told_twice));
        }
        let no_times = if question.real_time() { without_times(&self.history, &self.roles) } else { None };
        let mut decision = Decision::Satisfied(None);
        if violations.is_empty() || all {
            decision = match question {
                Question::Overwrites => self.overwrites(all, &mut method),
                Question::Weak(visibility) => self.weak_or_search(visibility, all, &mut method),
                Question::Prefix => match self.weak(Visibility::CausalPast, all) {
                    Ok(_) => self.prefix(&mut method),
                    Err(found) => Decision::Violated(found),
                },
                Question::Linearizable => match self.told_outcome() {
                    Some(txn) => Decision::Undecided(Open::Told(txn)),
                    None => {
                        let decision = self.linearizable(std::mem::take(&mut violations), all, &mut method);
                        self.kept_by_linearization(decision)
                    }
                },
                // Without all times the plain level can still be violated, and then the strict one is too.
                Question::Acyclic { .. } if no_times.is_some() => self.acyclic(question.untimed(), all, &mut method),
                Question::Acyclic { .. } => self.acyclic(question, all, &mut method),
            };
        }
        if let Decision::Violated(found) = decision {
            violations.extend(found);
            decision = Decision::Satisfied(None);
        }
        if !violations.is_empty() {
            violations.truncate(REPORTED_MAX);
            return (Decision::Violated(violations), method);
        }
        let decision = no_times.map_or(decision, |txn| Decision::Undecided(Open::NoTimes(txn)));
        (decision, method)
    }

    /// Whether something is left that only a search can decide.
    fn has_choices(&self) -> bool {
        self.dependencies.counts.open_keys > 0 || self.dependencies.told_ambiguously || self.has_open_reads()
    }

    /// Whether a read that counts has several possible writers.
    pub(crate) fn has_open_reads(&self) -> bool {
        let mut open = self.attribution.ambiguous.iter().chain(&self.attribution.blind_failures);
        open.any(|&op| self.counts(self.txn_of(op)))
    }

    /// What is known for certain at a level, with what was told from outside.
    pub(crate) fn known<'a>(&'a self, question: Question, graph: Cow<'a, Graph>) -> Cow<'a, Graph> {
        if self.outside.has_no_edges() {
            return graph;
        }
        Cow::Owned(graph.with(self.outside.edges(question, |txn| self.counts(txn))))
    }

    /// The same, of the order that serializable and snapshot isolation know.
    pub(crate) fn known_order(&self, question: Question) -> Cow<'_, Graph> {
        self.known(question, Cow::Borrowed(&self.dependencies.graph))
    }

    fn acyclic(&self, question: Question, all: bool, method: &mut Method) -> Decision {
        let graph = self.known_order(question);
        match self.cycles(&graph, question, all) {
            Err(found) => Decision::Violated(found),
            Ok(_) if self.has_choices() => {
                *method = Method::Search;
                self.search(&graph, question)
            }
            Ok(explanation) => Decision::Satisfied(Some(explanation)),
        }
    }

    fn prefix(&self, method: &mut Method) -> Decision {
        // Snapshot isolation is prefix and more, and mostly holds when prefix does.
        if !self.has_choices()
            && let Ok(explanation) = self.cycles(&self.known_order(SNAPSHOT), SNAPSHOT, false)
        {
            return Decision::Satisfied(Some(explanation));
        }
        *method = Method::Search;
        let graph = self.known(Question::Prefix, Cow::Owned(self.prefix_graph()));
        match self.cycles(&graph, Question::Prefix, false) {
            // Only what was told can contradict itself before anything is chosen.
            Err(found) => Decision::Violated(found),
            Ok(_) => self.search(&graph, Question::Prefix),
        }
    }

    /// Versions told to be older than the initial one, or to follow themselves.
    pub(crate) fn misplaced(&self, before_initial: &[u32], told_twice: &[u32]) -> Vec<Violation> {
        let about =
            |version: u32| (self.attribution.key_of(version), self.attribution.writer(version), self.op_of(version));
        let early = before_initial.iter().map(|&version| {
            let (key, writer, op) = about(version);
            Violation::BeforeInitial { key, writer, op }
        });
        let twice = told_twice.iter().map(|&version| {
            let (key, writer, op) = about(version);
            Violation::ToldTwice { key, writer, op }
        });
        early.chain(twice).collect()
    }

    fn faults(&self, question: Question, all: bool) -> Vec<Violation> {
        self.attribution
            .faults
            .iter()
            .chain(&self.dependencies.list_faults)
            .filter(|fault| self.roles[fault.reader as usize] != Role::Absent)
            .filter(|fault| fault.kind.counts_at(question))
            .map(|&fault| Violation::Fault(fault))
            .take(if all { REPORTED_MAX } else { 1 })
            .collect()
    }

    /// Elements of lists that were read and that several transactions appended.
    fn shared_elements(&self, question: Question) -> Option<Open> {
        if !self.history.has_lists() || matches!(question, Question::Overwrites | Question::Linearizable) {
            return None;
        }
        let mut counted = self.attribution.ambiguous.iter().filter(|&&op| self.counts(self.txn_of(op)));
        let first = counted.next().copied();
        first.map(|op| Open::AmbiguousRead(op, 1 + counted.count() as u64))
    }

    pub(crate) fn counts(&self, txn: u32) -> bool {
        self.roles[txn as usize] != Role::Absent
    }

    /// The transaction of an operation.
    pub fn txn_of(&self, op: u32) -> u32 {
        self.history.txns.ops_end.partition_point(|&end| end <= op) as u32
    }

    pub(crate) fn lost_updates(&self, all: bool) -> Vec<Violation> {
        let divergences = &self.dependencies.divergences;
        let wanted = if all { REPORTED_MAX } else { 1 };
        divergences
            .iter()
            .take(wanted)
            .map(|&(_, first, second)| {
                let (a, b) = (self.attribution.writer(first), self.attribution.writer(second));
                Violation::LostUpdate { edges: self.explain(&[rw(a, b), rw(b, a)]) }
            })
            .collect()
    }

    /// An order without forbidden cycles of what is known, or the cycles.
    fn cycles(&self, graph: &Graph, question: Question, all: bool) -> Result<Explanation, Vec<Violation>> {
        let (rule, real_time) = (question.rule(), question.real_time());
        let times = real_time.then(|| timeline(&self.history, &self.roles));
        let mut violations = Vec::new();
        if rule == Rule::Snapshot {
            violations = self.lost_updates(all);
            if !violations.is_empty() && !all {
                return Err(violations);
            }
        }
        let whole = Space { graph, rule, timeline: times.as_ref() };
        let left = match whole.order() {
            Ok(order) if violations.is_empty() => {
                return Ok(whole.explanation(&order, |txn| self.roles[txn as usize] != Role::Absent));
            }
            Ok(_) => return Err(violations),
            Err(left) => left,
        };
        let plain = Space { graph, rule, timeline: None };
        let plain_left = if real_time { plain.order().err() } else { Some(left.clone()) };
        let mut explained = vec![false; graph.len()];
        if let Some(plain_left) = plain_left {
            let cycles = self.shortest_cycles(&plain, &plain_left, all, &mut explained);
            violations.extend(cycles.iter().map(|cycle| Violation::Cycle(self.explain(cycle))));
        }
        if real_time && (all || violations.is_empty()) {
            let cycles = self.shortest_cycles(&whole, &left, all, &mut explained);
            violations.extend(cycles.iter().map(|cycle| Violation::Cycle(self.explain(cycle))));
        }
        assert!(!violations.is_empty(), "what cannot be ordered has a cycle");
        Err(violations)
    }

    /// A shortest cycle for each component that has none explained yet, or the shortest of all.
    pub(crate) fn shortest_cycles(
        &self,
        space: &Space<'_>,
        left: &[bool],
        all: bool,
        explained: &mut [bool],
    ) -> Vec<Vec<CycleStep>> {
        let mut finder = Finder::new(space, &self.dependencies, &self.history);
        let mut cycles: Vec<Vec<CycleStep>> = Vec::new();
        for members in components(space.len(), left, |node, visit| space.successors(node, visit)) {
            let seen = members.iter().any(|&m| explained.get(m as usize).copied().unwrap_or(false));
            if seen || cycles.len() >= REPORTED_MAX {
                continue;
            }
            let best = if all { None } else { cycles.last().map(Vec::len) };
            if best == Some(2) {
                break;
            }
            let length_max = best.map_or(usize::MAX >> 33, |length| length - 1);
            let Some(cycle) = finder.cycle(&members, length_max) else { continue };
            if !all {
                cycles.clear();
            }
            cycles.push(cycle);
            for &member in &members {
                if let Some(mark) = explained.get_mut(member as usize) {
                    *mark = all;
                }
            }
        }
        cycles
    }

    pub(crate) fn explain(&self, cycle: &[CycleStep]) -> Vec<CycleEdge> {
        cycle
            .iter()
            .map(|&(from, to, step)| {
                let mut reasons = self.reasons(from, to);
                if !self.options.session_order {
                    reasons.retain(|reason| reason.relation != Relation::So || reason.basis == Basis::Outside);
                }
                let taken = match step {
                    Step::RealTime => Relation::Rt,
                    Step::Known(kind) => taken(kind, &reasons),
                };
                if taken != Relation::Rt {
                    reasons.retain(|reason| reason.relation != Relation::Rt);
                }
                CycleEdge { from, to, taken, reasons, assumed: false }
            })
            .collect()
    }

    /// Every reason why one transaction comes before another.
    pub(crate) fn reasons(&self, from: u32, to: u32) -> Vec<Evidence> {
        between(&self.history, &self.outside, &self.attribution, &self.dependencies, from, to)
    }

    /// The operation that installed a version, or [`NONE`].
    pub(crate) fn op_of(&self, version: u32) -> u32 {
        self.attribution.place_of(version).map_or(NONE, |place| self.attribution.op[place as usize])
    }

    /// An edge from outside.
    pub(crate) fn outside_edge(&self, from: u32, to: u32, kind: Edge, assumed: bool) -> CycleEdge {
        let mut edge = self.explain(&[(from, to, Step::Known(kind))]).remove(0);
        edge.reasons.retain(|reason| reason.basis == Basis::Outside);
        CycleEdge { taken: taken(kind, &edge.reasons), assumed, ..edge }
    }

    /// An edge that a `versions` line brings if it means these versions.
    pub(crate) fn told_edge(&self, from: u32, to: u32, first: u32, second: u32, assumed: bool) -> CycleEdge {
        let (from_op, to_op) = (self.op_of(first), self.op_of(second));
        let key = self.attribution.key_of(first);
        let basis = match self.dependencies.told_only.get(&(first, second)) {
            _ if self.history.has_lists() => Basis::Seen,
            Some(Teller::Outside) => Basis::Installed,
            Some(Teller::Line) | None => Basis::Told,
        };
        let reason = Evidence::known(Relation::Ww, key, (from_op, to_op, NONE), basis);
        CycleEdge { from, to, taken: Relation::Ww, reasons: vec![reason], assumed }
    }

    /// The transactions that these read from, ascending.
    pub fn sources(&self, txns: &[u32]) -> Vec<u32> {
        let mut sources = Vec::new();
        for &txn in txns {
            for row in self.history.ops_of(txn).filter(|&row| self.history.ops.key[row] != NO_KEY) {
                let place = self.attribution.place(self.history.ops.key[row], row as u32) as usize;
                let version = self.attribution.read_of[place];
                if version != NONE && self.attribution.writer(version) != INITIAL {
                    sources.push(self.attribution.writer(version));
                }
            }
        }
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// How many transactions count.
    pub fn counted(&self) -> usize {
        self.roles.iter().filter(|&&role| role != Role::Absent).count()
    }
}

/// Snapshot isolation, without real time.
pub(crate) const SNAPSHOT: Question = Question::Acyclic { rule: Rule::Snapshot, real_time: false, predicates: true };

/// As what an edge of a kind is taken that has these reasons.
fn taken(kind: Edge, reasons: &[Evidence]) -> Relation {
    let wanted: &[Relation] = match kind {
        Edge::Session => &[Relation::So],
        Edge::ToldSession => &[Relation::So, Relation::Wr],
        Edge::ToldTime => &[Relation::Rt],
        Edge::AntiDependency => &[Relation::Rw],
        Edge::PredicateAntiDependency => &[Relation::PredicateRw],
        Edge::PredicateRead => &[Relation::PredicateWr],
        Edge::Read | Edge::Overwrite => &[Relation::Wr, Relation::Ww, Relation::PredicateWr],
    };
    let mut given = wanted.iter().copied().filter(|&relation| reasons.iter().any(|r| r.relation == relation));
    let fallback = if matches!(kind, Edge::Read | Edge::Overwrite) { Relation::Ww } else { wanted[0] };
    given.next().unwrap_or(fallback)
}

pub(crate) fn rw(from: u32, to: u32) -> CycleStep {
    (from, to, Step::Known(Edge::AntiDependency))
}

/// The first kind of operation that is not on a single key.
fn unsupported_kind(history: &History) -> Option<OpKind> {
    history.ops.kind.iter().find(|kind| matches!(kind, OpKind::Scan | OpKind::Sql)).copied()
}
