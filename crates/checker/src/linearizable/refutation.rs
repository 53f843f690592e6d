//! Whether the calls of a key can be ordered at all, and if not, which few of them already cannot.
//!
//! Take any of the required calls, K. Between the earliest start and the latest end among K, whatever else
//! was under way may or may not have taken effect; what was over before K began left behind *some* state that
//! was written by then; what began after K was over does not matter. If no such state and no choice of the others lets K be ordered,
//! then the whole key cannot be ordered. Fewer calls in K ask for less, so K is made as small as it gets.

use isolde_history::Value;
use rustc_hash::FxHashSet;

use crate::linearizable::calls::{Call, Effect, Initial, Need, Object};
use crate::linearizable::problem::{Event, Problem, Start};
use crate::linearizable::search::{Outcome, order_until, search};

/// What became of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Settled {
    /// Its calls, by number, in an order that explains them.
    Order(Vec<u32>),
    /// There is none.
    Impossible,
    /// The budget did not suffice; the call that no order went beyond.
    OutOfBudget(Option<u32>),
}

/// Why a key cannot be ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refutation {
    /// The transactions, in an order that gets as far as any.
    pub order: Vec<u32>,
    /// Those that must have a place and have none there; the first of them ended without one. If there is none,
    /// it is what the database told that no order follows.
    pub stuck: Vec<u32>,
    /// Those of all these, and others that were under way, which may or may not have taken effect.
    pub maybe: Vec<u32>,
}

/// How many parts of a key are tried, and what a try may cost, to make the evidence small.
const TRIES_MAX: usize = 400;
const TRY_BUDGET: u64 = 50_000;
/// How far from a call the reason is looked for that no order goes beyond it.
const AROUND_MAX: usize = 256;
/// Up to this many calls the longest order is searched for without looking ahead.
const SHOWN_MAX: usize = 64;

/// Orders the calls of a key, if that is possible.
pub fn settle(object: &Object<'_>, budget: &mut u64) -> Settled {
    // What was told of a key that nobody certainly touched is not judged.
    if !object.calls.iter().any(|call| call.required) {
        return Settled::Order(Vec::new());
    }
    if object.chains.is_empty() {
        let problem = Problem::new(object, &Start::Initial, &[]);
        return match search(&problem, budget) {
            Outcome::Order(order) => Settled::Order(order),
            Outcome::Stuck(_) => Settled::Impossible,
            Outcome::OutOfBudget(event) => {
                Settled::OutOfBudget(event.and_then(|event| match problem.events.get(event) {
                    Some(Event::End(number)) => Some(*number),
                    _ => None,
                }))
            }
        };
    }
    settle_told(object, budget)
}

/// What was told of a value holds only if somebody installed it. Where that is open, both are tried.
fn settle_told(object: &Object<'_>, budget: &mut u64) -> Settled {
    let installers = |required: bool| object.calls.iter().filter(move |call| call.required == required);
    let value_of = |effect: &Effect| match effect {
        Effect::Set(value) => Some(*value),
        Effect::Nothing | Effect::Append(_) => None,
    };
    let mut certain: FxHashSet<Value> = installers(true).filter_map(|call| value_of(&call.effect)).collect();
    if let Initial::Value(value) = object.initial {
        certain.insert(value);
    }
    let told: FxHashSet<Value> = object.chains.iter().flat_map(|chain| chain.iter().copied()).collect();
    let mut open: Vec<Value> = installers(false)
        .filter_map(|call| value_of(&call.effect))
        .filter(|value| told.contains(value) && !certain.contains(value))
        .collect();
    open.sort_unstable();
    open.dedup();
    let outcomes = 1u64.checked_shl(open.len() as u32).unwrap_or(u64::MAX);
    for outcome in 0..outcomes {
        let Some(left) = budget.checked_sub(1) else { return Settled::OutOfBudget(None) };
        *budget = left;
        let absent = |value: &Value| open.iter().position(|v| v == value).is_some_and(|at| outcome >> at & 1 == 1);
        let installed = |value: &&Value| certain.contains(*value) || (open.contains(*value) && !absent(value));
        let chains: Vec<Vec<Value>> =
            object.chains.iter().map(|chain| chain.iter().filter(installed).copied().collect()).collect();
        let kept: Vec<u32> = (0..object.calls.len() as u32)
            .filter(|&number| !value_of(&object.calls[number as usize].effect).is_some_and(|value| absent(&value)))
            .collect();
        let calls = kept.iter().map(|&number| object.calls[number as usize].clone()).collect();
        let part = Object { initial: object.initial, calls, chains: Vec::new() };
        match search(&Problem::new(&part, &Start::Initial, &chains), budget) {
            Outcome::Order(order) => {
                return Settled::Order(order.into_iter().map(|number| kept[number as usize]).collect());
            }
            Outcome::Stuck(_) => {}
            Outcome::OutOfBudget(_) => return Settled::OutOfBudget(None),
        }
    }
    Settled::Impossible
}

