//! Lists: what a read of a list tells about those who appended to it.
//!
//! A list that was read shows who appended what, and in which order: that order is the order of the versions of
//! the key, as far as the longest read goes (Kingsbury & Alvaro 2020, Elle). A read is attributed to the appender of its
//! last element; what its own transaction had appended before stands at the end and is looked away from. The appends of a
//! transaction take effect together, so that a list may not end, or go on with others, between two of them.

use isolde_history::{History, Status, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::evidence::attribution::{Access, Attribution, Found, INITIAL, NONE};
use crate::evidence::faults::{Fault, ReadFault};
use crate::evidence::outcome::Role;

/// Who appended an element of a key.
#[derive(Clone, Copy)]
struct Appended {
    /// The place of the append among the operations of the key.
    at: usize,
    /// Whether several transactions that may have committed did.
    many: bool,
    aborted: bool,
}

/// The operations on one list.
pub struct ListKey<'a> {
    history: &'a History,
    judge_aborted: bool,
    key: u32,
    /// The version of the append at place 0 of this key.
    first_version: u32,
    accesses: &'a [Access],
    read_of: &'a mut [u32],
    installs: &'a mut [bool],
    appended: FxHashMap<Value, Appended>,
    /// The next append of the same transaction, by place.
    next: Vec<u32>,
    /// Whether an append is the first of its transaction, by place.
    begins: Vec<bool>,
    /// What the list holds before the first transaction.
    initial: &'a [Value],
    /// Whether a transaction of unknown outcome appended something.
    in_doubt: bool,
}

impl<'a> ListKey<'a> {
    /// The key whose operations are `accesses`.
    pub(crate) fn new(
        history: &'a History,
        judge_aborted: bool,
        key: u32,
        first_version: u32,
        accesses: &'a [Access],
        read_of: &'a mut [u32],
        installs: &'a mut [bool],
    ) -> Self {
        ListKey {
            history,
            judge_aborted,
            key,
            first_version,
            accesses,
            read_of,
            installs,
            appended: FxHashMap::default(),
            next: vec![NONE; accesses.len()],
            begins: vec![false; accesses.len()],
            initial: history.list(history.initial_value(key)),
            in_doubt: accesses.iter().any(|access| {
                access.wrote != Value::MISSING && history.txns.status[access.txn as usize] == Status::Unknown
            }),
        }
    }

    /// Attributes every read.
    pub(crate) fn settle(&mut self, found: &mut Found) {
        let aborted = |txn: u32| self.history.txns.status[txn as usize] == Status::Aborted;
        let mut last: Option<usize> = None;
        let mut shared: Vec<Access> = Vec::new();
        for (at, access) in self.accesses.iter().enumerate().filter(|(_, access)| access.wrote != Value::MISSING) {
            match last {
                Some(before) if self.accesses[before].txn == access.txn => {
                    self.next[before] = at as u32;
                    self.installs[before] = false;
                }
                _ => self.begins[at] = true,
            }
            self.installs[at] = !aborted(access.txn);
            last = Some(at);
            if self.initial.contains(&access.wrote) {
                found.shared = true;
                shared.push(*access);
            }
            let (aborted, initial) = (aborted(access.txn), self.initial.contains(&access.wrote));
            let new = Appended { at, many: initial && !aborted, aborted };
            self.appended
                .entry(access.wrote)
                .and_modify(|known| match (known.aborted, new.aborted) {
                    (true, false) => *known = new,
                    (false, false) => {
                        known.many = true;
                        found.shared = true;
                        shared.extend([self.accesses[known.at], *access]);
                    }
                    (_, true) => {}
                })
                .or_insert(new);
        }
        let in_doubt = |access: &Access| self.history.txns.status[access.txn as usize] == Status::Unknown;
        found.shared_in_doubt.extend(shared.iter().filter(|access| in_doubt(access)).map(|access| access.op));
        let mut first = 0;
        let mut verified: &[Value] = &[];
        while first < self.accesses.len() {
            let txn = self.accesses[first].txn;
            let end = first + self.accesses[first..].iter().take_while(|access| access.txn == txn).count();
            if self.judge_aborted || !aborted(txn) {
                self.transaction(first..end, &mut verified, found);
            }
            first = end;
        }
    }

