//! The operations of Jepsen and Elle as transactions.
//!
//! An operation is an invocation and, later, a completion by the same process: `ok` is committed, `fail` aborted, `info` (or
//! no completion at all) unknown. What was asked is known from the invocation, what was answered only from `ok`. Files of
//! completions alone are taken as well; they have no times.

use rustc_hash::{FxHashMap, FxHashSet};

use super::node::{Node, Piece};
use super::{check_size, fault};
use crate::error::{Malformed, Result};
use crate::history::{Cas, History, NO_TIME, Op, Space, Status};
use crate::reading::FailedCas;
use crate::value::Value;

type Step<T> = std::result::Result<T, Malformed>;

/// The key of a workload on one register, which has no name of its own.
pub(super) const REGISTER: &str = "register";

/// The key of a lock, and what it holds.
const LOCK: &str = "lock";
const FREE: &str = "free";
const HELD: &str = "held";

const CALL: &str = "[:append key element], [:w key value], [:insert key value], [:delete key] or [:r key value]";
const KEY: &str = "an integer, a string, a keyword or a vector";
const SCALAR: &str = "nil, a boolean, a number, a string or a keyword";
const REGISTER_VALUE: &str = "a value, or [key value] where there are several registers";
const CAS_VALUE: &str = "[from to], or [key [from to]] where there are several registers";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Invoke,
    Ok,
    Fail,
    Info,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Txn,
    Read,
    Write,
    Cas,
    /// What the keys of a predicate workload hold at first.
    Init,
    /// Of a lock.
    Acquire,
    Release,
    /// Of a store whose operations name their key beside the value.
    Get,
    Put,
}

/// One request; a read has a value only where the answer is known.
#[derive(Clone, Copy)]
enum Call {
    Read(Value, Option<Value>),
    Write(Value, Value),
    Append(Value, Value),
    Cas(Value, Value, Value),
}

struct Event<'n, 'a> {
    kind: Type,
    function: Function,
    value: Option<&'n Node<'a>>,
    key: Option<&'n Node<'a>>,
    has_error: bool,
    line: u64,
}

/// When something happened: by the clock, by its number, by its place in the file.
#[derive(Clone, Copy)]
struct Stamp {
    time: i64,
    index: i64,
    place: i64,
}

const NO_STAMP: Stamp = Stamp { time: NO_TIME, index: NO_TIME, place: NO_TIME };

/// How a transaction ended.
struct Outcome {
    status: Status,
    applied: bool,
    calls: Vec<Call>,
}

struct Pending {
    calls: Vec<Call>,
    stamp: Stamp,
    line: u64,
    order: usize,
}

/// Whether the stamps of the file can serve as a clock.
struct Clock {
    /// All are there; the rest is about those that are.
    complete: bool,
    ascending: bool,
    strictly: bool,
    moves: bool,
    last: Option<i64>,
}

impl Clock {
    fn new() -> Self {
        Clock { complete: true, ascending: true, strictly: true, moves: false, last: None }
    }

    fn tick(&mut self, stamp: i64) {
        if stamp == NO_TIME {
            self.complete = false;
            return;
        }
        if let Some(last) = self.last {
            self.ascending &= last <= stamp;
            self.strictly &= last < stamp;
            self.moves |= last < stamp;
        }
        self.last = Some(stamp);
    }
}

/// Turns operations into a history, one after the other.
pub(super) struct Recorder {
    history: History,
    pending: FxHashMap<Value, Pending>,
    /// How many operations of unknown outcome each process has left behind.
    lost: FxHashMap<Value, u32>,
    stamps: Vec<(Stamp, Stamp)>,
    time: Clock,
    index: Clock,
    /// Whether register operations name their key, once one was seen.
    keyed: Option<bool>,
    /// The keys that operations name beside their values.
    named: FxHashSet<Value>,
    events: usize,
    failed_cas: FailedCas,
}

