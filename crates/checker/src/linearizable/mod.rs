//! Linearizable: each key by itself, by [`zones`] where every read has one writer, else by [`search`] among the [`calls`] of
//! a [`problem`]; [`refutation`] says what cannot be ordered.

pub mod calls;
pub mod problem;
pub mod refutation;
pub mod search;
pub mod zones;

use isolde_history::{NO_TIME, Status};
use rustc_hash::FxHashSet;

use crate::analysis::Analysis;
use crate::decision::{Decision, Method, Open, REPORTED_MAX, Violation};
use crate::evidence::dependencies::{Edge, Graph};
use crate::evidence::outcome::Role;
use crate::evidence::realtime::timeline;
use crate::linearizable::calls::{ALWAYS, Object};
use crate::linearizable::refutation::{Refutation, Settled, refute, refute_around, settle};
use crate::linearizable::zones::Conflict;
use crate::order::acyclic::{Explanation, Rule, Space};
use crate::order::reasons::Relation;
use crate::order::shortest::Step;

/// What every key may cost before any may cost more: a violation is often cheap to find.
const FIRST_TRY: u64 = 100_000;

/// How the keys are decided.
struct Plan {
    /// Keys to be searched, the smallest first.
    searched: Vec<u32>,
    /// A committed transaction without its times, and the keys of such.
    untimed: Option<u32>,
    untimed_keys: FxHashSet<u32>,
}

/// What a search of one key gave.
enum Found {
    /// The transactions in order, and whether each took effect.
    Order(Vec<(u32, bool)>),
    /// There is none.
    Conflict(Refutation),
    /// There is one, but it needs this transaction, which may have begun too late.
    Untimed(u32),
    OutOfBudget,
}

impl Analysis {
    /// Decides it, given what was found out about single reads.
    pub(crate) fn linearizable(&self, mut violations: Vec<Violation>, all: bool, method: &mut Method) -> Decision {
        if !self.history.has_lists() {
            violations.extend(self.zone_violations(all));
        }
        if !violations.is_empty() && !all {
            return Decision::Violated(violations);
        }
        let plan = self.plan(&violations);
        if !plan.searched.is_empty() {
            *method = Method::Search;
        }
        let mut roles = self.roles.clone();
        let mut edges = Vec::new();
        let mut open = plan.untimed.map(Open::NoTimes);
        let mut waiting = plan.searched.clone();
        let mut left = self.options.budget;
        for first_time in [true, false] {
            let keys = std::mem::take(&mut waiting);
            for (at, &key) in keys.iter().enumerate() {
                let share = if first_time { left.min(FIRST_TRY) } else { left / (keys.len() - at) as u64 };
                match self.search_key(key, share, &mut left) {
                    Found::Order(order) => {
                        edges.extend(order.windows(2).map(|pair| (pair[0].0, pair[1].0)));
                        for (txn, effective) in order {
                            roles[txn as usize] = if effective { Role::Effective } else { Role::ReadsOnly };
                        }
                    }
                    Found::Conflict(Refutation { order, stuck, maybe }) => {
                        violations.push(Violation::NotLinearizable(Conflict::Search { key, order, stuck, maybe }));
                        if !all {
                            return Decision::Violated(violations);
                        }
                    }
                    Found::Untimed(txn) => open = open.or(Some(Open::NoTimes(txn))),
                    Found::OutOfBudget => waiting.push(key),
                }
            }
        }
        if !violations.is_empty() {
            violations.truncate(REPORTED_MAX);
            return Decision::Violated(violations);
        }
        if let Some(&key) = waiting.first() {
            let places = self.attribution.places(key);
            let op = self.attribution.op[places.start];
            return Decision::Undecided(Open::Budget(op, places.len() as u64, self.options.budget));
        }
        match open {
            Some(open) => Decision::Undecided(open),
            None => Decision::Satisfied(Some(self.merged(&plan, edges, &mut roles))),
        }
    }

    /// A transaction of unknown outcome that is told to have taken effect; a search of a key takes its outcome as it likes.
    pub(crate) fn told_outcome(&self) -> Option<u32> {
        let installed = self.outside.installed().map(|op| self.txn_of(op));
        let mut told = installed.chain(self.outside.read_from().map(|(_, writer)| writer));
        told.find(|&txn| self.history.txns.status[txn as usize] == Status::Unknown)
    }

