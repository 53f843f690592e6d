//! The history in columns: one row a transaction, one row an operation.

use std::sync::OnceLock;

use crate::error::{Malformed, Result};
use crate::names::Names;
use crate::value::{Atoms, Value};

/// The key of an operation that has none (scans, SQL).
pub const NO_KEY: u32 = u32::MAX;
/// A `start`, `end` that was not given. The readers refuse this very number.
pub const NO_TIME: i64 = i64::MIN;

/// What the client learned about a transaction's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// It took effect.
    Committed,
    /// It did not.
    Aborted,
    /// The client never learned.
    Unknown,
}

/// What an operation is; the meaning of its value column follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OpKind {
    /// The value is what came back.
    Read,
    /// The value is what was written; `null` deletes.
    Write,
    /// The value is the element appended.
    Append,
    /// The value column is an index into [`History::cas`].
    Cas,
    /// The value column is an index into [`History::details`].
    Scan,
    /// The value column is an index into [`History::details`].
    Sql,
}

/// A compare-and-set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cas {
    /// What the key had to hold; `null` is insert-if-not-exists.
    pub expected: Value,
    /// What it was to hold then.
    pub new: Value,
    /// What it held instead, where a failed one said so; else [`Value::MISSING`].
    pub current: Value,
    /// Whether it took place.
    pub applied: bool,
}

/// One operation, looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// A read and what came back.
    Read(u32, Value),
    /// A write of the whole value.
    Write(u32, Value),
    /// An element appended to a list.
    Append(u32, Value),
    /// A compare-and-set.
    Cas(u32, Cas),
    /// A predicate read, by its place in the details.
    Scan(u32),
    /// A statement, by its place in the details.
    Sql(u32),
}

/// The lists that reads returned, end to end.
#[derive(Default, Debug)]
pub struct Lists {
    first: Vec<usize>,
    elements: Vec<Value>,
}

impl Lists {
    /// The elements of one list.
    pub fn get(&self, index: u32) -> &[Value] {
        let index = index as usize;
        let end = self.first.get(index + 1).copied().unwrap_or(self.elements.len());
        &self.elements[self.first[index]..end]
    }

    /// Starts a list; its elements are pushed until the next one starts.
    pub fn start(&mut self) -> Value {
        self.first.push(self.elements.len());
        Value::list(self.first.len() as u32 - 1)
    }

    /// Adds an element to the list started last.
    pub fn push(&mut self, element: Value) {
        self.elements.push(element);
    }
}

/// The columns that every transaction has.
#[derive(Default, Debug)]
pub struct Txns {
    /// The name; [`Value::MISSING`] until [`History::finish`] replaces it by the position.
    pub id: Vec<Value>,
    /// The session's number.
    pub session: Vec<u32>,
    /// The outcome.
    pub status: Vec<Status>,
    /// Before the first request left the client, or [`NO_TIME`].
    pub start: Vec<i64>,
    /// After the last answer arrived, or [`NO_TIME`].
    pub end: Vec<i64>,
    /// Where the operations end; they start where the transaction before ended.
    pub ops_end: Vec<u32>,
    /// The 1-based line it was read from, or 0.
    pub line: Vec<u32>,
}

/// The columns that every operation has.
#[derive(Default, Debug)]
pub struct Ops {
    /// What it is.
    pub kind: Vec<OpKind>,
    /// The key's number, or [`NO_KEY`].
    pub key: Vec<u32>,
    /// A [`Value`] or an index, as [`OpKind`] says.
    value: Vec<u64>,
}

/// What few transactions have.
#[derive(Clone, Default, Debug)]
pub struct Extra {
    /// The place in the database's own serialization order.
    pub serial: Option<Value>,
    /// What the database says it read from, as JSON text.
    pub snapshot: Option<Box<str>>,
    /// Unknown fields, as the inside of a JSON object: `"a":1,"b":2`.
    pub fields: Box<str>,
}

/// The first line of the file.
#[derive(Default, Debug)]
pub struct Header {
    /// Initial values, as listed.
    pub initial: Vec<(Value, Value)>,
    /// Free-form JSON text.
    pub meta: Option<Box<str>>,
    /// Unknown fields, as in [`Extra::fields`].
    pub fields: Box<str>,
    /// The 1-based line it was read from, or 0.
    pub(crate) line: u64,
    /// Whether `initial` was a JSON object, where integer keys can only be spelled as strings.
    pub(crate) spelled: bool,
}

/// Which of the three key spaces operations live in; a history uses one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// `r`, `w`, `cas` of single values.
    Registers,
    /// `a`, and `r` of arrays.
    Lists,
    /// SQL statements.
    Sql,
}