    fn fault(&self, kind: ReadFault, read: usize, other: Option<usize>) -> Fault {
        let access = self.accesses[read];
        let (other_op, other) = other.map_or((NONE, INITIAL), |at| (self.accesses[at].op, self.accesses[at].txn));
        Fault { kind, reader: access.txn, read_op: access.op, other_op, other }
    }

    /// The reads of one transaction.
    fn transaction(&mut self, run: std::ops::Range<usize>, verified: &mut &'a [Value], found: &mut Found) {
        let mut own: Vec<Value> = Vec::new();
        // What was read before an own append, and what the own appends were made on.
        let mut before: Option<(usize, &[Value])> = None;
        let mut base: Option<&[Value]> = None;
        for at in run.clone() {
            let access = self.accesses[at];
            if access.wrote != Value::MISSING {
                own.push(access.wrote);
            }
            if access.read == Value::MISSING {
                continue;
            }
            let read: &'a [Value] = self.history.list(access.read);
            let Some(outside) = read.strip_suffix(&own[..]) else {
                let lost = own.iter().find(|element| !read.contains(element));
                let kind = if lost.is_some() { ReadFault::NotMyOwnWrite } else { ReadFault::NotMyLastWrite };
                let mine = run.clone().find(|&place| self.accesses[place].wrote == *lost.unwrap_or(&own[0]));
                found.faults.push(self.fault(kind, at, mine));
                continue;
            };
            if !own.is_empty() {
                match base {
                    Some(base) if base != outside => {
                        found.faults.push(self.fault(ReadFault::NotMyOwnWrite, at, None));
                        continue;
                    }
                    // It looks at its own version again, which shows nothing new of others.
                    Some(_) => continue,
                    None => base = Some(outside),
                }
            }
            match self.look(at, outside, &run, verified, found) {
                Ok(version) => self.read_of[at] = version,
                Err(Some(fault)) => {
                    found.faults.push(fault);
                    continue;
                }
                Err(None) => found.ambiguous.push(access.op),
            }
            if let Some((earlier, seen)) = before.replace((at, outside))
                && seen != outside
            {
                found.faults.push(self.fault(ReadFault::NonRepeatable, at, Some(earlier)));
            }
        }
    }

