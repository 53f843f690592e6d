//! Linearizability of one key by search (Wing & Gong 1993), just in time (Lowe 2017), with a memory.
//!
//! Time runs through the beginnings and ends of the calls. When a call ends that has no place in the order
//! yet, calls under way get theirs, one after the other, until it has: each choice is a branch. What has
//! happened is then summed up by the moment, the state of the key, and which of the calls under way have
//! their place; where one such configuration failed, an equal one fails.
//!
//! What keeps the number of branches small: a call that changes nothing gets its place as soon as the state
//! fits, since nothing is lost by that. Of equal calls under way the one that must be over first goes first.
//! A state is left only if whoever still needs it can get it back. A call of unknown outcome is used only
//! where a call cannot end otherwise, and only for somebody under way who sees it; and a configuration that
//! failed with few of them used up fails with more.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::linearizable::problem::{Act, Event, Problem, Want};

/// How a search ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// In this order, calls by their number, everything is explained.
    Order(Vec<u32>),
    /// In no order. The latest end, by its place among the events, that could not be passed.
    Stuck(Option<usize>),
    /// The budget did not suffice; the latest end, by its place among the events, that was tried.
    OutOfBudget(Option<usize>),
}

/// Searches, and takes what it costs off the budget.
pub fn search(problem: &Problem, budget: &mut u64) -> Outcome {
    dispatch(problem, budget, None)
}

/// An order of calls that gets as far as the event `until`, which the search had reached.
pub fn order_until(problem: &Problem, until: usize, budget: &mut u64) -> Outcome {
    dispatch(problem, budget, Some(until))
}

/// More calls under way than this and the search does not begin.
const SLOTS_MAX: usize = 4_096;

fn dispatch(problem: &Problem, budget: &mut u64, until: Option<usize>) -> Outcome {
    match problem.slots {
        0..=64 => Search::<1>::new(problem, budget, until).run(),
        65..=256 => Search::<4>::new(problem, budget, until).run(),
        257..=1_024 => Search::<16>::new(problem, budget, until).run(),
        1_025..=SLOTS_MAX => Search::<64>::new(problem, budget, until).run(),
        _ => Outcome::OutOfBudget(None),
    }
}

/// A set of slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Slots<const W: usize>([u64; W]);

impl<const W: usize> Slots<W> {
    const EMPTY: Self = Slots([0; W]);

    fn has(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    fn insert(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u32) {
        self.0[slot as usize / 64] &= !(1 << (slot % 64));
    }

    /// Those of this set that are not in the other.
    fn without(&self, other: &Self) -> impl Iterator<Item = u32> + use<W> {
        let (these, others) = (self.0, other.0);
        (0..W).flat_map(move |word| {
            let mut rest = these[word] & !others[word];
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(word as u32 * 64 + bit)
            })
        })
    }
}

/// All that decides how the search can go on, but for the offers that are used up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration<const W: usize> {
    event: u32,
    state: u32,
    progress: u32,
    /// Whether a call of unknown outcome was used last that nobody has seen yet.
    unseen: bool,
    placed: Slots<W>,
}

/// A moment at which one of several calls goes next.
struct Choice<const W: usize> {
    at: Configuration<W>,
    /// How many calls had their place.
    length: usize,
    /// The next candidate to try; those of the choice end where the list of candidates does.
    next: usize,
    first: usize,
}

struct Search<'p, const W: usize> {
    problem: &'p Problem,
    budget: &'p mut u64,
    until: Option<usize>,
    at: Configuration<W>,
    /// Required calls under way, by slot, and those among them that change nothing.
    under_way: Slots<W>,
    looks: Slots<W>,
    occupant: Vec<u32>,
    offered: Vec<u32>,
    used: Vec<u32>,
    /// For each state, how many required calls without a place need it, and how many calls could bring it.
    wanted: Vec<u32>,
    suppliers: Vec<u32>,
    wanted_left: u32,
    order: Vec<u32>,
    choices: Vec<Choice<W>>,
    candidates: Vec<u32>,
    failed: FxHashSet<Configuration<W>>,
    failed_with: FxHashMap<Configuration<W>, Vec<Box<[u32]>>>,
    progresses: FxHashMap<Box<[u32]>, u32>,
    progress_list: Vec<Box<[u32]>>,
    deepest: Option<usize>,
}