    /// The order that was found may not be the one that was told from outside: then nothing is decided, since another may be.
    /// Only what is about one key counts.
    pub(crate) fn kept_by_linearization(&self, decision: Decision) -> Decision {
        let Decision::Satisfied(Some(found)) = &decision else { return decision };
        let mut place = vec![None; self.history.len()];
        found.commits.iter().enumerate().for_each(|(at, &txn)| place[txn as usize] = Some(at as u32));
        let key = |txn: u32| self.history.ops_of(txn).next().map(|row| self.history.ops.key[row]);
        let outside = &self.outside;
        let counts = |at: usize| {
            let item = matches!(outside.relation[at], Relation::Wr | Relation::Ww | Relation::Rw | Relation::Rt);
            item && key(outside.from[at]).is_some() && key(outside.from[at]) == key(outside.to[at])
        };
        let kept = |at: usize| match (place[outside.from[at] as usize], place[outside.to[at] as usize]) {
            (Some(from), Some(to)) => from < to,
            _ => true,
        };
        match (0..outside.from.len()).find(|&at| counts(at) && !kept(at)) {
            Some(at) => Decision::Undecided(Open::Told(outside.to[at])),
            None if self.keeps_installed(&place) => decision,
            None => Decision::Undecided(Open::Told(found.commits[0])),
        }
    }

    fn zone_violations(&self, all: bool) -> Vec<Violation> {
        let mut violations = self.lost_updates(all);
        if violations.is_empty() || all {
            let conflicts = zones::conflicts(&self.history, &self.attribution, &self.dependencies, &self.roles);
            violations.extend(conflicts.into_iter().map(|conflict| match conflict {
                Conflict::Loop { txns } => {
                    let after = txns.iter().cycle().skip(1);
                    let steps = txns.iter().zip(after).map(|(&a, &b)| (a, b, Step::Known(Edge::Read)));
                    Violation::Cycle(self.explain(&steps.collect::<Vec<_>>()))
                }
                other => Violation::NotLinearizable(other),
            }));
        }
        violations.truncate(if all { REPORTED_MAX } else { 1 });
        violations
    }

    /// Searched are the keys on which a read has several writers, a failed compare-and-set is silent, versions
    /// were told or a time is missing that may not matter; but none that is known to be violated.
    fn plan(&self, violations: &[Violation]) -> Plan {
        let history = &*self.history;
        let mut keys: FxHashSet<u32> = FxHashSet::default();
        if self.history.has_lists() {
            keys.extend(0..self.attribution.keys());
        }
        let open = self.attribution.ambiguous.iter().chain(&self.attribution.blind_failures);
        let counted = open.filter(|&&op| self.roles[self.txn_of(op) as usize] != Role::Absent);
        keys.extend(counted.map(|&op| history.ops.key[op as usize]));
        keys.extend(history.versions.iter().map(|(key, _)| *key));
        let mut plan = Plan { searched: Vec::new(), untimed: None, untimed_keys: FxHashSet::default() };
        for txn in 0..history.len() as u32 {
            let row = txn as usize;
            let no_end = history.txns.end[row] == NO_TIME && history.txns.status[row] != Status::Unknown;
            if self.roles[row] == Role::Absent || (history.txns.start[row] != NO_TIME && !no_end) {
                continue;
            }
            let key = history.ops_of(txn).next().map(|op| history.ops.key[op]);
            if history.txns.status[row] == Status::Committed {
                plan.untimed = plan.untimed.or(Some(txn));
                plan.untimed_keys.extend(key);
            } else {
                keys.extend(key);
            }
        }
        let known = violations.iter().filter_map(|violation| self.key_of(violation));
        let mut skipped: FxHashSet<u32> = known.collect();
        skipped.extend(&plan.untimed_keys);
        plan.searched = keys.into_iter().filter(|key| !skipped.contains(key)).collect();
        plan.searched.sort_unstable_by_key(|&key| (self.attribution.places(key).len(), key));
        plan
    }

