//! Decisions, as tuples.

use std::sync::Arc;

use isolde_checker::analysis as core;
use isolde_checker::decision::{Assumption, CycleEdge, Decision, Method, Open, Options, Proof, Question, Violation};
use isolde_checker::evidence::attribution::{INITIAL, NONE};
use isolde_checker::evidence::faults::ReadFault;
use isolde_checker::evidence::outside::{Outside, Unusable as Cannot};
use isolde_checker::linearizable::zones::Conflict;
use isolde_checker::order::acyclic::{Explanation, Rule};
use isolde_checker::order::claim::Misfit;
use isolde_checker::order::reasons::{Basis, Relation};
use isolde_checker::weak::saturation::Visibility;
use isolde_history::OpKind;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::history::{History, Orders};
use crate::{Unusable, enter};

/// Versions of a key, oldest first: the transaction and the place of the operation that wrote each, or the initial one.
type ToldOrder = Vec<Option<(u32, usize)>>;

/// The evidence about one history, ready for questions.
#[pyclass(frozen, module = "isolde._core._native")]
pub struct Analysis {
    history: Arc<isolde_history::History>,
    inner: Arc<core::Analysis>,
}

#[pymethods]
impl Analysis {
    /// `edges` are columns: the transactions that come first, those that come after, and the places of the relations in
    /// `relation_names`. `orders` are versions by the transactions and the places of the operations that wrote them. Without
    /// `serial`, the history's own is taken. `plain` are orders that the core has read itself.
    #[new]
    #[pyo3(signature = (history, session_order, judge_aborted, threads, budget, edges=None, orders=None, serial=None, complete=false, plain=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        history: &History,
        session_order: bool,
        judge_aborted: bool,
        threads: usize,
        budget: u64,
        edges: Option<(Vec<u32>, Vec<u32>, Vec<u8>)>,
        orders: Option<Vec<ToldOrder>>,
        serial: Option<Vec<u32>>,
        complete: bool,
        plain: Option<&Orders>,
    ) -> PyResult<Self> {
        let history = history.inner.clone();
        let options = Options { session_order, judge_aborted, threads, budget };
        let (from, to, kinds) = edges.unwrap_or_default();
        let relations: PyResult<Vec<Relation>> = kinds.into_iter().map(relation_at).collect();
        let relations = relations?;
        let orders = orders.unwrap_or_default();
        let op = |place: &Option<(u32, usize)>| place.map_or(NONE, |place| operation_at(&history, place));
        let chains = match plain {
            Some(plain) => plain.chains.to_vec(),
            None => orders.iter().map(|order| order.iter().map(op).collect()).collect(),
        };
        let owned = history.clone();
        let inner = enter(py, move |_| {
            let serial = serial.unwrap_or_else(|| owned.serial_order());
            let outside = Outside::new(&owned, from, to, relations, chains, serial);
            Ok(outside.map(|outside| core::Analysis::new(owned, outside.completed(complete), options)))
        })?;
        let inner = inner.map_err(|unusable| Unusable::new_err(unusable_at(&unusable)))?;
        Ok(Analysis { history, inner: Arc::new(inner) })
    }

    /// Whether the order that was told is a serialization order: ("replayed", parts), or ("violated", what does not fit).
    fn claim<'py>(&self, py: Python<'py>, question: &str) -> PyResult<Bound<'py, PyTuple>> {
        let question = question_named(question)?;
        let inner = self.inner.clone();
        match enter(py, move |_| Ok(inner.claim(question)))? {
            Ok(found) => ("replayed", (found.commits, found.snapshots, found.effects)).into_pyobject(py),
            Err(Misfit::Answer { op, writer }) => {
                let writer = (writer != INITIAL).then_some(writer);
                ("answer", self.place(op), writer).into_pyobject(py)
            }
            Err(Misfit::Reversed { first, second, relation, outside }) => {
                let outside = (outside != NONE).then_some(outside);
                ("reversed", first, second, relation_name(relation), outside).into_pyobject(py)
            }
        }
    }

    /// A committed transaction without a place in the order that was told.
    fn without_place(&self) -> Option<u32> {
        self.inner.without_place()
    }

    /// The transactions that have an operation on one of these keys, given as JSON text.
    fn touching(&self, keys: Vec<String>) -> Vec<u32> {
        let all = 0..self.history.keys.len() as u32;
        let wanted = all.filter(|&key| keys.contains(&self.history.json(self.history.keys.name(key))));
        let attribution = &self.inner.attribution;
        let mut txns: Vec<u32> =
            wanted.flat_map(|key| attribution.places(key)).map(|place| attribution.txn[place]).collect();
        txns.sort_unstable();
        txns.dedup();
        txns
    }

    /// Decides one question; see `isolde._core` for the shape of the answer.
    fn decide<'py>(&self, py: Python<'py>, question: &str, all: bool) -> PyResult<Bound<'py, PyTuple>> {
        let question = question_named(question)?;
        let inner = self.inner.clone();
        let (decision, method) = enter(py, move |_| Ok(inner.decide(question, all)))?;
        let method = method_name(method);
        match decision {
            Decision::Satisfied(explanation) => {
                let parts = explanation.map(|e| (e.commits, e.snapshots, e.effects));
                ("satisfied", method, parts).into_pyobject(py)
            }
            Decision::Violated(violations) => {
                let all: PyResult<Vec<_>> = violations.iter().map(|v| self.violation(py, v)).collect();
                ("violated", method, PyList::new(py, all?)?).into_pyobject(py)
            }
            Decision::Undecided(open) => {
                let (reason, place, count) = self.open(open);
                ("undecided", method, reason, place, count).into_pyobject(py)
            }
        }
    }

    /// Whether running the transactions in this order gives every operation its answer; for a weak level, whether
    /// everything that was read was there.
    fn replays(
        &self,
        py: Python<'_>,
        question: &str,
        commits: Vec<u32>,
        snapshots: Vec<u32>,
        effects: Vec<u32>,
    ) -> PyResult<bool> {
        let inner = self.inner.clone();
        let explanation = Explanation { commits, snapshots, effects };
        match question_named(question)? {
            asked @ (Question::Acyclic { .. } | Question::Prefix) => {
                enter(py, move |_| Ok(inner.replays(asked, &explanation)))
            }
            asked @ Question::Weak(_) => enter(py, move |_| Ok(inner.accounts_for(asked, &explanation))),
            Question::Overwrites | Question::Linearizable => {
                Err(PyValueError::new_err(format!("{question:?} is not explained by running an order")))
            }
        }
    }

    /// Whether every transaction that counts has its times.
    fn timed(&self) -> bool {
        self.inner.timed
    }

    /// The transactions that these read from.
    fn sources(&self, transactions: Vec<u32>) -> Vec<u32> {
        self.inner.sources(&transactions)
    }

    /// How many edges from outside count, by relation as in `relation_names`.
    fn outside_counts(&self) -> Vec<usize> {
        let outside = &self.inner.outside;
        RELATIONS.iter().map(|&kind| outside.relation.iter().filter(|&&other| other == kind).count()).collect()
    }

    /// Known edges (so, wr, ww, rw), those that were only told (ww, rw), open keys, open pairs, counted transactions.
    fn counts(&self) -> (u64, u64, u64, u64, u64, u64, u64, u64, usize) {
        let c = self.inner.dependencies.counts;
        (c.so, c.wr, c.ww, c.rw, c.told_ww, c.told_rw, c.open_keys, c.open_pairs, self.inner.counted())
    }
}