enum Arrival {
    /// Everything has its place.
    Done,
    /// This call ends and has no place yet; none: only what was told is left to fulfil.
    Due(Option<u32>),
}

impl<'p, const W: usize> Search<'p, W> {
    fn new(problem: &'p Problem, budget: &'p mut u64, until: Option<usize>) -> Self {
        let mut wanted = vec![0; problem.states];
        let mut suppliers = vec![0; problem.states];
        for call in &problem.calls {
            if let (true, Want::State(state)) = (call.required, call.want) {
                wanted[state as usize] += 1;
            }
            if let Act::Set(state) = call.act {
                suppliers[state as usize] += 1;
            }
        }
        Search {
            problem,
            budget,
            until,
            at: Configuration { event: 0, state: 0, progress: 0, unseen: false, placed: Slots::EMPTY },
            under_way: Slots::EMPTY,
            looks: Slots::EMPTY,
            occupant: vec![0; problem.slots],
            offered: vec![0; problem.offers.len()],
            used: vec![0; problem.offers.len()],
            wanted_left: wanted.iter().sum(),
            wanted,
            suppliers,
            order: Vec::new(),
            choices: Vec::new(),
            candidates: Vec::new(),
            failed: FxHashSet::default(),
            failed_with: FxHashMap::default(),
            progresses: FxHashMap::default(),
            progress_list: Vec::new(),
            deepest: None,
        }
    }

    fn run(mut self) -> Outcome {
        for &start in &self.problem.starts {
            let none = vec![0; self.problem.told.len()].into_boxed_slice();
            let progress = self.numbered(none);
            self.at = Configuration { event: 0, state: start, progress, unseen: false, placed: Slots::EMPTY };
            self.at.progress = self.progressed(start);
            if !self.can_start() {
                continue;
            }
            if let Some(outcome) = self.explore() {
                return outcome;
            }
            self.rewind(0, 0);
        }
        Outcome::Stuck(self.deepest)
    }

    /// Everything that can follow the present configuration; `None` if that leads nowhere.
    fn explore(&mut self) -> Option<Outcome> {
        loop {
            match self.advance() {
                Arrival::Done => return Some(Outcome::Order(std::mem::take(&mut self.order))),
                Arrival::Due(due) => {
                    let event = self.at.event as usize;
                    self.deepest = self.deepest.max(Some(event));
                    if self.until == Some(event) {
                        return Some(Outcome::Order(std::mem::take(&mut self.order)));
                    }
                    if self.is_new() {
                        self.choose(due);
                    }
                }
            }
            loop {
                let choice = self.choices.last_mut()?;
                let (at, length, next) = (choice.at, choice.length, choice.next);
                if next == self.candidates.len() {
                    self.candidates.truncate(choice.first);
                    self.choices.pop();
                    continue;
                }
                choice.next += 1;
                self.rewind(at.event as usize, length);
                self.at = at;
                let Some(left) = self.budget.checked_sub(1) else { return Some(Outcome::OutOfBudget(self.deepest)) };
                *self.budget = left;
                if self.place(self.candidates[next]) {
                    break;
                }
            }
        }
    }

    /// Lets time run up to the next end of a call without a place.
    fn advance(&mut self) -> Arrival {
        while let Some(&event) = self.problem.events.get(self.at.event as usize) {
            match event {
                Event::Begin(number) => {
                    let call = &self.problem.calls[number as usize];
                    self.occupant[call.slot as usize] = number;
                    self.under_way.insert(call.slot);
                    if call.act == Act::Nothing {
                        self.looks.insert(call.slot);
                        if self.problem.meets(self.at.state, call.want) {
                            self.put(number);
                        }
                    }
                }
                Event::Offer(offer) => self.offered[offer as usize] += 1,
                Event::End(number) => {
                    let slot = self.problem.calls[number as usize].slot;
                    if !self.at.placed.has(slot) {
                        return Arrival::Due(Some(number));
                    }
                    self.at.placed.remove(slot);
                    self.under_way.remove(slot);
                    self.looks.remove(slot);
                }
            }
            self.at.event += 1;
        }
        let fulfilled = |(chain, &done): (&Vec<u32>, &u32)| chain.len() as u32 == done;
        let progress = &self.progress_list[self.at.progress as usize];
        if self.problem.told.iter().zip(progress.iter()).all(fulfilled) { Arrival::Done } else { Arrival::Due(None) }
    }