impl Recorder {
    pub(super) fn new(failed_cas: FailedCas) -> Self {
        Recorder {
            history: History::default(),
            pending: FxHashMap::default(),
            lost: FxHashMap::default(),
            stamps: Vec::new(),
            time: Clock::new(),
            index: Clock::new(),
            keyed: None,
            named: FxHashSet::default(),
            events: 0,
            failed_cas,
        }
    }

    /// Takes the next operation of the file.
    pub(super) fn operation(&mut self, node: &Node, line: u64) -> Step<()> {
        self.take(node, line).map_err(|wrong| Malformed { transactions_before: self.history.len() as u64, ..wrong })
    }

    fn take(&mut self, node: &Node, line: u64) -> Step<()> {
        if node.entries().is_none() {
            return Err(fault(line, "", node.snippet(), "an operation: a map with :type, :process and :value"));
        }
        const PROCESS: &str = "an integer, or the name of a process that is no client";
        // The nemesis and its like do nothing to the data.
        if node.get("process").is_some_and(|process| process.word().is_some()) {
            return Ok(());
        }
        let event = Event {
            kind: kind_of(node.get("type"), line)?,
            function: function_of(node.get("f"), line)?,
            value: node.get("value").filter(|value| !value.is_nil()),
            key: node.get("key"),
            has_error: node.get("error").is_some_and(|error| !error.is_nil()),
            line,
        };
        self.events += 1;
        let process = match node.get("process") {
            Some(number) => {
                let name = number.integer().and_then(|_| number.name(&mut self.history.atoms));
                name.ok_or_else(|| fault(line, "process", number.snippet(), PROCESS))?
            }
            // Nothing says whose it is, so that it follows and precedes nobody: a session of its own.
            None if event.kind != Type::Invoke => self.history.atoms.text(&format!("operation {}", self.events)),
            None => {
                let found = "an invocation without :process, whose completion cannot be told";
                return Err(fault(line, "", found, PROCESS));
            }
        };
        if event.function == Function::Init {
            return self.initial(&event);
        }
        let (time, index) = (stamp_of(node, "time", line)?, stamp_of(node, "index", line)?);
        let stamp = Stamp { time, index, place: self.events as i64 };
        self.time.tick(stamp.time);
        self.index.tick(stamp.index);
        if event.kind == Type::Invoke {
            let calls = self.calls(&event)?;
            let pending = Pending { calls, stamp, line, order: self.events };
            return match self.pending.insert(process, pending) {
                None => Ok(()),
                Some(earlier) => Err(fault(
                    line,
                    "process",
                    self.history.json(process),
                    format!("a process that waits for nothing (it has since line {})", earlier.line),
                )),
            };
        }
        let invoked = self.pending.remove(&process);
        let begin = invoked.as_ref().map_or(NO_STAMP, |invoked| invoked.stamp);
        let outcome = self.completed(&event, invoked.map(|invoked| invoked.calls))?;
        self.push(process, &outcome, (begin, stamp), line)
    }

    /// What a completion says about the transaction, given what was asked for.
    fn completed(&mut self, event: &Event, invoked: Option<Vec<Call>>) -> Step<Outcome> {
        let status = match event.kind {
            Type::Ok => Status::Committed,
            Type::Fail => Status::Aborted,
            Type::Info | Type::Invoke => Status::Unknown,
        };
        let is_ok = status == Status::Committed;
        let tells = match event.function {
            // Of a transaction that failed, an answer of another shape is the reason (:timeout).
            Function::Txn => is_ok || event.value.is_some_and(|value| value.seq().is_some()),
            Function::Read | Function::Get => is_ok,
            Function::Write | Function::Cas | Function::Put => event.value.is_some() && (is_ok || invoked.is_none()),
            Function::Acquire | Function::Release => invoked.is_none(),
            Function::Init => false,
        };
        let calls = match invoked {
            Some(calls) if !tells => calls,
            None if !tells && !is_ok => Vec::new(),
            _ => self.calls(event)?,
        };
        // To Jepsen an operation that failed did not take place. Where it means that the register held another value, an error
        // still says that it was never tried.
        let compared = self.failed_cas == FailedCas::Compared && !event.has_error;
        if event.function == Function::Cas && event.kind == Type::Fail && compared {
            return Ok(Outcome { status: Status::Committed, applied: false, calls });
        }
        Ok(Outcome { status, applied: true, calls })
    }