impl Analysis {
    /// An operation as its transaction and its place there.
    fn place(&self, op: u32) -> Option<(u32, usize)> {
        (op != NONE).then(|| {
            let txn = self.inner.txn_of(op);
            (txn, op as usize - self.history.ops_of(txn).start)
        })
    }

    fn open(&self, open: Open) -> (&'static str, Option<(u32, usize)>, (u64, u64)) {
        match open {
            Open::Operations(kind) => (operation_name(kind), None, (0, 0)),
            Open::NoTimes(txn) => ("no-times", Some((txn, 0)), (0, 0)),
            Open::SeveralKeys(txn) => ("several-keys", Some((txn, 0)), (0, 0)),
            Open::AmbiguousRead(op, count) => ("ambiguous-read", self.place(op), (count, 0)),
            Open::Choices { pairs, reads } => ("choices", None, (pairs, reads)),
            Open::Memory { pairs, reads } => ("memory", None, (pairs, reads)),
            Open::Told(txn) => ("told", Some((txn, 0)), (0, 0)),
            Open::Budget(op, operations, steps) => ("budget", self.place(op), (operations, steps)),
        }
    }

    fn violation<'py>(&self, py: Python<'py>, violation: &Violation) -> PyResult<Bound<'py, PyTuple>> {
        match violation {
            Violation::Fault(fault) => {
                let other = (fault.other != INITIAL).then_some(fault.other);
                let (reads, seen) = (self.place(fault.read_op), self.place(fault.other_op));
                ("read", fault_name(fault.kind), reads, other, seen).into_pyobject(py)
            }
            Violation::Cycle(edges) => ("cycle", self.edges(py, edges)?).into_pyobject(py),
            Violation::NoOrder { proof, choices, txns } => {
                let proof = proof.as_ref().map(|proof| self.proof(py, proof)).transpose()?;
                ("no-order", proof, *choices, txns.clone()).into_pyobject(py)
            }
            Violation::LostUpdate { edges } => ("lost-update", self.edges(py, edges)?).into_pyobject(py),
            Violation::NotLinearizable(Conflict::Loop { .. }) => unreachable!("the analysis reports a loop as a cycle"),
            Violation::BeforeInitial { key, writer, op } => {
                ("before-initial", self.key(*key), *writer, self.place(*op)).into_pyobject(py)
            }
            Violation::ToldTwice { key, writer, op } => {
                let writer = (*writer != INITIAL).then_some(*writer);
                ("told-twice", self.key(*key), writer, self.place(*op)).into_pyobject(py)
            }
            Violation::NotLinearizable(Conflict::Search { key, order, stuck, maybe }) => {
                ("search", self.key(*key), order.clone(), stuck.clone(), maybe.clone()).into_pyobject(py)
            }
            Violation::NotLinearizable(Conflict::Order { key, earlier, later, between }) => {
                ("order", self.key(*key), *earlier, *later, between.clone()).into_pyobject(py)
            }
            Violation::NotLinearizable(Conflict::Blocks {
                key,
                first_end,
                first_start,
                second_end,
                second_start,
                between,
            }) => {
                let early = (*first_end != INITIAL).then_some(*first_end);
                ("blocks", self.key(*key), early, *first_start, *second_end, *second_start, between.clone())
                    .into_pyobject(py)
            }
        }
    }

    fn proof<'py>(&self, py: Python<'py>, proof: &Proof) -> PyResult<Bound<'py, PyTuple>> {
        let cases = match proof {
            Proof::Cycle(edges) => return ("cycle", self.edges(py, edges)?).into_pyobject(py),
            Proof::Cases(cases) => cases,
        };
        let all: PyResult<Vec<_>> = cases
            .iter()
            .map(|case| {
                let (kind, first, second) = match case.assumption {
                    Assumption::Before { first_op, second_op } => ("before", self.place(first_op), second_op),
                    Assumption::Source { read_op, written_op } => ("source", self.place(read_op), written_op),
                    Assumption::Meant { line, at, written_op } => ("meant", Some((line, at as usize)), written_op),
                };
                Ok((kind, first, self.place(second), self.proof(py, &case.proof)?))
            })
            .collect();
        ("cases", PyList::new(py, all?)?).into_pyobject(py)
    }

    fn key(&self, key: u32) -> Option<String> {
        (key != NONE).then(|| self.history.json(self.history.keys.name(key)))
    }

    fn edges<'py>(&self, py: Python<'py>, edges: &[CycleEdge]) -> PyResult<Bound<'py, PyList>> {
        let all: Vec<_> = edges
            .iter()
            .map(|edge| {
                let reasons: Vec<_> = edge
                    .reasons
                    .iter()
                    .map(|r| {
                        let ops = (self.place(r.from_op), self.place(r.to_op), self.place(r.seen_op));
                        let outside = (r.outside != NONE).then_some(r.outside);
                        (relation_name(r.relation), self.key(r.key), ops.0, ops.1, ops.2, basis_name(r.basis), outside)
                    })
                    .collect();
                (edge.from, edge.to, relation_name(edge.taken), reasons, edge.assumed)
            })
            .collect();
        PyList::new(py, all)
    }
}