/// The evidence that a key cannot be ordered, for a key of which that is known.
pub fn refute(object: &Object<'_>) -> Refutation {
    let required = required_by_end(object);
    let untold = Object { initial: object.initial, calls: object.calls.clone(), chains: Vec::new() };
    if !object.chains.is_empty() && settle(&untold, &mut TRY_BUDGET.clone()) != Settled::Impossible {
        return told_refutation(object, &required);
    }
    let mut narrowing = Narrowing { object: &untold, tries: 0, budget: TRY_BUDGET };
    let kept = narrowing.narrow(required);
    narrowing.shown(&kept)
}

/// The evidence that a key cannot be ordered, if the calls around `place` show it. A search that comes upon them
/// late first tries whatever else may have come before, which can be too much. `budget` is for each try.
pub fn refute_around(object: &Object<'_>, place: u32, budget: u64) -> Option<Refutation> {
    let untold = Object { initial: object.initial, calls: object.calls.clone(), chains: Vec::new() };
    let required = required_by_end(&untold);
    let at = required.iter().position(|&number| number == place)?;
    let mut narrowing = Narrowing { object: &untold, tries: 0, budget: budget.min(TRY_BUDGET) };
    let mut reach = 2;
    while reach <= AROUND_MAX {
        let around = &required[at.saturating_sub(reach)..(at + reach).min(required.len())];
        if narrowing.fails(around) {
            let kept = narrowing.narrow(around.to_vec());
            return Some(narrowing.shown(&kept));
        }
        reach *= 2;
    }
    None
}

fn required_by_end(object: &Object<'_>) -> Vec<u32> {
    let mut required: Vec<u32> =
        (0..object.calls.len() as u32).filter(|&number| object.calls[number as usize].required).collect();
    required.sort_by_key(|&number| (object.calls[number as usize].end, number));
    required
}

/// All that took effect is needed to contradict what was told, but not those that only looked.
fn told_refutation(object: &Object<'_>, required: &[u32]) -> Refutation {
    let mut kept: Vec<u32> = (0..object.calls.len() as u32).collect();
    let looks = required.iter().filter(|&&number| object.calls[number as usize].effect == Effect::Nothing);
    for look in looks.take(TRIES_MAX) {
        let rest: Vec<u32> = kept.iter().copied().filter(|number| number != look).collect();
        // Without any required call there would be nothing to show.
        let calls: Vec<_> = rest.iter().map(|&number| object.calls[number as usize].clone()).collect();
        if settle(&Object { calls, ..object.clone() }, &mut TRY_BUDGET.clone()) == Settled::Impossible {
            kept = rest;
        }
    }
    let of = |required: bool| {
        let calls = kept.iter().map(|&number| &object.calls[number as usize]);
        calls.filter(move |call| call.required == required).map(|call| call.txn)
    };
    let order: Vec<u32> = of(true).collect();
    let maybe = of(false).filter(|txn| !order.contains(txn)).collect();
    Refutation { order, stuck: Vec::new(), maybe }
}

struct Narrowing<'o, 'h> {
    object: &'o Object<'h>,
    tries: usize,
    /// What a try may cost.
    budget: u64,
}