/// A whole history.
#[derive(Default, Debug)]
pub struct History {
    /// Interned texts.
    pub atoms: Atoms,
    /// The keys' names.
    pub keys: Names,
    /// The sessions' names.
    pub sessions: Names,
    /// The header.
    pub header: Header,
    /// The transactions.
    pub txns: Txns,
    /// The operations.
    pub ops: Ops,
    /// The lists that were read.
    pub lists: Lists,
    /// The compare-and-sets.
    pub cas: Vec<Cas>,
    /// Scans and statements as JSON text.
    pub details: Vec<Box<str>>,
    /// What few transactions have, by transaction, ascending.
    pub extras: Vec<(u32, Extra)>,
    /// Version chains that the database told, oldest first.
    pub versions: Vec<(u32, Vec<Value>)>,
    /// The first operation of each key space seen: the space, its line and its field.
    pub(crate) spaces: Vec<(Space, u64, String)>,
    /// What each key holds at first, by its number, once that was asked.
    initial_by_key: OnceLock<Vec<Value>>,
}

impl History {
    /// How many transactions.
    pub fn len(&self) -> usize {
        self.txns.id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.txns.id.is_empty()
    }

    /// Whether the keys hold lists. [`History::finish`] refuses lists among the initial values of other keys, so that one list
    /// anywhere tells the kind of all.
    pub fn has_lists(&self) -> bool {
        !self.lists.first.is_empty() || self.ops.kind.contains(&OpKind::Append)
    }

    /// What a key holds before the first transaction. Asked only once the history is complete.
    pub fn initial_value(&self, key: u32) -> Value {
        self.initial_values()[key as usize]
    }

    /// What each key holds before the first transaction, by its number.
    pub(crate) fn initial_values(&self) -> &[Value] {
        self.initial_by_key.get_or_init(|| {
            let mut values = vec![Value::NULL; self.keys.len()];
            for &(name, value) in &self.header.initial {
                if let Some(key) = self.keys.find(name) {
                    values[key as usize] = value;
                }
            }
            values
        })
    }

    /// The operations of a transaction, as a range of rows.
    #[inline]
    pub fn ops_of(&self, txn: u32) -> std::ops::Range<usize> {
        let first = if txn == 0 { 0 } else { self.txns.ops_end[txn as usize - 1] };
        first as usize..self.txns.ops_end[txn as usize] as usize
    }

    /// One operation.
    #[inline]
    pub fn op(&self, row: usize) -> Op {
        let (key, raw) = (self.ops.key[row], self.ops.value[row]);
        match self.ops.kind[row] {
            OpKind::Read => Op::Read(key, value_of(raw)),
            OpKind::Write => Op::Write(key, value_of(raw)),
            OpKind::Append => Op::Append(key, value_of(raw)),
            OpKind::Cas => Op::Cas(key, self.cas[raw as usize]),
            OpKind::Scan => Op::Scan(raw as u32),
            OpKind::Sql => Op::Sql(raw as u32),
        }
    }

    /// The elements of a list that was read or is initial; any other value, such as absent, has none.
    pub fn list(&self, value: Value) -> &[Value] {
        if value.is_list() { self.lists.get(value.index() as u32) } else { &[] }
    }

    /// Adds an operation to the transaction that [`History::push_txn`] will close.
    #[inline]
    pub fn push_op(&mut self, op: Op) {
        let (kind, key, raw) = match op {
            Op::Read(key, value) => (OpKind::Read, key, value.bits()),
            Op::Write(key, value) => (OpKind::Write, key, value.bits()),
            Op::Append(key, element) => (OpKind::Append, key, element.bits()),
            Op::Cas(key, cas) => {
                self.cas.push(cas);
                (OpKind::Cas, key, self.cas.len() as u64 - 1)
            }
            Op::Scan(detail) => (OpKind::Scan, NO_KEY, u64::from(detail)),
            Op::Sql(detail) => (OpKind::Sql, NO_KEY, u64::from(detail)),
        };
        self.ops.kind.push(kind);
        self.ops.key.push(key);
        self.ops.value.push(raw);
    }

    /// Closes a transaction over the operations pushed since the one before.
    pub fn push_txn(&mut self, id: Value, session: u32, status: Status, start: i64, end: i64, line: u64) {
        self.txns.id.push(id);
        self.txns.session.push(session);
        self.txns.status.push(status);
        self.txns.start.push(start);
        self.txns.end.push(end);
        self.txns.ops_end.push(self.ops.kind.len() as u32);
        self.txns.line.push(u32::try_from(line).unwrap_or(u32::MAX));
    }

    /// What is special about a transaction, if anything is.
    pub fn extra(&self, txn: u32) -> Option<&Extra> {
        self.extras.binary_search_by_key(&txn, |(t, _)| *t).ok().map(|at| &self.extras[at].1)
    }

