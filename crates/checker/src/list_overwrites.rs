//! What lists tell about overwrites alone (PL-1), where what was read binds nobody.
//!
//! A list shows in which order its elements came, those of its reader included, and that whatever it lacks came later.
//! Only of its reader's own elements that it lacks it tells nothing: that a transaction missed its own append is a fault
//! of a read, not of the order of writes. Elements that several transactions appended, or none that counts, tell nothing.

use isolde_history::{History, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::Attribution;
use crate::dependencies::Succession;
use crate::outcome::Role;

/// A list that was read, as the versions whose elements it shows.
struct Shown {
    reader: u32,
    versions: Vec<u32>,
}

/// The successions of versions of a key that the lists of counted transactions show.
pub fn shown(history: &History, attribution: &Attribution, roles: &[Role], key: u32) -> Vec<Succession> {
    // Elements that are there from the start have no appender, nor have those of several transactions.
    let mut appenders: FxHashMap<Value, Option<u32>> =
        history.list(history.initial_value(key)).iter().map(|&element| (element, None)).collect();
    let mut version_of: FxHashMap<u32, u32> = FxHashMap::default();
    let mut reads: Vec<(u32, &[Value])> = Vec::new();
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
            Op::Read(_, value) if roles[txn as usize] != Role::Absent => reads.push((txn, history.list(value))),
            _ => {}
        }
    }
    let told: FxHashSet<u32> = appenders.values().copied().flatten().map(|txn| version_of[&txn]).collect();
    let versions = |reader: u32, list: &[Value]| {
        let told = list.iter().filter(|&&element| !in_vain.contains(&(reader, element)));
        let appended = told.filter_map(|element| appenders.get(element).copied().flatten());
        let mut versions: Vec<u32> = appended.map(|txn| version_of[&txn]).collect();
        versions.dedup();
        versions
    };
    let doubtful: FxHashSet<u32> = in_vain.iter().map(|&(reader, _)| reader).collect();
    let longest = |among: &dyn Fn(u32, &[Value]) -> bool| {
        let fitting = reads.iter().filter(|(reader, list)| !doubtful.contains(reader) && among(*reader, list));
        fitting.max_by_key(|(_, list)| list.len()).copied()
    };
    let whole = longest(&|_, _| true);
    let beginning = |list: &[Value]| whole.is_some_and(|(_, whole)| whole.starts_with(list));
    // A beginning of the longest list tells nothing new, but that list is silent about what its own reader appended later.
    let others = longest(&|reader, list| beginning(list) && whole.is_some_and(|(other, _)| other != reader));
    let alone = reads.iter().copied().filter(|(reader, list)| doubtful.contains(reader) || !beginning(list));
    let telling = alone.chain(others).chain(whole);
    let lists = telling.map(|(reader, list)| Shown { reader, versions: versions(reader, list) });
    let mut found = Vec::new();
    for shown in lists {
        found.extend(shown.versions.windows(2).map(|pair| (pair[0], pair[1])));
        let Some(&last) = shown.versions.last() else { continue };
        let there: FxHashSet<u32> = shown.versions.iter().copied().collect();
        let mut later: Vec<u32> = told.difference(&there).copied().collect();
        later.retain(|&version| attribution.writer(version) != shown.reader);
        later.sort_unstable();
        found.extend(later.into_iter().map(|version| (last, version)));
    }
    found
}