    /// Takes back time and places, but for the configuration itself.
    fn rewind(&mut self, event: usize, length: usize) {
        for &event in self.problem.events[event..self.at.event as usize].iter().rev() {
            match event {
                Event::Begin(number) => {
                    let slot = self.problem.calls[number as usize].slot;
                    self.under_way.remove(slot);
                    self.looks.remove(slot);
                }
                Event::Offer(offer) => self.offered[offer as usize] -= 1,
                Event::End(number) => {
                    let call = &self.problem.calls[number as usize];
                    self.occupant[call.slot as usize] = number;
                    self.under_way.insert(call.slot);
                    if call.act == Act::Nothing {
                        self.looks.insert(call.slot);
                    }
                }
            }
        }
        while self.order.len() > length {
            let number = self.order.pop().expect("longer than something");
            let call = &self.problem.calls[number as usize];
            if let Act::Set(state) = call.act {
                self.suppliers[state as usize] += 1;
            }
            match call.want {
                _ if !call.required => self.used[call.slot as usize] -= 1,
                Want::State(state) => {
                    self.wanted[state as usize] += 1;
                    self.wanted_left += 1;
                }
                Want::Anything | Want::NoneOf(_) | Want::Never => {}
            }
        }
    }

    /// Whether the present configuration has not failed before; from now on it has.
    fn is_new(&mut self) -> bool {
        if self.problem.offers.is_empty() {
            return self.failed.insert(self.at);
        }
        let failed = self.failed_with.entry(self.at).or_default();
        let used = &self.used;
        // Comparing costs as much as some steps do.
        *self.budget = self.budget.saturating_sub((used.len() * (1 + failed.len()) / 256) as u64);
        if failed.iter().any(|less| less.iter().zip(used).all(|(less, more)| less <= more)) {
            return false;
        }
        failed.push(used.clone().into_boxed_slice());
        true
    }

    /// Collects the calls that may go next, the most promising first.
    fn choose(&mut self, due: Option<u32>) {
        let problem = self.problem;
        let first = self.candidates.len();
        let state = self.at.state;
        for slot in self.under_way.without(&self.at.placed) {
            let number = self.occupant[slot as usize];
            let call = &problem.calls[number as usize];
            let overwrites = self.at.unseen && call.want == Want::Anything;
            if call.act == Act::Nothing || overwrites || !problem.meets(state, call.want) {
                continue;
            }
            let twin = |&other: &u32| problem.calls[other as usize].class == call.class;
            match self.candidates[first..].iter().position(twin) {
                Some(at) if problem.calls[self.candidates[first + at] as usize].end <= call.end => {}
                Some(at) => self.candidates[first + at] = number,
                None => self.candidates.push(number),
            }
        }
        let useful = self.useful();
        for (offer, (&used, &offered)) in problem.offers.iter().zip(self.used.iter().zip(&self.offered)) {
            if used == offered {
                continue;
            }
            let number = offer.calls[used as usize];
            let call = &problem.calls[number as usize];
            let after = problem.after(state, call.act);
            let overwrites = self.at.unseen && call.want == Want::Anything;
            let useful = useful.as_ref().is_none_or(|useful| after != state && useful[after as usize]);
            if useful && !overwrites && problem.meets(state, call.want) {
                self.candidates.push(number);
            }
        }
        let due = due.map(|number| (number, problem.calls[number as usize].want));
        self.candidates[first..].sort_by_key(|&number| {
            let call = &problem.calls[number as usize];
            let helps = due.is_some_and(|(_, want)| want == Want::State(problem.after(state, call.act)));
            (due.is_none_or(|(due, _)| due != number), !call.required, !helps, call.end)
        });
        self.choices.push(Choice { at: self.at, length: self.order.len(), next: first, first });
    }