fn question_named(name: &str) -> PyResult<Question> {
    let named = QUESTIONS.iter().find(|(known, _)| *known == name);
    named.map(|&(_, question)| question).ok_or_else(|| PyValueError::new_err(format!("no question {name:?}")))
}

/// The names of the questions that can be asked.
#[pyfunction]
pub fn question_names() -> Vec<&'static str> {
    QUESTIONS.iter().map(|&(name, _)| name).collect()
}

/// The names of the relations, each at the place that stands for it in a column.
#[pyfunction]
pub fn relation_names() -> Vec<&'static str> {
    RELATIONS.iter().map(|&relation| relation_name(relation)).collect()
}

const fn acyclic(rule: Rule, real_time: bool, predicates: bool) -> Question {
    Question::Acyclic { rule, real_time, predicates }
}

const QUESTIONS: [(&str, Question); 12] = [
    ("overwrites", Question::Overwrites),
    ("information-flow", Question::Weak(Visibility::Nothing)),
    ("read-committed", Question::Weak(Visibility::EarlierRead)),
    ("read-atomic", Question::Weak(Visibility::DirectlyBefore)),
    ("causal", Question::Weak(Visibility::CausalPast)),
    ("prefix", Question::Prefix),
    ("repeatable-read", acyclic(Rule::Serializable, false, false)),
    ("snapshot", acyclic(Rule::Snapshot, false, true)),
    ("serializable", acyclic(Rule::Serializable, false, true)),
    ("strict-snapshot", acyclic(Rule::Snapshot, true, true)),
    ("strict-serializable", acyclic(Rule::Serializable, true, true)),
    ("linearizable", Question::Linearizable),
];

