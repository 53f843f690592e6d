//! What lists tell about overwrites alone (PL-1), where what was read binds nobody.
//!
//! A list shows in which order its elements came, those of its reader included, and that whatever it lacks came later.
//! Its reader's own elements at its end are not there for others yet, so that nothing follows for what it lacks but that it
//! comes after the elements before them. Of its reader's own elements that it lacks it tells nothing: that a transaction
//! missed its own append is a fault of a read, not of the order of writes. Elements that several transactions
//! appended, or none that counts, tell nothing.

use isolde_history::{History, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::evidence::attribution::Attribution;
use crate::evidence::dependencies::Succession;
use crate::evidence::outcome::Role;

/// A list that was read, without its reader's own elements at its end.
#[derive(Clone, Copy)]
struct Shown<'a> {
    reader: u32,
    before: &'a [Value],
    own: &'a [Value],
}

/// The successions of versions of a key that the lists of counted transactions show.
pub fn shown(history: &History, attribution: &Attribution, roles: &[Role], key: u32) -> Vec<Succession> {
    // Elements that are there from the start have no appender, nor have those of several transactions.
    let mut appenders: FxHashMap<Value, Option<u32>> =
        history.list(history.initial_value(key)).iter().map(|&element| (element, None)).collect();
    let mut version_of: FxHashMap<u32, u32> = FxHashMap::default();
    let mut lists: Vec<(u32, &[Value])> = Vec::new();
    // What a reader appended that did not take effect may be what its list shows, whoever else appended the same.
    let mut in_vain: FxHashSet<(u32, Value)> = FxHashSet::default();
    for place in attribution.places(key) {
        let (op, txn) = (attribution.op[place], attribution.txn[place]);
        match history.op(op as usize) {
            Op::Append(_, element) if roles[txn as usize] == Role::Effective => {
                appenders.entry(element).and_modify(|other| *other = None).or_insert(Some(txn));
                if attribution.installs[place] {
                    version_of.insert(txn, attribution.version_at(place as u32));
                }
            }
            Op::Append(_, element) => {
                in_vain.insert((txn, element));
            }
            Op::Read(_, value) if roles[txn as usize] != Role::Absent => lists.push((txn, history.list(value))),
            _ => {}
        }
    }
    let told: FxHashSet<u32> = appenders.values().copied().flatten().map(|txn| version_of[&txn]).collect();
    let versions = |reader: u32, list: &[Value]| {
        let told = list.iter().filter(|&&element| !in_vain.contains(&(reader, element)));
        let others = told.filter_map(|element| appenders[element]);
        let mut versions: Vec<u32> = others.map(|txn| version_of[&txn]).collect();
        versions.dedup();
        versions
    };
    // What has no single appender who counts is looked away from.
    let lists: Vec<(u32, Vec<Value>)> = lists
        .into_iter()
        .map(|(reader, list)| {
            let told = list.iter().copied().filter(|element| matches!(appenders.get(element), Some(Some(_))));
            (reader, told.collect())
        })
        .collect();
    let reads: Vec<Shown<'_>> = lists
        .iter()
        .map(|(reader, list)| {
            let mine = |e: &Value| appenders[e] == Some(*reader) || in_vain.contains(&(*reader, *e));
            let own = list.iter().rev().take_while(|element| mine(element)).count();
            let (before, own) = list.split_at(list.len() - own);
            Shown { reader: *reader, before, own }
        })
        .collect();
    let doubtful: FxHashSet<u32> = in_vain.iter().map(|&(reader, _)| reader).collect();
    let longest = |among: &dyn Fn(&Shown<'_>) -> bool| {
        let fitting = reads.iter().filter(|shown| !doubtful.contains(&shown.reader) && among(shown));
        fitting.max_by_key(|shown| shown.before.len()).copied()
    };
    let whole = longest(&|_| true);
    let beginning = |shown: &Shown<'_>| whole.is_some_and(|whole| whole.before.starts_with(shown.before));
    // A beginning of the longest list tells nothing new, but that list is silent about what its own reader appended later.
    let others = longest(&|shown| beginning(shown) && whole.is_some_and(|whole| whole.reader != shown.reader));
    let alone = reads.iter().copied().filter(|shown| doubtful.contains(&shown.reader) || !beginning(shown));
    let mut found = Vec::new();
    for shown in alone.chain(others).chain(whole) {
        let there = versions(shown.reader, shown.before);
        found.extend(there.windows(2).map(|pair| (pair[0], pair[1])));
        let Some(&last) = there.last() else { continue };
        // What may be its reader's own may as well be somebody else's, who is then not missing.
        let perhaps = shown.before.iter().chain(shown.own).filter_map(|element| appenders[element]);
        let seen: FxHashSet<u32> = there.into_iter().chain(perhaps.map(|txn| version_of[&txn])).collect();
        let mut later: Vec<u32> = told.difference(&seen).copied().collect();
        later.retain(|&version| attribution.writer(version) != shown.reader);
        later.sort_unstable();
        found.extend(later.into_iter().map(|version| (last, version)));
    }
    for shown in reads.iter().filter(|shown| !shown.own.is_empty()) {
        let before = versions(shown.reader, shown.before);
        let own = versions(shown.reader, shown.own);
        found.extend(before.last().copied().zip(own.first().copied()).filter(|(last, own)| last != own));
    }
    found
}
