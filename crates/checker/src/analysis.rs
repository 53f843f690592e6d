//! The door: read the evidence once, decide any number of levels by it.

use std::sync::Arc;

use isolde_history::{History, NO_KEY, OpKind};

use crate::acyclic::{Explanation, Rule, Space};
use crate::attribution::{Attribution, Fault, INITIAL, NONE, ReadFault, attribute};
use crate::components::components;
use crate::dependencies::{Dependencies, Edge, collect};
use crate::evidence::{Evidence, Relation, between};
use crate::linear::{self, Conflict};
use crate::outcome::{Role, roles};
use crate::parallel::WORTH_A_THREAD;
use crate::realtime::{timeline, without_times};
use crate::saturation::Visibility;
use crate::shortest::{CycleStep, Finder, Step};

/// How many anomalies are reported at most when all are asked for.
pub(crate) const REPORTED_MAX: usize = 1_000;

/// What the caller may choose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether the order inside a session must be kept.
    pub session_order: bool,
    /// Whether what aborted transactions read is judged.
    pub judge_aborted: bool,
    /// How many threads to use.
    pub threads: usize,
    /// How many steps a search may take for one question.
    pub budget: u64,
}

/// The levels that this crate decides, by the rule they follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// No forbidden cycle.
    Acyclic {
        /// Which cycles are forbidden.
        rule: Rule,
        /// Whether real time must be kept.
        real_time: bool,
    },
    /// No cycle of session order, reads and what follows from them.
    Weak(Visibility),
    /// Some order of which every transaction saw a prefix.
    Prefix,
    /// No cycle of overwrites, whatever was read.
    Overwrites,
    /// One order a key that keeps real time.
    Linearizable,
}

/// An edge of a reported cycle, with every reason for it.
#[derive(Clone, Debug)]
pub struct CycleEdge {
    /// The transaction that comes first.
    pub from: u32,
    /// The one after it.
    pub to: u32,
    /// How the search took it.
    pub taken: Relation,
    /// Why.
    pub reasons: Vec<Evidence>,
    /// Whether it follows from what is assumed, not from what was seen.
    pub assumed: bool,
}

/// What one of several cases assumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assumption {
    /// One write of a key came before another.
    Before {
        /// The operation that came first.
        first_op: u32,
        /// The one after it.
        second_op: u32,
    },
    /// A read saw what this operation wrote.
    Source {
        /// The read.
        read_op: u32,
        /// The write, or [`NONE`] for the initial value.
        written_op: u32,
    },
    /// An entry of a `versions` line means what this operation wrote.
    Meant {
        /// The line, by its place in the history.
        line: u32,
        /// The place of the entry in it.
        at: u32,
        /// The write, or [`NONE`] for the initial value.
        written_op: u32,
    },
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it assumes.
    pub assumption: Assumption,
    /// Why that cannot be.
    pub proof: Proof,
}

/// Why no order explains a history.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A forbidden cycle.
    Cycle(Vec<CycleEdge>),
    /// Whatever is the case, it cannot be.
    Cases(Vec<Case>),
}

/// Something that the level forbids.
#[derive(Clone, Debug)]
pub enum Violation {
    /// A read that nothing explains.
    Fault(Fault),
    /// A forbidden cycle.
    Cycle(Vec<CycleEdge>),
    /// Whatever the order of the writes that is open, there is a forbidden cycle.
    NoOrder {
        /// The cases, unless there are too many to lay open.
        proof: Option<Proof>,
        /// How many choices it is about.
        choices: u64,
        /// Without a proof, the transactions that the choices are about.
        txns: Vec<u32>,
    },
    /// Two transactions read the same version and both overwrote it.
    LostUpdate {
        /// The two, with the reasons for `rw` both ways.
        edges: Vec<CycleEdge>,
    },
    /// A key has no order that keeps real time.
    NotLinearizable(Conflict),
    /// The database is said to have installed this version before the initial one of its key.
    BeforeInitial {
        /// The key.
        key: u32,
        /// Who installed the version.
        writer: u32,
        /// The operation that did.
        op: u32,
    },
    /// The database is said to have installed this version twice.
    ToldTwice {
        /// The key.
        key: u32,
        /// Who installed the version, or [`INITIAL`].
        writer: u32,
        /// The operation that did, or [`NONE`].
        op: u32,
    },
}