    fn push(&mut self, process: Value, outcome: &Outcome, stamps: (Stamp, Stamp), line: u64) -> Step<()> {
        let history = &mut self.history;
        let (status, applied) = (outcome.status, outcome.applied);
        for &call in &outcome.calls {
            let number = |history: &mut History, key| history.keys.number(key);
            let op = match call {
                Call::Read(_, None) if status != Status::Committed => continue,
                Call::Read(key, value) => Op::Read(number(history, key), value.unwrap_or(Value::NULL)),
                Call::Write(key, value) => Op::Write(number(history, key), value),
                Call::Append(key, element) => Op::Append(number(history, key), element),
                Call::Cas(key, expected, new) => {
                    Op::Cas(number(history, key), Cas { expected, new, current: Value::MISSING, applied })
                }
            };
            history.push_op(op);
        }
        // An operation that was given up may still take effect, so nothing that its process does later follows it.
        let lost = self.lost.get(&process).copied().unwrap_or(0);
        let session = match lost {
            0 => process,
            _ => {
                let name = format!("{}/{}", history.json(process), lost + 1);
                history.atoms.text(&name)
            }
        };
        if status == Status::Unknown {
            self.lost.insert(process, lost + 1);
        }
        let session = history.sessions.number(session);
        check_size(history)?;
        history.push_txn(Value::MISSING, session, status, NO_TIME, NO_TIME, line);
        self.stamps.push(stamps);
        Ok(())
    }

    /// The history, once the file has ended.
    pub(super) fn finish(mut self) -> Result<History> {
        let mut open: Vec<(Value, Pending)> = std::mem::take(&mut self.pending).into_iter().collect();
        open.sort_unstable_by_key(|(_, pending)| pending.order);
        for (process, invoked) in open {
            let outcome = Outcome { status: Status::Unknown, applied: true, calls: invoked.calls };
            self.push(process, &outcome, (invoked.stamp, NO_STAMP), invoked.line)?;
        }
        self.set_times();
        self.set_ids();
        let mut history = self.history;
        // Where keys hold lists, a key without one holds the empty list.
        if history.spaces.iter().any(|(space, _, _)| *space == Space::Lists) {
            let empty = history.lists.start();
            history.map_reads(|_, _, value| if value == Value::NULL { empty } else { value });
        }
        Ok(history)
    }

    fn set_times(&mut self) {
        // Ties are kept, as the client's clock had them; a clock that stands still says nothing.
        let by_time = self.time.complete && self.time.ascending && self.time.moves;
        let by_index = self.index.complete && self.index.strictly;
        // A history is a sequence, so that without a clock the places of its operations are their order; unless what there is
        // of a clock says that the file was put into another order.
        let by_place = self.time.ascending && self.index.ascending;
        let of = |stamp: &Stamp| match (by_time, by_index, by_place) {
            (true, _, _) => stamp.time,
            (_, true, _) => stamp.index,
            (_, _, true) => stamp.place,
            _ => NO_TIME,
        };
        for (txn, (begin, end)) in self.stamps.iter().enumerate() {
            // Without an invocation nothing is known of the beginning, and the end alone would be half a story.
            if of(begin) != NO_TIME {
                self.history.txns.start[txn] = of(begin);
                self.history.txns.end[txn] = of(end);
            }
        }
    }

    /// Names transactions by the index of their invocation (or only event), if that names all of them.
    fn set_ids(&mut self) {
        let index = |(begin, end): &(Stamp, Stamp)| if begin.index == NO_TIME { end.index } else { begin.index };
        let mut seen = FxHashSet::default();
        if self.stamps.iter().all(|stamps| index(stamps) != NO_TIME && seen.insert(index(stamps))) {
            for (txn, stamps) in self.stamps.iter().enumerate() {
                self.history.txns.id[txn] = self.history.atoms.integer(index(stamps));
            }
        }
    }