const RELATIONS: [Relation; 7] = [
    Relation::So,
    Relation::Rt,
    Relation::Wr,
    Relation::Ww,
    Relation::Rw,
    Relation::PredicateWr,
    Relation::PredicateRw,
];

fn relation_at(place: u8) -> PyResult<Relation> {
    let relation = RELATIONS.get(place as usize).copied();
    relation.ok_or_else(|| PyValueError::new_err(format!("no relation has the place {place}")))
}

/// The operation at a place of a transaction; where there is none, one that no history has.
fn operation_at(history: &isolde_history::History, (txn, place): (u32, usize)) -> u32 {
    if txn as usize >= history.len() {
        return NONE - 1;
    }
    let row = history.ops_of(txn).start + place;
    if history.ops_of(txn).contains(&row) { row as u32 } else { NONE - 1 }
}

/// The part of the evidence that cannot be used: its name, the place there, the place in that.
fn unusable_at(unusable: &Cannot) -> (&'static str, usize, usize) {
    match *unusable {
        Cannot::Columns => ("columns", 0, 0),
        Cannot::Edge(at) => ("edge", at, 0),
        Cannot::Version(order, at) => ("version", order, at),
        Cannot::Serial(at) => ("serial", at, 0),
    }
}

fn method_name(method: Method) -> &'static str {
    match method {
        Method::Attribution => "attribution",
        Method::DependencyGraph => "dependency-graph",
        Method::Saturation => "saturation",
        Method::Zones => "zones",
        Method::Search => "search",
    }
}

fn operation_name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Read | OpKind::Write | OpKind::Cas => "register-operations",
        OpKind::Append => "list-operations",
        OpKind::Scan => "scan-operations",
        OpKind::Sql => "sql-operations",
    }
}

fn fault_name(kind: ReadFault) -> &'static str {
    match kind {
        ReadFault::ThinAir => "thin-air-read",
        ReadFault::Aborted => "aborted-read",
        ReadFault::Intermediate => "intermediate-read",
        ReadFault::Future => "future-read",
        ReadFault::NotMyLastWrite => "not-my-last-write",
        ReadFault::NotMyOwnWrite => "not-my-own-write",
        ReadFault::NonRepeatable => "non-repeatable-read",
        ReadFault::DuplicateElement => "duplicate-element",
        ReadFault::LostElement => "lost-element",
        ReadFault::IncompatibleOrder => "incompatible-order",
    }
}

fn basis_name(basis: Basis) -> &'static str {
    match basis {
        Basis::Seen => "seen",
        Basis::Told => "told",
        Basis::Installed => "installed",
        Basis::Outside => "outside",
        Basis::Inferred => "inferred",
    }
}

fn relation_name(relation: Relation) -> &'static str {
    match relation {
        Relation::So => "so",
        Relation::Rt => "rt",
        Relation::Wr => "wr",
        Relation::Ww => "ww",
        Relation::Rw => "rw",
        Relation::PredicateWr => "predicate-wr",
        Relation::PredicateRw => "predicate-rw",
    }
}
