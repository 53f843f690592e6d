//! Does an order explain a history? By doing what the transactions did, in that order, and comparing values.
//!
//! Nothing of the attribution or of the graphs is used here, so that a wrong step there cannot hide.

use isolde_history::{NO_KEY, Op, Status, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::Analysis;
use crate::decision::Question;
use crate::evidence::attribution::NONE;
use crate::evidence::outcome::Role;
use crate::evidence::realtime;
use crate::order::acyclic::{Explanation, Rule};

/// What a key held, and since which commit.
#[derive(Default)]
struct Register {
    versions: Vec<(u32, Value)>,
    /// For lists: all elements, and how many there were after each commit.
    elements: Vec<Value>,
    lengths: Vec<(u32, usize)>,
    /// How many there were from the start.
    first: usize,
}

impl Register {
    fn value_at(&self, snapshot: u32, initial: Value) -> Value {
        let before = self.versions.partition_point(|&(commit, _)| commit < snapshot);
        before.checked_sub(1).map_or(initial, |at| self.versions[at].1)
    }

    fn list_at(&self, snapshot: u32) -> &[Value] {
        let before = self.lengths.partition_point(|&(commit, _)| commit < snapshot);
        &self.elements[..before.checked_sub(1).map_or(self.first, |at| self.lengths[at].1)]
    }

    /// The commit that changed it last.
    fn changed_last(&self) -> Option<u32> {
        let last = self.versions.last().map(|&(commit, _)| commit);
        last.max(self.lengths.last().map(|&(commit, _)| commit))
    }

    fn changed_since(&self, snapshot: u32) -> bool {
        self.changed_last().is_some_and(|commit| commit >= snapshot)
    }
}

impl Analysis {
    /// Checks that `explanation` keeps the rule's order, and that every operation gives the answer that was recorded.
    pub fn replays(&self, question: Question, explanation: &Explanation) -> bool {
        let (rule, real_time) = (question.rule(), question.real_time());
        let Explanation { commits, snapshots, effects } = explanation;
        let effects: FxHashSet<u32> = effects.iter().copied().collect();
        let mut place = vec![None; self.history.len()];
        for (at, &txn) in commits.iter().enumerate() {
            if place[txn as usize].replace(at as u32).is_some() {
                return false;
            }
        }
        let all_there = (0..self.history.len()).all(|row| place[row].is_some() || self.roles[row] == Role::Absent);
        let counts_only = commits.iter().all(|&txn| self.roles[txn as usize] != Role::Absent || effects.contains(&txn));
        let may_have = effects.iter().all(|&txn| self.history.txns.status[txn as usize] == Status::Unknown);
        let one_each = snapshots.is_empty() || snapshots.len() == commits.len();
        if !all_there || !counts_only || !may_have || !one_each || (rule == Rule::Serializable && !snapshots.is_empty())
        {
            return false;
        }
        let snapshot = |at: usize| snapshots.get(at).copied().unwrap_or(at as u32);
        let precede = |first: u32, second: u32| match (place[first as usize], place[second as usize]) {
            (Some(first), Some(second)) => first < snapshot(second as usize),
            _ => true,
        };
        self.keeps_sessions(&place, &precede)
            && (!real_time || self.keeps_time(commits, &snapshot))
            && self.keeps_values(rule, explanation, &snapshot)
            && self.keeps_told(explanation)
            && self.keeps_installed(&place)
            && self.keeps_edges(question, &place, &snapshot)
    }

    /// Whether what evidence from outside says about transactions is so, if each reads at its snapshot.
    fn keeps_edges(&self, question: Question, place: &[Option<u32>], snapshot: &impl Fn(usize) -> u32) -> bool {
        let mut edges = self.outside.edges(question, |txn| place[txn as usize].is_some());
        edges.all(|(from, to, kind)| {
            let (Some(from), Some(to)) = (place[from as usize], place[to as usize]) else { return true };
            match question.rule() {
                Rule::Serializable => from < to,
                _ if kind.is_anti() => snapshot(from as usize) <= to,
                Rule::Prefix if kind.orders_commits() => from < to,
                Rule::Snapshot | Rule::Prefix => from < snapshot(to as usize),
            }
        })
    }

    /// Whether the versions come in the orders that evidence from outside tells.
    pub(crate) fn keeps_installed(&self, place: &[Option<u32>]) -> bool {
        self.outside.chains.iter().all(|chain| {
            let writers = chain.iter().filter(|&&op| op != NONE).map(|&op| self.txn_of(op));
            let mut last = None;
            writers.filter_map(|txn| place[txn as usize]).all(|at| last.replace(at).is_none_or(|before| before <= at))
        })
    }

    /// What the orders of weak levels have in common: sessions are kept, and whatever was read, every element of a list
    /// included, was there from the start or was written by one that took effect and comes before.
    pub fn accounts_for(&self, question: Question, explanation: &Explanation) -> bool {
        let history = &self.history;
        let effects: FxHashSet<u32> = explanation.effects.iter().copied().collect();
        let mut place = vec![None; history.len()];
        for (at, &txn) in explanation.commits.iter().enumerate() {
            if place[txn as usize].replace(at as u32).is_some() {
                return false;
            }
        }
        if (0..history.len()).any(|row| place[row].is_none() && self.roles[row] != Role::Absent) {
            return false;
        }
        // By key and value: the first place at which somebody wrote it.
        let mut written: FxHashMap<(u32, Value), u32> = FxHashMap::default();
        for (at, &txn) in explanation.commits.iter().enumerate() {
            if self.roles[txn as usize] != Role::Effective && !effects.contains(&txn) {
                continue;
            }
            for row in history.ops_of(txn) {
                let (Op::Write(key, value) | Op::Append(key, value)) = history.op(row) else {
                    if let Op::Cas(key, cas) = history.op(row)
                        && cas.applied
                    {
                        written.entry((key, cas.new)).or_insert(at as u32);
                    }
                    continue;
                };
                written.entry((key, value)).or_insert(at as u32);
            }
        }
        let mut initial = vec![Value::NULL; history.keys.len()];
        for &(name, value) in &history.header.initial {
            if let Some(key) = history.keys.find(name) {
                initial[key as usize] = value;
            }
        }
        let precede = |first: u32, second: u32| place[first as usize] < place[second as usize];
        // What must not be visible is not told by an order alone.
        let mut ordered = self.outside.edges(question, |txn| place[txn as usize].is_some());
        if !ordered.all(|(from, to, kind)| kind.is_anti() || precede(from, to)) || !self.keeps_installed(&place) {
            return false;
        }
        self.keeps_sessions(&place, &precede)
            && explanation
                .commits
                .iter()
                .enumerate()
                .all(|(at, &txn)| self.sees_what_was_there(txn, at as u32, &initial, &written))
    }

    /// Whether all that a transaction read was its own, there from the start, or written before its place.
    fn sees_what_was_there(
        &self,
        txn: u32,
        at: u32,
        initial: &[Value],
        written: &FxHashMap<(u32, Value), u32>,
    ) -> bool {
        let history = &self.history;
        let mut own: Vec<(u32, Value)> = Vec::new();
        history.ops_of(txn).all(|row| {
            let there = |key: u32, value: Value| {
                let initial = initial[key as usize];
                own.contains(&(key, value))
                    || value == initial
                    || history.list(initial).contains(&value)
                    || written.get(&(key, value)).is_some_and(|&first| first < at)
            };
            match history.op(row) {
                Op::Read(key, value) if value.is_list() => history.list(value).iter().all(|&e| there(key, e)),
                Op::Read(_, value) if value == Value::NULL && history.has_lists() => true,
                Op::Read(key, value) => there(key, value),
                Op::Cas(key, cas) if cas.applied => {
                    let seen = there(key, cas.expected);
                    own.push((key, cas.new));
                    seen
                }
                Op::Cas(key, cas) => cas.current == Value::MISSING || there(key, cas.current),
                Op::Write(key, value) | Op::Append(key, value) => {
                    own.push((key, value));
                    true
                }
                Op::Scan(_) | Op::Sql(_) => self.outside.complete,
            }
        })
    }

    /// Whether the values come in the order that the `versions` lines tell; what was never there says nothing.
    pub(crate) fn keeps_told(&self, explanation: &Explanation) -> bool {
        let history = &self.history;
        if history.versions.is_empty() || history.has_lists() {
            return true;
        }
        let effects: FxHashSet<u32> = explanation.effects.iter().copied().collect();
        let mut installed: FxHashMap<u32, Vec<Value>> =
            history.versions.iter().map(|&(key, _)| (key, vec![history.initial_value(key)])).collect();
        for &txn in &explanation.commits {
            if self.roles[txn as usize] != Role::Effective && !effects.contains(&txn) {
                continue;
            }
            let mut own: FxHashMap<u32, Value> = FxHashMap::default();
            for row in history.ops_of(txn) {
                match history.op(row) {
                    Op::Write(key, value) => own.insert(key, value),
                    Op::Cas(key, cas) if cas.applied => own.insert(key, cas.new),
                    Op::Read(..) | Op::Cas(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => None,
                };
            }
            for (key, value) in own {
                installed.entry(key).and_modify(|values| values.push(value));
            }
        }
        history.versions.iter().all(|(key, told)| {
            let there = &installed[key];
            let mut rest = there.iter();
            told.iter().filter(|value| there.contains(value)).all(|value| rest.any(|other| other == value))
        })
    }

    fn keeps_sessions(&self, place: &[Option<u32>], precede: &impl Fn(u32, u32) -> bool) -> bool {
        if !self.options.session_order {
            return true;
        }
        let mut last = vec![None; self.history.sessions.len()];
        (0..self.history.len() as u32).filter(|&txn| place[txn as usize].is_some()).all(|txn| {
            let before = last[self.history.txns.session[txn as usize] as usize].replace(txn);
            before.is_none_or(|before| precede(before, txn))
        })
    }

    /// Whether nothing began its snapshot before the commit of something that was over when it started.
    fn keeps_time(&self, commits: &[u32], snapshot: &impl Fn(usize) -> u32) -> bool {
        // The earliest end among the commits from each place on.
        let mut earliest = vec![i64::MAX; commits.len() + 1];
        for (at, &txn) in commits.iter().enumerate().rev() {
            earliest[at] = earliest[at + 1].min(realtime::end_of(&self.history, txn).unwrap_or(i64::MAX));
        }
        commits
            .iter()
            .enumerate()
            .all(|(at, &txn)| earliest[snapshot(at) as usize] >= self.history.txns.start[txn as usize])
    }

    /// Whether every operation gets its recorded answer, if each transaction sees as many commits as `snapshot` says.
    pub(crate) fn keeps_values(&self, rule: Rule, explanation: &Explanation, snapshot: &impl Fn(usize) -> u32) -> bool {
        self.first_misfit(rule, explanation, snapshot).is_none()
    }

    /// The first operation that does not get its recorded answer, and the commit that its key was changed by last.
    pub(crate) fn first_misfit(
        &self,
        rule: Rule,
        explanation: &Explanation,
        snapshot: &impl Fn(usize) -> u32,
    ) -> Option<(usize, Option<u32>)> {
        let history = &self.history;
        let effects: FxHashSet<u32> = explanation.effects.iter().copied().collect();
        let mut keys: Vec<Register> = (0..history.keys.len()).map(|_| Register::default()).collect();
        let mut initial = vec![Value::NULL; history.keys.len()];
        for &(name, value) in &history.header.initial {
            if let Some(key) = history.keys.find(name) {
                initial[key as usize] = value;
                keys[key as usize].elements = history.list(value).to_vec();
                keys[key as usize].first = history.list(value).len();
            }
        }
        for (at, &txn) in explanation.commits.iter().enumerate() {
            let seen = snapshot(at);
            let mut own: Vec<(u32, Value)> = Vec::new();
            let mut appended: Vec<(u32, Value)> = Vec::new();
            for row in history.ops_of(txn) {
                let key = history.ops.key[row];
                if key == NO_KEY {
                    // What such an operation saw is in the edges, or nowhere.
                    if self.outside.complete {
                        continue;
                    }
                    return Some((row, None));
                }
                let register = &keys[key as usize];
                let misfit = || Some((row, register.changed_last()));
                let mine = own.iter().rev().find(|(k, _)| *k == key).map(|&(_, value)| value);
                let now = mine.unwrap_or_else(|| register.value_at(seen, initial[key as usize]));
                match history.op(row) {
                    Op::Read(_, value)
                        if value.is_list()
                            || initial[key as usize].is_list()
                            || appended.iter().any(|(k, _)| *k == key) =>
                    {
                        let read = history.list(value);
                        let more = appended.iter().filter(|(k, _)| *k == key).map(|(_, element)| element);
                        if !register.list_at(seen).iter().chain(more).eq(read.iter()) {
                            return misfit();
                        }
                    }
                    Op::Read(_, value) if value == Value::NULL && !register.list_at(seen).is_empty() => {
                        return misfit();
                    }
                    Op::Read(_, value) if value != now => return misfit(),
                    Op::Cas(_, cas) if cas.applied && cas.expected != now => return misfit(),
                    Op::Cas(_, cas) if cas.applied => own.push((key, cas.new)),
                    Op::Cas(_, cas) if cas.current == Value::MISSING && cas.expected == now => return misfit(),
                    Op::Cas(_, cas) if cas.current != Value::MISSING && cas.current != now => return misfit(),
                    Op::Write(_, value) => own.push((key, value)),
                    Op::Append(_, element) => appended.push((key, element)),
                    Op::Read(..) | Op::Cas(..) => {}
                    Op::Scan(_) | Op::Sql(_) => return misfit(),
                }
            }
            if self.roles[txn as usize] != Role::Effective && !effects.contains(&txn) {
                continue;
            }
            let overwritten =
                |&(key, _): &(u32, Value)| rule == Rule::Snapshot && keys[key as usize].changed_since(seen);
            if own.iter().chain(&appended).any(overwritten) {
                return Some((history.ops_of(txn).start, None));
            }
            // Where everybody sees all that came before, only the last version is ever looked at.
            let last_only = explanation.snapshots.is_empty();
            for (key, value) in own {
                let versions = &mut keys[key as usize].versions;
                if last_only {
                    versions.clear();
                }
                versions.push((at as u32, value));
            }
            for (key, element) in appended {
                let register = &mut keys[key as usize];
                register.elements.push(element);
                register.lengths.push((at as u32, register.elements.len()));
            }
        }
        None
    }
}