/// Why the question could not be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Open {
    /// The history has operations of this kind, which no rule here covers.
    Operations(OpKind),
    /// This transaction has no start or no end.
    NoTimes(u32),
    /// This transaction touches more than one key.
    SeveralKeys(u32),
    /// This read has several possible writers; so many reads do.
    AmbiguousRead(u32, u64),
    /// The search ran out of its budget with so much still open.
    Choices {
        /// Pairs of writes whose order is open.
        pairs: u64,
        /// Reads with several possible writers, and told values with several meanings.
        reads: u64,
    },
    /// On the key of this operation, so many operations could not be ordered within so many steps.
    Budget(u32, u64, u64),
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It holds; an order that explains it, where one order does.
    Satisfied(Option<Explanation>),
    /// It does not.
    Violated(Vec<Violation>),
    /// Not decided, for the first of these reasons.
    Undecided(Open),
}

/// How an answer was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// A read that nothing explains was enough.
    Attribution,
    /// What is known of the order was enough.
    DependencyGraph,
    /// All consequences of the axiom.
    Saturation,
    /// Zones of real time, a key at a time.
    Zones,
    /// What is known was not enough, so choices were tried.
    Search,
}

/// Everything that was found out about a history before any level is asked about.
pub struct Analysis {
    pub(crate) history: Arc<History>,
    pub(crate) options: Options,
    /// Who wrote what was read.
    pub attribution: Attribution,
    /// Which transactions count.
    pub roles: Vec<Role>,
    /// The known order.
    pub dependencies: Dependencies,
    unsupported: Option<OpKind>,
    /// Whether every transaction that counts has its times.
    pub(crate) timed: bool,
}

impl Analysis {
    /// Reads the evidence.
    pub fn new(history: Arc<History>, options: Options) -> Self {
        let worth = history.ops.kind.len() / WORTH_A_THREAD + 1;
        let options = Options { threads: options.threads.clamp(1, worth), ..options };
        let attribution = attribute(&history, options.judge_aborted, options.threads);
        let roles = roles(&history, &attribution, options.judge_aborted);
        let dependencies = collect(&history, &attribution, &roles, options.session_order, options.threads);
        let unsupported = unsupported_kind(&history);
        let timed = without_times(&history, &roles).is_none();
        Analysis { history, options, attribution, roles, dependencies, unsupported, timed }
    }