    fn calls(&mut self, event: &Event) -> Step<Vec<Call>> {
        // What an invocation says about answers is not known yet, whatever it says.
        let answered = event.kind != Type::Invoke;
        match event.function {
            Function::Txn => self.transaction(event, answered),
            Function::Read => {
                if let (true, Some(node)) = (answered, event.value) {
                    refuse_whole_answer(node, event.line)?;
                }
                let (key, value) = self.register(event, REGISTER_VALUE)?;
                let value = match value {
                    Some(node) if answered => Some(self.scalar(node, event.line, "value")?),
                    _ => None,
                };
                Ok(vec![Call::Read(key, value)])
            }
            Function::Write => {
                let (key, value) = self.register(event, REGISTER_VALUE)?;
                let value = value.map_or(Ok(Value::NULL), |node| self.scalar(node, event.line, "value"))?;
                Ok(vec![Call::Write(key, value)])
            }
            Function::Get => {
                let key = self.named_key(event)?;
                let value = match event.value {
                    Some(node) if answered => Some(self.scalar(node, event.line, "value")?),
                    _ => None,
                };
                Ok(vec![Call::Read(key, value)])
            }
            Function::Put => {
                let key = self.named_key(event)?;
                let value = event.value.map_or(Ok(Value::NULL), |node| self.scalar(node, event.line, "value"))?;
                Ok(vec![Call::Write(key, value)])
            }
            Function::Acquire | Function::Release => {
                self.history.note_space(Space::Registers, event.line, || "f".into());
                let atoms = &mut self.history.atoms;
                let (lock, free, held) = (atoms.text(LOCK), atoms.text(FREE), atoms.text(HELD));
                if self.history.header.initial.is_empty() {
                    self.history.header.initial.push((lock, free));
                }
                let (from, to) = if event.function == Function::Acquire { (free, held) } else { (held, free) };
                Ok(vec![Call::Cas(lock, from, to)])
            }
            Function::Init => Ok(Vec::new()),
            Function::Cas => {
                let (key, pair) = self.register(event, CAS_VALUE)?;
                match pair.and_then(Node::seq) {
                    Some([from, to]) => {
                        let from = self.scalar(from, event.line, "value")?;
                        Ok(vec![Call::Cas(key, from, self.scalar(to, event.line, "value")?)])
                    }
                    _ => Err(fault(event.line, "value", found(event.value), CAS_VALUE)),
                }
            }
        }
    }

    /// The key of an operation that names it beside its value. Such stores hold texts, at first empty ones.
    fn named_key(&mut self, event: &Event) -> Step<Value> {
        let key = event.key.and_then(|key| key.name(&mut self.history.atoms));
        let key = key.ok_or_else(|| fault(event.line, "key", found(event.key), KEY))?;
        self.history.note_space(Space::Registers, event.line, || "value".into());
        if self.named.insert(key) {
            let empty = self.history.atoms.text("");
            self.history.header.initial.push((key, empty));
        }
        Ok(key)
    }

    /// What the keys hold before anything else: the map of `:f :init`.
    fn initial(&mut self, event: &Event) -> Step<()> {
        const MAP: &str = "a map of keys and their first values";
        if event.kind != Type::Ok {
            return Ok(());
        }
        let entries = event.value.and_then(Node::entries);
        for (key, value) in entries.ok_or_else(|| fault(event.line, "value", found(event.value), MAP))? {
            let name = key.name(&mut self.history.atoms);
            let name = name.ok_or_else(|| fault(event.line, "value", key.snippet(), KEY))?;
            let value = self.scalar(value, event.line, "value")?;
            self.history.note_space(Space::Registers, event.line, || "value".into());
            self.history.header.initial.push((name, value));
        }
        Ok(())
    }

