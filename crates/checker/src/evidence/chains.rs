//! Which version of a key follows which: by read-modify-writes, by lists, by what the database told.

use isolde_history::{History, Op, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::dependencies::{Counts, Succession, Teller};
use crate::evidence::faults::Fault;
use crate::evidence::lists;
use crate::evidence::outcome::Role;

fn reads_something(history: &History, op: u32) -> bool {
    match history.op(op as usize) {
        Op::Read(..) => true,
        Op::Cas(_, cas) => cas.applied || cas.current != Value::MISSING,
        Op::Write(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => false,
    }
}

/// Which version follows which.
pub struct Chains {
    /// The version that follows each, or [`NONE`].
    pub overwritten_by: Vec<u32>,
    /// Further known followers.
    pub also: FxHashMap<u32, Vec<u32>>,
    /// Whether each version was made from the one before it.
    pub made: Vec<bool>,
    /// Pairs that are open, by key.
    pub open: FxHashMap<u32, u64>,
    /// Versions that two transactions read and overwrote: the version and the two that they installed.
    pub divergences: Vec<(u32, u32, u32)>,
    /// Successions in `overwritten_by` that no read-modify-write shows.
    pub placed: Vec<(u32, u32)>,
    /// Versions told to be older than the initial one.
    pub before_initial: Vec<u32>,
    /// Versions told to follow themselves.
    pub told_twice: Vec<u32>,
    /// Told successions.
    pub told: Vec<(u32, u32)>,
    /// Told successions that what was read does not show.
    pub told_only: FxHashMap<Succession, Teller>,
    /// Whether what was told could not be used whole.
    pub told_ambiguously: bool,
    /// Lists that do not go together with others of their key.
    pub list_faults: Vec<Fault>,
}

impl Chains {
    /// Reads them off the history.
    pub fn find(history: &History, attribution: &Attribution, roles: &[Role], counts: &mut Counts) -> Chains {
        let mut chains = Chains {
            overwritten_by: vec![NONE; attribution.version_count()],
            also: FxHashMap::default(),
            made: vec![false; attribution.version_count()],
            open: FxHashMap::default(),
            divergences: Vec::new(),
            placed: Vec::new(),
            before_initial: Vec::new(),
            told_twice: Vec::new(),
            told: Vec::new(),
            told_only: FxHashMap::default(),
            told_ambiguously: false,
            list_faults: Vec::new(),
        };
        let mut roots = Vec::new();
        let lists = history.has_lists();
        for key in 0..attribution.keys() {
            if lists {
                chains.add_list(history, attribution, roles, key, counts);
                continue;
            }
            roots.clear();
            let mut read: Option<(u32, u32)> = None;
            for place in attribution.places(key) {
                let txn = attribution.txn[place];
                let version = attribution.read_of[place];
                // The first read counts even if it has no single writer: a later one does not replace it.
                if read.is_none_or(|(reader, _)| reader != txn)
                    && (version != NONE || reads_something(history, attribution.op[place]))
                {
                    read = Some((txn, version));
                }
                if attribution.installs[place] && roles[txn as usize] == Role::Effective {
                    let installed = attribution.version_at(place as u32);
                    match read {
                        Some((reader, before)) if reader == txn && before != NONE => chains.follow(before, installed),
                        _ => roots.push(installed),
                    }
                }
            }
            chains.place_roots(key, &roots, counts);
        }
        chains
    }

    /// The order that the lists of a key show.
    fn add_list(
        &mut self,
        history: &History,
        attribution: &Attribution,
        roles: &[Role],
        key: u32,
        counts: &mut Counts,
    ) {
        let told = lists::told(history, attribution, roles, key);
        self.list_faults.extend(told.faults);
        let pairs = || told.order.windows(2).map(|pair| (pair[0], pair[1]));
        let more = if told.chain { None } else { Some(pairs()) }.into_iter().flatten().chain(told.more.iter().copied());
        for (before, after) in more {
            self.told.push((before, after));
            self.also.entry(before).or_default().push(after);
        }
        let last = told.order.last().copied().unwrap_or(Attribution::initial_version(key));
        for &(after, version) in &told.unread {
            self.told.push((last, version));
            if after != last {
                self.also.entry(after).or_default().push(version);
            }
        }
        if !told.chain {
            return;
        }
        for (before, after) in pairs() {
            self.made[after as usize] = true;
            self.overwritten_by[before as usize] = after;
            self.placed.push((before, after));
            self.told.push((before, after));
        }
        let roots: Vec<u32> = told.unread.iter().map(|&(_, version)| version).collect();
        self.place_after(key, last, &roots, counts);
        // Two that read the end of the list and then appended to it have lost an update, whoever came first.
        let made = |&root: &u32| {
            let writer = attribution.writer(root);
            attribution.places(key).any(|p| attribution.txn[p] == writer && attribution.read_of[p] == last)
        };
        let mut made = roots.iter().copied().filter(made);
        if let (Some(first), Some(second)) = (made.next(), made.next()) {
            self.divergences.push((last, first, second));
            for root in [first, second] {
                let also = self.also.entry(last).or_default();
                if !also.contains(&root) {
                    also.push(root);
                }
            }
        }
    }

    fn follow(&mut self, before: u32, after: u32) {
        self.made[after as usize] = true;
        let first = &mut self.overwritten_by[before as usize];
        if *first == NONE {
            *first = after;
        } else {
            self.divergences.push((before, *first, after));
            self.also.entry(before).or_default().push(after);
        }
    }

    /// Versions written blindly come after the whole chain of the initial version.
    fn place_roots(&mut self, key: u32, roots: &[u32], counts: &mut Counts) {
        if roots.is_empty() {
            return;
        }
        // This ends: every version has at most one it was made from, and the initial one has none.
        let mut last = Attribution::initial_version(key);
        let mut forked = self.also.contains_key(&last);
        while self.overwritten_by[last as usize] != NONE {
            last = self.overwritten_by[last as usize];
            forked |= self.also.contains_key(&last);
        }
        // A fork of that chain is a lost update already, and leaves no single end to come after.
        if !forked {
            self.place_after(key, last, roots, counts);
        }
    }

    /// All of these come after `last`, in an order that is open if they are several.
    fn place_after(&mut self, key: u32, last: u32, roots: &[u32], counts: &mut Counts) {
        if let [root] = roots {
            self.overwritten_by[last as usize] = *root;
            self.placed.push((last, *root));
            return;
        }
        if roots.is_empty() {
            return;
        }
        let count = roots.len() as u64;
        counts.open_keys += 1;
        counts.open_pairs += count * (count - 1) / 2;
        self.open.insert(key, count * (count - 1) / 2);
        // Every reader of `last` precedes every root. Past a bound that product costs more than it finds.
        if roots.len() <= 64 {
            self.also.entry(last).or_default().extend_from_slice(roots);
        }
    }

    /// What the database told about the order of versions.
    pub fn add_told(&mut self, history: &History, attribution: &Attribution, roles: &[Role], counts: &mut Counts) {
        // What is told of lists is not needed: they show their order themselves.
        if history.versions.is_empty() || history.has_lists() {
            return;
        }
        for (key, values) in &history.versions {
            let versions = versions_by_value(history, attribution, roles, *key);
            // A value that nobody installed, or several did, says nothing; its neighbours still follow.
            let known: Vec<u32> = values.iter().filter_map(|value| versions.get(value).copied().flatten()).collect();
            self.told_ambiguously |= values.iter().any(|value| versions.get(value) == Some(&None));
            self.follow_told(*key, &known, Teller::Line, attribution, roles, counts);
        }
    }

    /// What evidence from outside says about the order of versions.
    pub fn add_installed(
        &mut self,
        told: Vec<(u32, Vec<u32>)>,
        attribution: &Attribution,
        roles: &[Role],
        counts: &mut Counts,
    ) {
        for (key, known) in told {
            self.follow_told(key, &known, Teller::Outside, attribution, roles, counts);
        }
    }

    /// Versions of a key, oldest first, as they were told.
    fn follow_told(
        &mut self,
        key: u32,
        known: &[u32],
        teller: Teller,
        attribution: &Attribution,
        roles: &[Role],
        counts: &mut Counts,
    ) {
        self.told.extend(known.windows(2).map(|pair| (pair[0], pair[1])));
        if let Some(pairs) = self.open.get(&key).copied() {
            let all = attribution.places(key).filter(|&place| {
                let effective = roles[attribution.txn[place] as usize] == Role::Effective;
                attribution.installs[place] && effective
            });
            let initial = Attribution::initial_version(key);
            let told: Vec<u32> = known.iter().copied().filter(|&version| version != initial).collect();
            if told.iter().collect::<FxHashSet<_>>().len() == all.count() {
                self.open.remove(&key);
                counts.open_keys -= 1;
                counts.open_pairs -= pairs;
                // Where so many were written blindly that `place_after` left it to the search, nothing says yet that whoever read
                // the initial version came before the first of them.
                let first = told[0];
                if self.overwritten_by[initial as usize] == NONE {
                    let also = self.also.entry(initial).or_default();
                    if !also.contains(&first) {
                        also.push(first);
                    }
                }
            }
        }
        for pair in known.windows(2) {
            if pair[0] == pair[1] {
                self.told_twice.push(pair[0]);
            } else if pair[1] == Attribution::initial_version(key) {
                self.before_initial.push(pair[0]);
            } else if self.overwritten_by[pair[0] as usize] != pair[1] {
                self.also.entry(pair[0]).or_default().push(pair[1]);
                self.told_only.insert((pair[0], pair[1]), teller);
            } else if !self.made[pair[1] as usize] {
                self.told_only.insert((pair[0], pair[1]), teller);
            }
        }
    }
}

fn versions_by_value(
    history: &History,
    attribution: &Attribution,
    roles: &[Role],
    key: u32,
) -> FxHashMap<Value, Option<u32>> {
    let mut versions = FxHashMap::default();
    versions.insert(history.initial_value(key), Some(Attribution::initial_version(key)));
    for place in attribution.places(key) {
        if !attribution.installs[place] {
            continue;
        }
        let value = match history.op(attribution.op[place] as usize) {
            Op::Write(_, value) => value,
            Op::Cas(_, cas) => cas.new,
            Op::Read(..) | Op::Append(..) | Op::Scan(_) | Op::Sql(_) => continue,
        };
        let version = attribution.version_at(place as u32);
        versions.entry(value).and_modify(|v| *v = None).or_insert(Some(version));
    }
    // Uniqueness counts every writer that may have committed; the order only those that did.
    versions.retain(|_, version| {
        version.is_none_or(|v| {
            attribution.writer(v) == INITIAL || roles[attribution.writer(v) as usize] == Role::Effective
        })
    });
    versions
}