    /// The version that a list shows; otherwise what is wrong with it, or `None` if its elements have several appenders.
    fn look(
        &self,
        read: usize,
        list: &'a [Value],
        run: &std::ops::Range<usize>,
        verified: &mut &'a [Value],
        found: &mut Found,
    ) -> Result<u32, Option<Fault>> {
        let fault = |kind, other| Err(Some(self.fault(kind, read, other)));
        let Some(list) = list.strip_prefix(self.initial) else {
            let lost = self.initial.iter().any(|element| !list.contains(element));
            return fault(if lost { ReadFault::LostElement } else { ReadFault::IncompatibleOrder }, None);
        };
        let known = list.iter().zip(verified.iter()).take_while(|(a, b)| a == b).count();
        // What is the same as in a list that was found good is good, up to the place where they part.
        let mut at = if known == list.len().min(verified.len()) { known } else { 0 };
        // What was good for another reader holds elements of this one only if it saw them before it appended them.
        let mine = run.clone().find(|&own| {
            let element = self.accesses[own].wrote;
            element != Value::MISSING && self.appended[&element].at == own && list[..at].contains(&element)
        });
        if let Some(own) = mine {
            return fault(ReadFault::Future, Some(own));
        }
        let mut shown: FxHashSet<Value> = FxHashSet::default();
        if at < list.len() {
            shown.extend(&list[..at]);
        }
        let mut inside: Option<usize> = None;
        if at > 0 {
            let before = self.appended[&list[at - 1]].at;
            if self.next[before] != NONE {
                inside = Some(before);
            }
        }
        while at < list.len() {
            let element = list[at];
            let Some(&who) = self.appended.get(&element) else { return fault(ReadFault::ThinAir, None) };
            if who.many {
                return Err(None);
            }
            if !shown.insert(element) {
                return fault(ReadFault::DuplicateElement, Some(who.at));
            }
            if run.contains(&who.at) {
                return fault(ReadFault::Future, Some(who.at));
            }
            if who.aborted {
                return fault(ReadFault::of_uninstalled(true), Some(who.at));
            }
            match inside {
                Some(before) if self.next[before] as usize == who.at => {}
                Some(before) => return fault(ReadFault::of_uninstalled(false), Some(before)),
                None if !self.begins[who.at] => {
                    let first = self.first_of(who.at);
                    let later = list[at..].contains(&self.accesses[first].wrote);
                    let kind = if later { ReadFault::IncompatibleOrder } else { ReadFault::LostElement };
                    return fault(kind, Some(first));
                }
                None => {}
            }
            inside = (self.next[who.at] != NONE).then_some(who.at);
            at += 1;
        }
        if let Some(before) = inside {
            return fault(ReadFault::of_uninstalled(false), Some(before));
        }
        if list.len() > verified.len() {
            *verified = list;
        }
        // Every reader tells for itself who took effect: the one who verified a beginning may not count.
        if self.in_doubt {
            list.iter().for_each(|element| self.note_unknown(read, self.appended[element].at, found));
        }
        Ok(match list.last() {
            Some(element) => self.first_version + self.appended[element].at as u32,
            None => Attribution::initial_version(self.key),
        })
    }

    fn first_of(&self, at: usize) -> usize {
        let txn = self.accesses[at].txn;
        (0..=at)
            .rev()
            .take_while(|&place| self.accesses[place].txn == txn)
            .filter(|&place| self.begins[place])
            .last()
            .unwrap_or(at)
    }

    fn note_unknown(&self, read: usize, appended: usize, found: &mut Found) {
        let writer = self.accesses[appended].txn;
        if self.history.txns.status[writer as usize] == Status::Unknown {
            found.also_seen.push((self.accesses[read].txn, writer));
        }
    }
}

/// What the lists of one key tell about the order of its versions.
#[derive(Default)]
pub struct Told {
    /// The versions in the order of the longest list, the initial one first.
    pub order: Vec<u32>,
    /// Whether no version comes twice in it, so that each is the one right after the one before.
    pub chain: bool,
    /// Successions that only other lists show.
    pub more: Vec<(u32, u32)>,
    /// Versions that no list shows, each with one that it comes after.
    pub unread: Vec<(u32, u32)>,
    /// Lists that do not go together with the longest.
    pub faults: Vec<Fault>,
}

struct Seen<'a> {
    op: u32,
    reader: u32,
    list: &'a [Value],
}