    /// The states that a required call under way can see, at once or through calls that may be used; nothing if
    /// every state may be of use. In an order with as few optional calls as possible each is seen by somebody
    /// before the next one overwrites it, or else it could be left out; not so where it was told, or on a list.
    fn useful(&self) -> Option<Vec<bool>> {
        let problem = self.problem;
        if problem.offers.is_empty() || !problem.told.is_empty() || problem.below.is_some() {
            return None;
        }
        let mut useful = vec![false; problem.states];
        let add = |useful: &mut [bool], want: Want| {
            let mut grew = false;
            for (state, useful) in (0..).zip(useful.iter_mut()) {
                if want != Want::Anything && problem.meets(state, want) {
                    grew |= !std::mem::replace(useful, true);
                }
            }
            grew
        };
        for slot in self.under_way.without(&self.at.placed) {
            add(&mut useful, problem.calls[self.occupant[slot as usize] as usize].want);
        }
        let mut grew = true;
        while std::mem::take(&mut grew) {
            for (offer, (used, offered)) in problem.offers.iter().zip(self.used.iter().zip(&self.offered)) {
                let call = &problem.calls[offer.calls[0] as usize];
                if let (true, Act::Set(after)) = (used < offered, call.act)
                    && useful[after as usize]
                {
                    grew |= add(&mut useful, call.want);
                }
            }
        }
        Some(useful)
    }

    /// Gives a call its place, and then every look that fits. Whether that may lead somewhere.
    fn place(&mut self, number: u32) -> bool {
        let call = &self.problem.calls[number as usize];
        let before = self.at.state;
        self.put(number);
        self.at.state = self.problem.after(before, call.act);
        if let Act::Set(state) = call.act {
            self.at.progress = self.progressed(state);
        }
        if !self.is_alive(before) {
            return false;
        }
        self.at.unseen = !call.required && self.problem.told.is_empty() && self.problem.below.is_none();
        for slot in self.looks.without(&self.at.placed) {
            let look = self.occupant[slot as usize];
            let want = self.problem.calls[look as usize].want;
            if self.problem.meets(self.at.state, want) {
                self.put(look);
                self.at.unseen &= want == Want::Anything;
            }
        }
        true
    }

    fn put(&mut self, number: u32) {
        let call = &self.problem.calls[number as usize];
        self.order.push(number);
        if let Act::Set(state) = call.act {
            self.suppliers[state as usize] -= 1;
        }
        if !call.required {
            self.used[call.slot as usize] += 1;
            return;
        }
        self.at.placed.insert(call.slot);
        if let Want::State(state) = call.want {
            self.wanted[state as usize] -= 1;
            self.wanted_left -= 1;
        }
    }

    /// Whether those who need a state that was just left can still get it.
    fn is_alive(&self, left: u32) -> bool {
        match &self.problem.below {
            _ if !self.problem.looks_ahead || left == self.at.state => true,
            // A list only grows: whoever needs something must need a continuation.
            Some(below) => self.wanted_left == below[self.at.state as usize],
            None => self.wanted[left as usize] == 0 || self.suppliers[left as usize] > 0,
        }
    }

    fn can_start(&self) -> bool {
        let missing = |state: usize| self.wanted[state] > 0 && self.suppliers[state] == 0;
        match &self.problem.below {
            _ if !self.problem.looks_ahead => true,
            Some(below) => self.wanted_left == below[self.at.state as usize],
            None => !(0..self.problem.states).any(|state| state != self.at.state as usize && missing(state)),
        }
    }

    /// The progress in the told orders when a version with this state is installed.
    fn progressed(&mut self, state: u32) -> u32 {
        if self.problem.told.is_empty() {
            return 0;
        }
        let mut progress = self.progress_list[self.at.progress as usize].clone();
        for (chain, done) in self.problem.told.iter().zip(progress.iter_mut()) {
            *done += u32::from(chain.get(*done as usize) == Some(&state));
        }
        self.numbered(progress)
    }

    fn numbered(&mut self, progress: Box<[u32]>) -> u32 {
        let next = self.progress_list.len() as u32;
        let number = *self.progresses.entry(progress.clone()).or_insert(next);
        if number == next {
            self.progress_list.push(progress);
        }
        number
    }
}