    /// The key of a register operation and what is said about it.
    ///
    /// A value is never a vector and neither is either side of a compare-and-set, so that a vector around a value, or
    /// around a pair, can only name the key.
    fn register<'n, 'a>(&mut self, event: &Event<'n, 'a>, expected: &str) -> Step<(Value, Option<&'n Node<'a>>)> {
        let parts = event.value.and_then(Node::seq);
        let keyed = match (event.function, parts) {
            (Function::Cas, Some([_, pair])) => pair.seq().is_some(),
            (Function::Cas, _) => return Err(fault(event.line, "value", found(event.value), expected)),
            (_, Some([_, _])) => true,
            (_, Some(_)) => return Err(fault(event.line, "value", found(event.value), expected)),
            (_, None) => false,
        };
        if self.keyed.replace(keyed).is_some_and(|before| before != keyed) {
            let form = if keyed { "without a key" } else { "with a key" };
            return Err(fault(
                event.line,
                "value",
                found(event.value),
                format!("a value {form}, as earlier in this file"),
            ));
        }
        self.history.note_space(Space::Registers, event.line, || "value".into());
        match parts {
            Some([key, value]) if keyed => {
                let name = key.name(&mut self.history.atoms);
                let name = name.ok_or_else(|| fault(event.line, "value[0]", key.snippet(), KEY))?;
                Ok((name, Some(value)))
            }
            _ => Ok((self.history.atoms.text(REGISTER), event.value)),
        }
    }

    fn transaction(&mut self, event: &Event, answered: bool) -> Step<Vec<Call>> {
        let Some(items) = event.value.and_then(Node::seq) else {
            return Err(fault(event.line, "value", found(event.value), format!("a vector of {CALL}")));
        };
        let mut calls = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let place = |part: &str| format!("value[{at}]{part}");
            let wrong = || fault(event.line, &place(""), item.snippet(), CALL);
            let (name, key, value) = match item.seq() {
                Some([name, key, value]) => (name.word().ok_or_else(wrong)?, key, Some(value)),
                // A read that shows no value showed nil; a delete has none.
                Some([name, key]) if matches!(name.word(), Some("r" | "delete")) => {
                    (name.word().ok_or_else(wrong)?, key, None)
                }
                _ => return Err(wrong()),
            };
            if name == "rp" {
                let found = format!("the predicate read {}", item.snippet());
                let expected = "reads of single keys: of what a predicate did not match, registers say nothing (record the \
                                statements as SQL, and audit them or check them with a certificate)";
                return Err(fault(event.line, &place(""), found, expected));
            }
            let key_name = key.name(&mut self.history.atoms);
            let key = key_name.ok_or_else(|| fault(event.line, &place("[1]"), key.snippet(), KEY))?;
            let (call, space) = match name {
                "r" => {
                    let value = match value {
                        Some(value) if answered => self.answer(value, event.line, &place("[2]"))?,
                        _ => None,
                    };
                    let space = match value {
                        Some(value) if value.is_list() => Some(Space::Lists),
                        Some(_) => Some(Space::Registers),
                        None => None,
                    };
                    (Call::Read(key, value), space)
                }
                "delete" => (Call::Write(key, Value::NULL), Some(Space::Registers)),
                "append" | "w" | "insert" => {
                    let value = self.scalar(value.ok_or_else(wrong)?, event.line, &place("[2]"))?;
                    match name {
                        "append" => (Call::Append(key, value), Some(Space::Lists)),
                        _ => (Call::Write(key, value), Some(Space::Registers)),
                    }
                }
                _ => return Err(wrong()),
            };
            if let Some(space) = space {
                self.history.note_space(space, event.line, || place(""));
            }
            calls.push(call);
        }
        Ok(calls)
    }

    /// What a read returned: a list or a single value; nothing where that is nil.
    fn answer(&mut self, node: &Node, line: u64, field: &str) -> Step<Option<Value>> {
        let Piece::Seq(items) = &node.kind else {
            return Ok(Some(self.scalar(node, line, field)?).filter(|value| *value != Value::NULL));
        };
        let list = self.history.lists.start();
        for (at, item) in items.iter().enumerate() {
            let element = match item.scalar(&mut self.history.atoms) {
                Some(element) => element,
                None => return Err(fault(line, &format!("{field}[{at}]"), item.snippet(), SCALAR)),
            };
            self.history.lists.push(element);
        }
        Ok(Some(list))
    }

    fn scalar(&mut self, node: &Node, line: u64, field: &str) -> Step<Value> {
        node.scalar(&mut self.history.atoms).ok_or_else(|| fault(line, field, node.snippet(), SCALAR))
    }
}