    /// The key that a violation is about.
    fn key_of(&self, violation: &Violation) -> Option<u32> {
        let txn = match violation {
            Violation::Fault(fault) => fault.reader,
            Violation::Cycle(edges) | Violation::LostUpdate { edges } => edges.first()?.from,
            Violation::BeforeInitial { key, .. } | Violation::ToldTwice { key, .. } => return Some(*key),
            // Only levels of several keys have choices between orders.
            Violation::NoOrder { .. } => return None,
            Violation::NotLinearizable(conflict) => match conflict {
                Conflict::Loop { txns } => *txns.first()?,
                Conflict::Order { key, .. } | Conflict::Blocks { key, .. } | Conflict::Search { key, .. } => {
                    return Some(*key);
                }
            },
        };
        self.history.ops_of(txn).next().map(|op| self.history.ops.key[op])
    }

    /// Searches one key with its share of what is left, and takes from that what it cost.
    fn search_key(&self, key: u32, share: u64, left: &mut u64) -> Found {
        let object = Object::of_key(&self.history, &self.attribution, key, self.options.judge_aborted);
        // Going straight through costs nothing: a long history is no reason to give up.
        let granted = share + 2 * object.calls.len() as u64;
        let mut budget = granted;
        let found = ordered(&object, &mut budget, share);
        *left -= (granted - budget).min(share);
        found
    }

    /// All transactions in one order that is a linearization for each key and keeps real time among all.
    /// There is one, since linearizability is local (Herlihy & Wing 1990).
    fn merged(&self, plan: &Plan, mut edges: Vec<(u32, u32)>, roles: &mut [Role]) -> Explanation {
        let history = &*self.history;
        let searched: FxHashSet<u32> = plan.searched.iter().copied().collect();
        let by_zones = |key: &u32| !self.history.has_lists() && !searched.contains(key);
        for order in zones::orders(history, &self.attribution, &self.dependencies, &self.roles, by_zones) {
            edges.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
        }
        let graph = Graph::of_edges(history.len(), &[(Edge::Overwrite, &edges)]);
        let times = timeline(history, roles);
        let space = Space { graph: &graph, rule: Rule::Serializable, timeline: Some(&times) };
        let order = space.order().expect("orders of single keys that keep real time fit together");
        let found = space.explanation(&order, |txn| roles[txn as usize] != Role::Absent);
        let took_effect =
            |txn: &u32| roles[*txn as usize] == Role::Effective && self.roles[*txn as usize] != Role::Effective;
        let effects = (0..history.len() as u32).filter(took_effect).collect();
        let found = Explanation { effects, ..found };
        let explains = self.keeps_values(Rule::Serializable, &found, &|at| at as u32);
        assert!(explains, "an order that was found explains every answer");
        found
    }
}

fn ordered(object: &Object<'_>, budget: &mut u64, share: u64) -> Found {
    let startless = object.calls.iter().find(|call| !call.required && call.start == ALWAYS).map(|call| call.txn);
    if startless.is_some() {
        let calls = object.calls.iter().filter(|call| call.required || call.start != ALWAYS).cloned().collect();
        let timed = Object { calls, ..object.clone() };
        match settle(&timed, budget) {
            Settled::Order(order) => return Found::Order(outcomes(&timed, &order)),
            Settled::Impossible => {}
            Settled::OutOfBudget(_) => return Found::OutOfBudget,
        }
    }
    match (settle(object, budget), startless) {
        (Settled::Order(_), Some(txn)) => Found::Untimed(txn),
        (Settled::Order(order), None) => Found::Order(outcomes(object, &order)),
        (Settled::Impossible, _) => Found::Conflict(refute(object)),
        (Settled::OutOfBudget(place), _) => match place.and_then(|place| refute_around(object, place, share)) {
            Some(refutation) => Found::Conflict(refutation),
            None => Found::OutOfBudget,
        },
    }
}

/// The transactions of an order of calls, each once: one that took effect has its place there.
fn outcomes(object: &Object<'_>, order: &[u32]) -> Vec<(u32, bool)> {
    let calls = || order.iter().map(|&number| &object.calls[number as usize]);
    let effective: FxHashSet<u32> = calls().filter(|call| !call.required).map(|call| call.txn).collect();
    calls()
        .filter(|call| !call.required || !effective.contains(&call.txn))
        .map(|call| (call.txn, !call.required || call.effect != crate::linearizable::calls::Effect::Nothing))
        .collect()
}