    /// Notes that the operation just read belongs to `space`.
    pub(crate) fn note_space(&mut self, space: Space, line: u64, field: impl FnOnce() -> String) {
        if self.spaces.iter().all(|(seen, _, _)| *seen != space) {
            let field = field();
            self.spaces.push((space, line, field));
        }
    }

    /// What is wrong with more rows than the columns can number.
    pub(crate) fn too_large(transactions: usize) -> Malformed {
        Malformed {
            line: 0,
            field: String::new(),
            found: "more operations than one history can hold".into(),
            expected: "fewer than 4,294,967,295 operations and 1,073,741,823 transactions".into(),
            transactions_before: transactions as u64,
        }
    }

    /// Replaces what reads returned, by row, key and value: for readers that know only at the end what a value means.
    pub(crate) fn map_reads(&mut self, meant: impl Fn(usize, u32, Value) -> Value) {
        for (row, kind) in self.ops.kind.iter().enumerate() {
            if *kind == OpKind::Read {
                let value = value_of(self.ops.value[row]);
                self.ops.value[row] = meant(row, self.ops.key[row], value).bits();
            }
        }
    }

    /// Moves another history, read from what follows in the same input, to the end of this one.
    pub(crate) fn append(&mut self, mut other: History) -> Result<()> {
        let total = self.ops.kind.len() + other.ops.kind.len();
        if total >= u32::MAX as usize || self.len() + other.len() >= u32::MAX as usize / 4 {
            return Err(History::too_large(self.len()).into());
        }
        if self.is_empty() && self.header.is_default() && self.versions.is_empty() {
            *self = other;
            return Ok(());
        }
        let atoms = self.atoms.absorb(&other.atoms);
        let list_base = self.lists.first.len() as u32;
        let element_base = self.lists.elements.len();
        let translate = |value: Value| {
            if value.is_atom() {
                atoms[value.index()]
            } else if value.is_list() {
                Value::list(value.index() as u32 + list_base)
            } else {
                value
            }
        };
        let keys = renumber(&mut self.keys, &other.keys, translate);
        let sessions = renumber(&mut self.sessions, &other.sessions, translate);
        self.lists.first.extend(other.lists.first.iter().map(|first| first + element_base));
        self.lists.elements.extend(other.lists.elements.iter().map(|&e| translate(e)));

        let (cas_base, detail_base) = (self.cas.len() as u64, self.details.len() as u64);
        self.cas.extend(other.cas.iter().map(|cas| Cas {
            expected: translate(cas.expected),
            new: translate(cas.new),
            current: translate(cas.current),
            applied: cas.applied,
        }));
        self.details.append(&mut other.details);

        let op_base = self.ops.kind.len() as u32;
        self.ops.value.extend(other.ops.kind.iter().zip(&other.ops.value).map(|(kind, &raw)| match kind {
            OpKind::Read | OpKind::Write | OpKind::Append => translate(value_of(raw)).bits(),
            OpKind::Cas => raw + cas_base,
            OpKind::Scan | OpKind::Sql => raw + detail_base,
        }));
        let renamed = |key: &u32| if *key == NO_KEY { NO_KEY } else { keys[*key as usize] };
        self.ops.key.extend(other.ops.key.iter().map(renamed));
        self.ops.kind.append(&mut other.ops.kind);

        let txn_base = self.len() as u32;
        self.txns.id.extend(other.txns.id.iter().map(|&id| translate(id)));
        self.txns.session.extend(other.txns.session.iter().map(|&s| sessions[s as usize]));
        self.txns.status.append(&mut other.txns.status);
        self.txns.start.append(&mut other.txns.start);
        self.txns.end.append(&mut other.txns.end);
        self.txns.ops_end.extend(other.txns.ops_end.iter().map(|end| end + op_base));
        self.txns.line.append(&mut other.txns.line);
        self.extras.extend(other.extras.into_iter().map(|(txn, mut extra)| {
            extra.serial = extra.serial.map(translate);
            (txn + txn_base, extra)
        }));
        self.versions.extend(
            other
                .versions
                .into_iter()
                .map(|(key, values)| (keys[key as usize], values.into_iter().map(translate).collect())),
        );
        for (space, line, field) in other.spaces {
            self.note_space(space, line, || field);
        }
        Ok(())
    }
}

impl Header {
    fn is_default(&self) -> bool {
        self.initial.is_empty() && self.meta.is_none() && self.fields.is_empty()
    }
}

fn renumber(into: &mut Names, from: &Names, translate: impl Fn(Value) -> Value) -> Vec<u32> {
    (0..from.len() as u32).map(|n| into.number(translate(from.name(n)))).collect()
}

#[inline]
fn value_of(raw: u64) -> Value {
    Value::from_bits(raw)
}