fn found(value: Option<&Node>) -> String {
    value.map_or_else(|| "nil".into(), Node::snippet)
}

fn kind_of(node: Option<&Node>, line: u64) -> Step<Type> {
    match node.and_then(Node::word) {
        Some("invoke") => Ok(Type::Invoke),
        Some("ok") => Ok(Type::Ok),
        Some("fail") => Ok(Type::Fail),
        Some("info") => Ok(Type::Info),
        _ => Err(fault(line, "type", found(node), ":invoke, :ok, :fail or :info")),
    }
}

/// Refuses what a read of a whole bank or of a whole set gave: it is no value of a key.
fn refuse_whole_answer(node: &Node, line: u64) -> Step<()> {
    let name = match (node.entries(), node.raw.starts_with("#{")) {
        (Some(_), _) => "transfer",
        (None, true) => "add",
        (None, false) => return Ok(()),
    };
    let what = other_workload(name).unwrap_or_default();
    Err(fault(line, "value", format!("{}, of {what}", node.snippet()), SCALAR))
}

/// What a workload is that has operations of this name, and what can be done; nothing if it is none of these.
fn other_workload(name: &str) -> Option<&'static str> {
    OTHER_WORKLOADS.iter().find(|(names, _)| names.contains(&name)).map(|(_, what)| *what)
}

/// Workloads of Jepsen whose operations are no reads and writes of keys: what each is, and what can be done.
const OTHER_WORKLOADS: [(&[&str], &str); 4] = [
    (
        &["transfer"],
        "a bank history, whose transfers tell no values; run 'isolde run --workload bank', or record each transfer as a \
         transaction of [:r account balance] and [:w account balance]",
    ),
    (
        &["add", "increment", "inc", "decrement", "dec"],
        "a set or counter history, whose additions are no writes of a key; record elements of a set as [:append key \
         element], and the increments of a counter as [:r key value] and [:w key value]",
    ),
    (&["enqueue", "dequeue", "drain"], "a queue history; Isolde has no model of queues"),
    (&["append"], "an appending to a text; record it as [:append key element] in a transaction, which reads as a list"),
];

fn function_of(node: Option<&Node>, line: u64) -> Step<Function> {
    let Some(node) = node.filter(|node| !node.is_nil()) else { return Ok(Function::Txn) };
    let word = node.word().unwrap_or_default();
    Ok(match word {
        "txn" => Function::Txn,
        "read" => Function::Read,
        "write" => Function::Write,
        "cas" => Function::Cas,
        "init" => Function::Init,
        "acquire" => Function::Acquire,
        "release" => Function::Release,
        "get" => Function::Get,
        "put" => Function::Put,
        _ => {
            const KNOWN: &str = ":txn, :read, :write, :cas, :get, :put, :acquire or :release";
            let found =
                other_workload(word).map_or_else(|| node.snippet(), |what| format!("{}, of {what}", node.snippet()));
            return Err(fault(line, "f", found, KNOWN));
        }
    })
}

fn stamp_of(node: &Node, name: &str, line: u64) -> Step<i64> {
    match node.get(name) {
        None => Ok(NO_TIME),
        Some(stamp) if stamp.is_nil() => Ok(NO_TIME),
        Some(stamp) => stamp
            .integer()
            .filter(|&stamp| stamp != NO_TIME)
            .ok_or_else(|| fault(line, name, stamp.snippet(), "an integer between -2^63 and 2^63 (exclusive)")),
    }
}