    /// Decides one question, and says how. With `all`, every anomaly is reported that has a component of its own.
    pub fn decide(&self, question: Question, all: bool) -> (Decision, Method) {
        let mut method = match question {
            Question::Linearizable => Method::Zones,
            Question::Weak(_) => Method::Saturation,
            Question::Overwrites | Question::Prefix | Question::Acyclic { .. } => Method::DependencyGraph,
        };
        if let Some(kind) = self.unsupported {
            return (Decision::Undecided(Open::Operations(kind)), method);
        }
        if question == Question::Linearizable
            && let Some(txn) = linear::not_single_key(&self.history)
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
        let needs_times = matches!(question, Question::Acyclic { real_time: true, .. });
        let no_times = if needs_times { without_times(&self.history, &self.roles) } else { None };
        let mut decision = Decision::Satisfied(None);
        if violations.is_empty() || all {
            decision = match question {
                Question::Overwrites => self.overwrites(all, &mut method),
                Question::Weak(visibility) => self.weak_or_search(visibility, all, &mut method),
                Question::Prefix => match self.weak(Visibility::CausalPast, all) {
                    Ok(_) => self.prefix(&mut method),
                    Err(found) => Decision::Violated(found),
                },
                Question::Linearizable => self.linearizable(std::mem::take(&mut violations), all, &mut method),
                // Without all times the plain level can still be violated, and then the strict one is too.
                Question::Acyclic { rule, real_time } => {
                    self.acyclic(rule, real_time && no_times.is_none(), all, &mut method)
                }
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

    fn acyclic(&self, rule: Rule, real_time: bool, all: bool, method: &mut Method) -> Decision {
        match self.cycles(rule, real_time, all) {
            Err(found) => Decision::Violated(found),
            Ok(_) if self.has_choices() => {
                *method = Method::Search;
                self.search(&self.dependencies.graph, rule, real_time)
            }
            Ok(explanation) => Decision::Satisfied(Some(explanation)),
        }
    }

    fn prefix(&self, method: &mut Method) -> Decision {
        // Snapshot isolation is prefix and more, and mostly holds when prefix does.
        if !self.has_choices()
            && let Ok(explanation) = self.cycles(Rule::Snapshot, false, false)
        {
            return Decision::Satisfied(Some(explanation));
        }
        *method = Method::Search;
        self.search(&self.prefix_graph(), Rule::Prefix, false)
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
        if question == Question::Overwrites {
            return Vec::new();
        }
        let repeatable = !matches!(question, Question::Weak(Visibility::Nothing | Visibility::EarlierRead));
        self.attribution
            .faults
            .iter()
            .chain(&self.dependencies.list_faults)
            .filter(|fault| self.roles[fault.reader as usize] != Role::Absent)
            .filter(|fault| repeatable || fault.kind != ReadFault::NonRepeatable)
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

    fn counts(&self, txn: u32) -> bool {
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
    fn cycles(&self, rule: Rule, real_time: bool, all: bool) -> Result<Explanation, Vec<Violation>> {
        let graph = &self.dependencies.graph;
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
                let mut reasons = between(&self.history, &self.attribution, &self.dependencies, from, to);
                if !self.options.session_order {
                    reasons.retain(|reason| reason.relation != Relation::So);
                }
                let taken = match step {
                    Step::RealTime => Relation::Rt,
                    Step::Known(Edge::Session) => Relation::So,
                    Step::Known(Edge::AntiDependency) => Relation::Rw,
                    Step::Known(Edge::Dependency | Edge::Overwrite) => {
                        let read = reasons.iter().any(|reason| reason.relation == Relation::Wr);
                        if read { Relation::Wr } else { Relation::Ww }
                    }
                };
                if taken != Relation::Rt {
                    reasons.retain(|reason| reason.relation != Relation::Rt);
                }
                CycleEdge { from, to, taken, reasons, assumed: false }
            })
            .collect()
    }

    /// The operation that installed a version, or [`NONE`].
    pub(crate) fn op_of(&self, version: u32) -> u32 {
        self.attribution.place_of(version).map_or(NONE, |place| self.attribution.op[place as usize])
    }

    /// An edge that a `versions` line brings if it means these versions.
    pub(crate) fn told_edge(&self, from: u32, to: u32, first: u32, second: u32, assumed: bool) -> CycleEdge {
        let (from_op, to_op) = (self.op_of(first), self.op_of(second));
        let key = self.attribution.key_of(first);
        let reason = Evidence { relation: Relation::Ww, key, from_op, to_op, seen_op: NONE };
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

pub(crate) fn rw(from: u32, to: u32) -> CycleStep {
    (from, to, Step::Known(Edge::AntiDependency))
}

/// The first kind of operation that is not on a single key.
fn unsupported_kind(history: &History) -> Option<OpKind> {
    history.ops.kind.iter().find(|kind| matches!(kind, OpKind::Scan | OpKind::Sql)).copied()
}
