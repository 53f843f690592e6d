//! What can be asked of a history, and the answer with its proof.

use isolde_history::OpKind;

use crate::evidence::faults::Fault;
use crate::linearizable::zones::Conflict;
use crate::order::acyclic::{Explanation, Rule};
use crate::order::reasons::{Evidence, Relation};
use crate::weak::saturation::Visibility;

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
        /// Whether anti-dependencies of predicates count: at repeatable read they do not.
        predicates: bool,
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

impl Question {
    /// Which cycles are forbidden, where an order of all transactions is asked for.
    pub fn rule(self) -> Rule {
        match self {
            Question::Acyclic { rule, .. } => rule,
            Question::Prefix => Rule::Prefix,
            Question::Weak(_) | Question::Overwrites | Question::Linearizable => Rule::Serializable,
        }
    }

    /// Whether real time must be kept.
    pub fn real_time(self) -> bool {
        matches!(self, Question::Acyclic { real_time: true, .. })
    }

    /// The same without real time.
    pub fn untimed(self) -> Question {
        match self {
            Question::Acyclic { rule, predicates, .. } => Question::Acyclic { rule, real_time: false, predicates },
            other => other,
        }
    }
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
    /// The choices that are open would take more memory than a search may use.
    Memory {
        /// Pairs of writes whose order is open.
        pairs: u64,
        /// Reads with several possible writers that were found before it was too much.
        reads: u64,
    },
    /// An order was found, but not the one that was told from outside of this transaction; another may be.
    Told(u32),
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
