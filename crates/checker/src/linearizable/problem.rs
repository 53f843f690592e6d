//! The calls of one key, numbered for the search: states, events in time, classes of equal calls.
//!
//! States that no call can tell apart are one state: of a register only the values count that somebody needs
//! or must not see, of a list only the beginnings of lists that were read. All the rest is [`ELSEWHERE`].

use isolde_history::Value;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::linearizable::calls::{Call, Effect, Initial, Need, Object};

/// The state that stands for everything that no call here needs.
pub const ELSEWHERE: u32 = 0;

/// A [`Need`], by state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Want {
    /// Any state.
    Anything,
    /// This one.
    State(u32),
    /// Not those at this place of [`Problem::excluded`].
    NoneOf(u32),
    /// No state.
    Never,
}

/// An [`Effect`], by state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// The state stays.
    Nothing,
    /// It becomes this one.
    Set(u32),
    /// The elements at this place of [`Problem::words`] come behind it.
    Append(u32),
}

/// A numbered call.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// What it needs.
    pub want: Want,
    /// What it does.
    pub act: Act,
    /// Equal for calls with equal `want` and `act`.
    pub class: u32,
    /// When it must have a place at the latest.
    pub end: i64,
    /// Its place among the calls that are under way, or its number in [`Problem::offers`].
    pub slot: u32,
    /// Whether it must have a place.
    pub required: bool,
}

/// Calls that may be left out and are equal but for their start: they are used up in that order.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The calls, by start.
    pub calls: Vec<u32>,
}

/// Something that happens in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A required call begins.
    Begin(u32),
    /// There is one more call that may be used, of this offer.
    Offer(u32),
    /// A required call is over, and must have its place by now.
    End(u32),
}

/// The input of the search.
pub struct Problem {
    /// The calls, as numbered in the object.
    pub calls: Vec<Numbered>,
    /// What may be used.
    pub offers: Vec<Offer>,
    /// Everything, by time; of equal times, beginnings come first.
    pub events: Vec<Event>,
    /// States to start from, one after the other.
    pub starts: Vec<u32>,
    /// How many required calls are under way at once, at most.
    pub slots: usize,
    /// Sets of states that compare-and-sets which failed did not see.
    pub excluded: Vec<Vec<u32>>,
    /// Elements that are appended together.
    pub words: Vec<Vec<Value>>,
    /// The told orders of versions, as states.
    pub told: Vec<Vec<u32>>,
    /// How many states there are.
    pub states: usize,
    /// Whether branches are cut off that some call, however late, can no longer be explained on.
    pub looks_ahead: bool,
    /// On a list: how many required calls need this state or a longer one.
    pub below: Option<Vec<u32>>,
    children: FxHashMap<(u32, Value), u32>,
}

/// Which states to start from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Start {
    /// The initial one.
    Initial,
    /// That one, and every one that these values, or lists of these elements and initial ones, give.
    LeftBehind(FxHashSet<Value>),
}

impl Problem {
    /// Numbers the calls of `object`. `told` are the chains that count.
    pub fn new(object: &Object<'_>, start: &Start, told: &[Vec<Value>]) -> Problem {
        let mut numbering = Numbering::new(object, told);
        let mut calls = Vec::with_capacity(object.calls.len());
        let mut classes = FxHashMap::default();
        for call in &object.calls {
            let (want, act) = (numbering.want(call), numbering.act(call));
            let next = classes.len() as u32;
            let class = *classes.entry((want, act)).or_insert(next);
            calls.push(Numbered { want, act, class, end: call.end, slot: 0, required: call.required });
        }
        let states = numbering.parents.len();
        let initial = numbering.initial(object.initial);
        let mut problem = Problem {
            calls,
            offers: Vec::new(),
            events: Vec::new(),
            starts: match start {
                Start::Initial => vec![initial],
                Start::LeftBehind(values) => numbering.left_behind(object.initial, values),
            },
            slots: 0,
            told: told.iter().map(|chain| chain.iter().map(|value| numbering.values[value]).collect()).collect(),
            states,
            looks_ahead: true,
            below: None,
            excluded: numbering.excluded,
            words: numbering.words.into_iter().map(<[Value]>::to_vec).collect(),
            children: numbering.children,
        };
        if numbering.is_list {
            problem.below = Some(problem.counted_below(&numbering.parents));
        }
        problem.schedule(object);
        problem
    }

    /// How many required calls need a state or one that continues it; a state comes after its parent.
    fn counted_below(&self, parents: &[u32]) -> Vec<u32> {
        let mut below = vec![0; self.states];
        for call in self.calls.iter().filter(|call| call.required) {
            if let Want::State(state) = call.want {
                below[state as usize] += 1;
            }
        }
        for state in (2..self.states).rev() {
            below[parents[state] as usize] += below[state];
        }
        below[ELSEWHERE as usize] = 0;
        below
    }

    /// The state after `act`.
    #[inline]
    pub fn after(&self, state: u32, act: Act) -> u32 {
        match act {
            Act::Nothing => state,
            Act::Set(state) => state,
            Act::Append(word) => self.words[word as usize].iter().fold(state, |state, &element| {
                if state == ELSEWHERE { ELSEWHERE } else { *self.children.get(&(state, element)).unwrap_or(&ELSEWHERE) }
            }),
        }
    }

    /// Whether a call can have its place here.
    #[inline]
    pub fn meets(&self, state: u32, want: Want) -> bool {
        match want {
            Want::Anything => true,
            Want::State(needed) => needed == state,
            Want::NoneOf(set) => !self.excluded[set as usize].contains(&state),
            Want::Never => false,
        }
    }

