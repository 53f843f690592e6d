//! What the transactions of one key asked of it and did to it: the input of [`crate::linearizable::search`].
//!
//! A transaction of a single key takes effect at one moment, so all of it is one *call*: what the key must
//! have held just before ([`Need`]), and what it holds just after ([`Effect`]). What a transaction saw of its
//! own writes is settled here, without any search.

use isolde_history::{History, NO_TIME, Op, Status, Value};

use crate::evidence::attribution::Attribution;

/// Since ever, for a call whose start is not known.
pub const ALWAYS: i64 = i64::MIN;
/// Never, for a call that nothing is known to come after.
pub const NEVER: i64 = i64::MAX;

/// What the key held just before a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Need<'h> {
    /// Whatever.
    Anything,
    /// This value.
    Value(Value),
    /// This list.
    List(&'h [Value]),
    /// None of these, by compare-and-sets that failed.
    NoneOf(Vec<Value>),
    /// The transaction contradicts itself.
    Impossible,
}

/// What a call does to the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// It holds this value afterwards.
    Set(Value),
    /// The list has these elements more.
    Append(Vec<Value>),
}

/// One transaction, seen from its key.
#[derive(Clone, Debug)]
pub struct Call<'h> {
    /// The transaction.
    pub txn: u32,
    /// It took effect at this time or later.
    pub start: i64,
    /// It took effect at this time or earlier.
    pub end: i64,
    /// What it saw.
    pub need: Need<'h>,
    /// What it did.
    pub effect: Effect,
    /// Whether it must have a place; one of unknown outcome may never have taken effect.
    pub required: bool,
}

/// What the key holds before all calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Initial<'h> {
    /// A value.
    Value(Value),
    /// A list.
    List(&'h [Value]),
}

/// A key and its calls.
#[derive(Clone, Debug)]
pub struct Object<'h> {
    /// What it holds before all calls.
    pub initial: Initial<'h>,
    /// The calls, in the order of the file.
    pub calls: Vec<Call<'h>>,
    /// The orders of versions that the database told.
    pub chains: Vec<&'h [Value]>,
}

impl<'h> Object<'h> {
    /// The calls of `key`. With `judge_aborted`, what transactions without effect read must be explained, too.
    pub fn of_key(history: &'h History, attribution: &Attribution, key: u32, judge_aborted: bool) -> Object<'h> {
        let initial = history.initial_value(key);
        let places = attribution.places(key);
        let holds_list = |op: &u32| match history.op(*op as usize) {
            Op::Append(..) => true,
            Op::Read(_, value) => value.is_list(),
            Op::Write(..) | Op::Cas(..) | Op::Scan(_) | Op::Sql(_) => false,
        };
        let is_list = attribution.op[places.clone()].iter().any(holds_list);
        let mut object = Object {
            initial: match list_of(history, initial) {
                Some(list) if is_list => Initial::List(list),
                // An empty list is an absent value, and no other list is a value that a register can hold again.
                Some([]) => Initial::Value(Value::NULL),
                _ => Initial::Value(initial),
            },
            calls: Vec::with_capacity(places.len()),
            chains: history.versions.iter().filter(|(k, _)| *k == key).map(|(_, values)| &values[..]).collect(),
        };
        let mut txns = attribution.txn[places].to_vec();
        txns.dedup();
        for txn in txns {
            object.add(history, txn, is_list, judge_aborted);
        }
        object
    }

    fn add(&mut self, history: &'h History, txn: u32, is_list: bool, judge_aborted: bool) {
        let (need, effect) = if is_list { list_call(history, txn) } else { register_call(history, txn) };
        let row = txn as usize;
        let start = if history.txns.start[row] == NO_TIME { ALWAYS } else { history.txns.start[row] };
        let end = if history.txns.end[row] == NO_TIME { NEVER } else { history.txns.end[row] };
        let call = Call { txn, start, end, need, effect, required: true };
        let looked = |end| Call { end, effect: Effect::Nothing, ..call.clone() };
        match history.txns.status[row] {
            Status::Committed => self.calls.push(call),
            Status::Aborted => self.calls.extend(judge_aborted.then(|| looked(end))),
            // It may take effect after its client gave up. Where its reads are judged they must be explained
            // either way, and if it takes effect, then just before that.
            Status::Unknown => {
                self.calls.extend(judge_aborted.then(|| looked(NEVER)));
                if call.effect != Effect::Nothing && call.need != Need::Impossible {
                    self.calls.push(Call { end: NEVER, required: false, ..call });
                }
            }
        }
    }
}

/// The list that a value stands for on a list key, where absent means empty.
fn list_of(history: &History, value: Value) -> Option<&[Value]> {
    match value {
        Value::NULL => Some(&[]),
        list if list.is_list() => Some(history.list(list)),
        _ => None,
    }
}

fn register_call(history: &History, txn: u32) -> (Need<'static>, Effect) {
    let mut need = Need::Anything;
    let mut own = None;
    for row in history.ops_of(txn) {
        match history.op(row) {
            Op::Read(_, value) => observe(&mut need, own, value),
            Op::Write(_, value) => own = Some(value),
            Op::Cas(_, cas) if cas.applied => {
                observe(&mut need, own, cas.expected);
                own = Some(cas.new);
            }
            Op::Cas(_, cas) if cas.current != Value::MISSING => observe(&mut need, own, cas.current),
            Op::Cas(_, cas) => exclude(&mut need, own, cas.expected),
            Op::Append(..) | Op::Scan(_) | Op::Sql(_) => need = Need::Impossible,
        }
    }
    (need, own.map_or(Effect::Nothing, Effect::Set))
}

fn observe(need: &mut Need<'_>, own: Option<Value>, value: Value) {
    let possible = match (own, &need) {
        (Some(own), _) => own == value,
        (None, Need::Value(seen)) => *seen == value,
        (None, Need::NoneOf(values)) => !values.contains(&value),
        (None, Need::Anything | Need::List(_) | Need::Impossible) => true,
    };
    match need {
        Need::Impossible => {}
        _ if !possible => *need = Need::Impossible,
        _ if own.is_none() => *need = Need::Value(value),
        _ => {}
    }
}

fn exclude(need: &mut Need<'_>, own: Option<Value>, value: Value) {
    match (own, &mut *need) {
        (_, Need::Impossible) => {}
        (Some(own), _) if own == value => *need = Need::Impossible,
        (Some(_), _) => {}
        (None, Need::Value(seen)) if *seen == value => *need = Need::Impossible,
        (None, Need::NoneOf(values)) => values.push(value),
        (None, Need::Anything) => *need = Need::NoneOf(vec![value]),
        (None, Need::Value(_) | Need::List(_)) => {}
    }
}

fn list_call(history: &History, txn: u32) -> (Need<'_>, Effect) {
    let mut need = Need::Anything;
    let mut appended = Vec::new();
    for row in history.ops_of(txn) {
        match history.op(row) {
            Op::Append(_, element) => appended.push(element),
            Op::Read(_, value) => {
                let before = list_of(history, value).and_then(|list| list.strip_suffix(&appended[..]));
                need = match (need, before) {
                    (Need::Anything, Some(before)) => Need::List(before),
                    (Need::List(seen), Some(before)) if seen == before => Need::List(seen),
                    _ => Need::Impossible,
                };
            }
            Op::Write(..) | Op::Cas(..) | Op::Scan(_) | Op::Sql(_) => need = Need::Impossible,
        }
    }
    let effect = if appended.is_empty() { Effect::Nothing } else { Effect::Append(appended) };
    (need, effect)
}