/// Reads the order of a key's versions off the lists that counted transactions read.
pub fn told(history: &History, attribution: &Attribution, roles: &[Role], key: u32) -> Told {
    // Elements that are there from the start have no appender.
    let mut appenders: FxHashMap<Value, Option<u32>> =
        history.list(history.initial_value(key)).iter().map(|&element| (element, None)).collect();
    let mut version_of: FxHashMap<u32, u32> = FxHashMap::default();
    let mut reads: Vec<Seen<'_>> = Vec::new();
    let mut own: (u32, Vec<Value>) = (NONE, Vec::new());
    for place in attribution.places(key) {
        let (op, txn) = (attribution.op[place], attribution.txn[place]);
        if own.0 != txn {
            own = (txn, Vec::new());
        }
        match history.op(op as usize) {
            isolde_history::Op::Append(_, element) => {
                own.1.push(element);
                if roles[txn as usize] == Role::Effective {
                    appenders.entry(element).and_modify(|other| *other = None).or_insert(Some(txn));
                }
                if attribution.installs[place] && roles[txn as usize] == Role::Effective {
                    version_of.insert(txn, attribution.version_at(place as u32));
                }
            }
            isolde_history::Op::Read(_, value) if roles[txn as usize] != Role::Absent => {
                let list = history.list(value);
                reads.push(Seen { op, reader: txn, list: list.strip_suffix(&own.1[..]).unwrap_or(list) });
            }
            _ => {}
        }
    }
    // The versions that a list shows: those of its elements that one other transaction appended.
    let versions = |seen: &Seen<'_>| {
        let others = seen.list.iter().filter_map(|element| appenders.get(element).copied().flatten());
        let mut versions: Vec<u32> = others.filter(|&txn| txn != seen.reader).map(|txn| version_of[&txn]).collect();
        versions.dedup();
        versions
    };
    let mut told = Told::default();
    // A list that shows its reader's own elements before the end is wrong, and no measure for others.
    let odd = |seen: &Seen<'_>| seen.list.iter().any(|element| appenders.get(element) == Some(&Some(seen.reader)));
    let longest = reads.iter().filter(|seen| !odd(seen)).max_by_key(|seen| seen.list.len());
    let initial = Attribution::initial_version(key);
    told.order = std::iter::once(initial).chain(longest.map(&versions).unwrap_or_default()).collect();
    let shown: FxHashSet<u32> = told.order.iter().copied().collect();
    told.chain = shown.len() == told.order.len();
    for seen in &reads {
        let other = match longest {
            Some(longest) if longest.list.starts_with(seen.list) => continue,
            Some(longest) => {
                let other = versions(seen);
                // Two lists may differ in what their readers themselves appended, or in what nobody appended.
                let theirs = told.order[1..].iter().copied().filter(|&v| attribution.writer(v) != seen.reader);
                let mine = other.iter().copied().filter(|&v| attribution.writer(v) != longest.reader);
                if theirs.zip(mine).any(|(a, b)| a != b) {
                    told.faults.push(incompatible(seen, longest));
                }
                other
            }
            None => versions(seen),
        };
        told.more.extend(other.windows(2).map(|pair| (pair[0], pair[1])));
        if let Some(&last) = other.last() {
            let later = version_of.values().filter(|v| !other.contains(v) && attribution.writer(**v) != seen.reader);
            told.more.extend(later.map(|&version| (last, version)));
        }
    }
    let second = longest.and_then(|longest| {
        reads
            .iter()
            .filter(|seen| !odd(seen) && seen.reader != longest.reader)
            .max_by_key(|seen| seen.list.len())
            .map(&versions)
    });
    let mut unread: Vec<u32> = version_of.values().copied().filter(|version| !shown.contains(version)).collect();
    unread.sort_unstable();
    told.unread = unread
        .into_iter()
        .map(|version| {
            let mine = longest.is_some_and(|longest| longest.reader == attribution.writer(version));
            let last = if mine { second.as_ref().and_then(|order| order.last()) } else { told.order.last() };
            (last.copied().filter(|&last| last != version).unwrap_or(initial), version)
        })
        .collect();
    told
}

fn incompatible(seen: &Seen<'_>, longest: &Seen<'_>) -> Fault {
    let place: FxHashMap<Value, usize> = longest.list.iter().enumerate().map(|(at, &element)| (element, at)).collect();
    let shared: Vec<usize> = seen.list.iter().filter_map(|element| place.get(element).copied()).collect();
    let in_order = shared.windows(2).all(|pair| pair[0] < pair[1]);
    // Something of the longer list is missing although something behind it is there.
    let lost = shared.last().is_some_and(|&last| shared.len() <= last);
    let kind = if in_order && lost { ReadFault::LostElement } else { ReadFault::IncompatibleOrder };
    Fault { kind, reader: seen.reader, read_op: seen.op, other_op: longest.op, other: longest.reader }
}