    /// Puts beginnings, offers and ends in time, and gives the calls their slots.
    fn schedule(&mut self, object: &Object<'_>) {
        let mut moments: Vec<(i64, bool, u32)> = Vec::with_capacity(2 * self.calls.len());
        for (number, call) in object.calls.iter().enumerate() {
            moments.push((call.start, false, number as u32));
            if call.required {
                moments.push((call.end, true, number as u32));
            }
        }
        moments.sort_unstable();
        let mut offer_of: FxHashMap<u32, u32> = FxHashMap::default();
        let mut free: Vec<u32> = Vec::new();
        for (_, is_end, number) in moments {
            let call = &mut self.calls[number as usize];
            if is_end {
                free.push(call.slot);
                self.events.push(Event::End(number));
            } else if call.required {
                call.slot = free.pop().unwrap_or_else(|| {
                    self.slots += 1;
                    self.slots as u32 - 1
                });
                self.events.push(Event::Begin(number));
            } else {
                let offer = *offer_of.entry(call.class).or_insert_with(|| {
                    self.offers.push(Offer { calls: Vec::new() });
                    self.offers.len() as u32 - 1
                });
                call.slot = offer;
                self.offers[offer as usize].calls.push(number);
                self.events.push(Event::Offer(offer));
            }
        }
    }
}

/// Gives states, sets and words their numbers.
struct Numbering<'o> {
    is_list: bool,
    values: FxHashMap<Value, u32>,
    /// The state that each continues, on a list; state 1 is the empty list.
    parents: Vec<u32>,
    /// The value of each state, or the last element.
    labels: Vec<Value>,
    children: FxHashMap<(u32, Value), u32>,
    excluded: Vec<Vec<u32>>,
    set_of: FxHashMap<Vec<u32>, u32>,
    words: Vec<&'o [Value]>,
    word_of: FxHashMap<&'o [Value], u32>,
}

impl<'o> Numbering<'o> {
    fn new(object: &'o Object<'_>, told: &[Vec<Value>]) -> Self {
        let is_list = matches!(object.initial, Initial::List(_))
            || object.calls.iter().any(|c| matches!(c.need, Need::List(_)) || matches!(c.effect, Effect::Append(_)));
        let mut numbering = Numbering {
            is_list,
            values: FxHashMap::default(),
            parents: vec![ELSEWHERE; 1 + usize::from(is_list)],
            labels: vec![Value::MISSING; 1 + usize::from(is_list)],
            children: FxHashMap::default(),
            excluded: Vec::new(),
            set_of: FxHashMap::default(),
            words: Vec::new(),
            word_of: FxHashMap::default(),
        };
        for call in &object.calls {
            match &call.need {
                Need::Value(value) => numbering.add_value(*value),
                Need::NoneOf(values) => values.iter().for_each(|value| numbering.add_value(*value)),
                Need::List(list) => {
                    numbering.list(list);
                }
                Need::Anything | Need::Impossible => {}
            }
        }
        told.iter().flatten().for_each(|value| numbering.add_value(*value));
        numbering
    }

    fn add_value(&mut self, value: Value) {
        let next = self.parents.len() as u32;
        if *self.values.entry(value).or_insert(next) == next {
            self.parents.push(ELSEWHERE);
            self.labels.push(value);
        }
    }

    fn list(&mut self, list: &[Value]) -> u32 {
        list.iter().fold(1, |state, &element| {
            let next = self.parents.len() as u32;
            let child = *self.children.entry((state, element)).or_insert(next);
            if child == next {
                self.parents.push(state);
                self.labels.push(element);
            }
            child
        })
    }

    fn initial(&self, initial: Initial<'_>) -> u32 {
        match initial {
            Initial::Value(value) => self.values.get(&value).copied().unwrap_or(ELSEWHERE),
            Initial::List(list) => {
                let mut state = 1;
                for &element in list {
                    match self.children.get(&(state, element)) {
                        Some(&child) => state = child,
                        None => return ELSEWHERE,
                    }
                }
                state
            }
        }
    }

    fn left_behind(&self, initial: Initial<'_>, values: &FxHashSet<Value>) -> Vec<u32> {
        let known = |value: &Value| match initial {
            Initial::Value(initial) => *value == initial || values.contains(value),
            Initial::List(initial) => initial.contains(value) || values.contains(value),
        };
        let first = 1 + u32::from(self.is_list);
        let mut possible = vec![true; first as usize];
        for state in first as usize..self.parents.len() {
            possible.push(known(&self.labels[state]) && possible[self.parents[state] as usize]);
        }
        (0..self.parents.len() as u32).rev().filter(|&state| possible[state as usize]).collect()
    }

    fn want(&mut self, call: &Call<'_>) -> Want {
        match &call.need {
            Need::Anything => Want::Anything,
            Need::Value(value) => Want::State(self.values[value]),
            Need::List(list) => Want::State(self.list(list)),
            Need::NoneOf(values) => {
                let set: FxHashSet<u32> = values.iter().map(|value| self.values[value]).collect();
                let mut set: Vec<u32> = set.into_iter().collect();
                set.sort_unstable();
                let next = self.excluded.len() as u32;
                let number = *self.set_of.entry(set.clone()).or_insert(next);
                if number == next {
                    self.excluded.push(set);
                }
                Want::NoneOf(number)
            }
            Need::Impossible => Want::Never,
        }
    }

    fn act(&mut self, call: &'o Call<'_>) -> Act {
        match &call.effect {
            Effect::Nothing => Act::Nothing,
            Effect::Set(value) => Act::Set(self.values.get(value).copied().unwrap_or(ELSEWHERE)),
            Effect::Append(word) => {
                let next = self.words.len() as u32;
                let number = *self.word_of.entry(word).or_insert(next);
                if number == next {
                    self.words.push(word);
                }
                Act::Append(number)
            }
        }
    }
}