impl<'h> Narrowing<'_, 'h> {
    /// Fewer of these calls, sorted by their end, that still cannot be ordered.
    fn narrow(&mut self, required: Vec<u32>) -> Vec<u32> {
        // The shortest beginning of the history that fails, then the shortest end of that.
        let (mut fits, mut fails) = (0, required.len());
        while fails - fits > 1 {
            let middle = fits.midpoint(fails);
            if self.fails(&required[..middle]) {
                fails = middle;
            } else {
                fits = middle;
            }
        }
        let mut length = 1;
        while length < fails && !self.fails(&required[fails - length..fails]) {
            length = (2 * length).min(fails);
        }
        let mut kept = required[fails - length..fails].to_vec();
        let mut share = kept.len().div_ceil(2);
        while share > 0 && self.tries < TRIES_MAX {
            let mut from = 0;
            while from < kept.len() && self.tries < TRIES_MAX {
                let until = (from + share).min(kept.len());
                let rest = [&kept[..from], &kept[until..]].concat();
                if self.fails(&rest) {
                    kept = rest;
                } else {
                    from = until;
                }
            }
            share /= 2;
        }
        kept
    }

    fn fails(&mut self, kept: &[u32]) -> bool {
        self.tries += 1;
        let (part, start) = self.part(kept);
        let mut budget = self.budget + 2 * part.calls.len() as u64;
        !kept.is_empty()
            && is_told_by_few(&part, &start)
            && matches!(search(&Problem::new(&part, &start, &[]), &mut budget), Outcome::Stuck(_))
    }

    /// Those calls as required ones, then what else may matter as optional, and where that may start from.
    fn part(&self, kept: &[u32]) -> (Object<'h>, Start) {
        let calls = &self.object.calls;
        let starts = kept.iter().map(|&number| calls[number as usize].start).min().unwrap_or_default();
        let ends = kept.iter().map(|&number| calls[number as usize].end).max().unwrap_or_default();
        let mut is_kept = vec![false; calls.len()];
        kept.iter().for_each(|&number| is_kept[number as usize] = true);
        let others = || calls.iter().enumerate().filter(|(n, c)| !is_kept[*n] && c.effect != Effect::Nothing);
        let start = if others().any(|(_, call)| call.end < starts) {
            Start::LeftBehind(others().filter(|(_, call)| call.start < starts).flat_map(|(_, c)| written(c)).collect())
        } else {
            Start::Initial
        };
        let mut pool: Vec<u32> = others()
            .filter(|(_, call)| call.end >= starts && call.start <= ends && call.need != Need::Impossible)
            .map(|(number, _)| number as u32)
            .collect();
        let mut needed = Needed::default();
        kept.iter().for_each(|&number| needed.add(&calls[number as usize].need));
        let mut numbers = kept.to_vec();
        loop {
            let (useful, rest): (Vec<u32>, Vec<u32>) =
                pool.into_iter().partition(|&number| needed.covers(&calls[number as usize].effect));
            if useful.is_empty() {
                break;
            }
            useful.iter().for_each(|&number| needed.add(&calls[number as usize].need));
            numbers.extend(useful);
            pool = rest;
        }
        let part = numbers.iter().map(|&number| {
            let mut call = calls[number as usize].clone();
            call.required = is_kept[number as usize];
            call
        });
        let part = Object { initial: self.object.initial, calls: part.collect(), chains: Vec::new() };
        (part, start)
    }

    /// The calls that were kept, in an order that goes as far as possible.
    fn shown(&self, kept: &[u32]) -> Refutation {
        let (part, start) = self.part(kept);
        let mut problem = Problem::new(&part, &start, &[]);
        problem.looks_ahead = part.calls.len() > SHOWN_MAX;
        let mut outcome = search(&problem, &mut TRY_BUDGET.clone());
        if matches!(outcome, Outcome::OutOfBudget(_)) {
            problem.looks_ahead = true;
            outcome = search(&problem, &mut u64::MAX.clone());
        }
        let (mut order, mut due) = (Vec::new(), None);
        if let Outcome::Stuck(Some(event)) = outcome
            && let Outcome::Order(found) = order_until(&problem, event, &mut u64::MAX.clone())
        {
            order = found;
            due = match problem.events.get(event) {
                Some(Event::End(number)) => Some(*number),
                _ => None,
            };
        }
        let txn = |&number: &u32| part.calls[number as usize].txn;
        let left = (0..kept.len() as u32).filter(|number| !order.contains(number) && Some(*number) != due);
        let stuck: Vec<u32> = due.into_iter().chain(left).map(|number| txn(&number)).collect();
        let required: Vec<u32> = kept.iter().map(|&number| self.object.calls[number as usize].txn).collect();
        let maybe =
            part.calls[kept.len()..].iter().map(|call| call.txn).filter(|txn| !required.contains(txn)).collect();
        // A judged transaction of unknown outcome may stand here twice: as one that read, and as one that wrote.
        let mut order: Vec<u32> = order.iter().map(txn).filter(|txn| !stuck.contains(txn)).collect();
        let mut seen = FxHashSet::default();
        order.reverse();
        order.retain(|&txn| seen.insert(txn));
        order.reverse();
        Refutation { order, stuck, maybe }
    }
}

/// Whether at most one value was seen that comes from before: with two, what is shown would look like a read of
/// something that nobody wrote, where it is only not shown who did.
fn is_told_by_few(part: &Object<'_>, start: &Start) -> bool {
    let own: FxHashSet<Value> = part.calls.iter().flat_map(written).collect();
    let foreign = part.calls.iter().filter_map(|call| match call.need {
        Need::Value(value) if !own.contains(&value) => Some(value),
        _ => None,
    });
    *start == Start::Initial || foreign.collect::<FxHashSet<Value>>().len() <= 1
}

/// The value or the elements that a call wrote.
fn written<'c>(call: &'c Call<'_>) -> impl Iterator<Item = Value> + 'c {
    let values: &[Value] = match &call.effect {
        Effect::Nothing => &[],
        Effect::Set(value) => std::slice::from_ref(value),
        Effect::Append(word) => word,
    };
    values.iter().copied()
}

/// The values, or elements of lists, that somebody saw.
#[derive(Default)]
struct Needed {
    values: FxHashSet<Value>,
    anything: bool,
}

impl Needed {
    fn add(&mut self, need: &Need<'_>) {
        match need {
            Need::Value(value) => self.values.extend([*value]),
            Need::List(list) => self.values.extend(list.iter().copied()),
            Need::NoneOf(_) => self.anything = true,
            Need::Anything | Need::Impossible => {}
        }
    }

    /// Whether someone can have seen this effect.
    fn covers(&self, effect: &Effect) -> bool {
        match effect {
            _ if self.anything => true,
            Effect::Nothing => false,
            Effect::Set(value) => self.values.contains(value),
            Effect::Append(word) => word.iter().any(|element| self.values.contains(element)),
        }
    }
}
