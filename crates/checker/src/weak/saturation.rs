//! Read committed, read atomic, causal: weak levels by saturation (Biswas & Enea 2019).
//!
//! Their axioms have one shape: when t3 read x of t1, and another writer t2 of x is *visible* to t3, then
//! t2 comes before t1 in the commit order. What is visible depends only on session order and reads, so all
//! consequences are found in one pass, and the level holds iff so ∪ wr and they have no cycle.
//!
//! | level | t2 is visible to the read r of t3 when |
//! | --- | --- |
//! | read committed | an earlier read of t3 read from t2 |
//! | read atomic | t3 read from t2, or t2 came before it in the session |
//! | causal | a path of reads and session order leads from t2 to t3 |
//!
//! Of the writers of x in one session only the last visible one matters: the others come before it
//! anyway. For causal, visibility is a vector clock over the sessions; without session order, over chains
//! of transactions that read from each other. PL-2 is the same without the axiom.

use isolde_history::History;
use rustc_hash::FxHashMap;

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::dependencies::{Edge, Graph};
use crate::evidence::outcome::Role;
use crate::weak::clocks::WritersByChain;

/// After so many rounds of [`Saturation::causal`] all consequences are listed instead.
const ROUNDS_MAX: usize = 8;
/// So many reads of a round are looked at one by one.
const CANDIDATES_MAX: usize = 20_000_000;

/// What makes another writer visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// Nothing: only so ∪ wr must have no cycle (PL-2).
    Nothing,
    /// An earlier read of the same transaction.
    EarlierRead,
    /// A read of the same transaction, or the session.
    DirectlyBefore,
    /// A path of reads and session order.
    CausalPast,
}

/// t2 comes before t1 because a reader saw t2 and read the key of t1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inferred {
    /// The visible writer.
    pub before: u32,
    /// The writer that was read; [`INITIAL`] makes it a contradiction.
    pub after: u32,
    /// Who read.
    pub reader: u32,
    /// The read that shows it, or [`NONE`] if evidence from outside does.
    pub read_op: u32,
}

impl Inferred {
    /// That a reader did not see a writer, by evidence from outside: a contradiction if the writer is visible to it.
    pub(crate) fn told_apart(before: u32, reader: u32) -> Inferred {
        Inferred { before, after: INITIAL, reader, read_op: NONE }
    }
}

/// The graph of the weak levels: session order, reads, told successions and what follows from them.
pub struct Saturated {
    /// All edges; inferred ones are dependencies.
    pub graph: Graph,
    /// What was inferred between transactions.
    pub inferred: Vec<Inferred>,
    /// What contradicts that initial values come first.
    pub contradictions: Vec<Inferred>,
}

/// What a transaction did, by operation.
pub struct ByOp {
    /// The version that each operation read of another transaction, or [`NONE`].
    pub read_of: Vec<u32>,
    /// Whether each operation installed a version.
    pub installs: Vec<bool>,
}

impl ByOp {
    /// Turns the columns by key into columns by operation.
    pub fn new(history: &History, attribution: &Attribution) -> ByOp {
        let mut by_op =
            ByOp { read_of: vec![NONE; history.ops.kind.len()], installs: vec![false; history.ops.kind.len()] };
        for (place, &op) in attribution.op.iter().enumerate() {
            by_op.read_of[op as usize] = attribution.read_of[place];
            by_op.installs[op as usize] = attribution.installs[place];
        }
        by_op
    }
}

/// The inference, over one history.
pub struct Saturation<'a> {
    /// The history.
    pub history: &'a History,
    /// Who wrote what was read.
    pub attribution: &'a Attribution,
    /// Which transactions count.
    pub roles: &'a [Role],
    /// The next counted transaction of the session, or [`NONE`].
    pub session_next: &'a [u32],
    /// Transactions that the database told to have overwritten each other, in order.
    pub told: &'a [(u32, u32)],
    /// The columns by operation.
    pub by_op: &'a ByOp,
    /// Whether session order counts.
    pub session_order: bool,
    /// By transaction: those that evidence from outside says it saw.
    pub told_sources: &'a FxHashMap<u32, Vec<u32>>,
}

impl Saturation<'_> {
    /// All consequences of a level's axiom. `None`: so ∪ wr has a cycle, so that no past exists.
    pub fn run(&self, visibility: Visibility) -> Option<Saturated> {
        let mut found = Vec::new();
        match visibility {
            Visibility::Nothing => {}
            Visibility::EarlierRead => self.each_txn(|txn| self.earlier_reads(txn, &mut found)),
            Visibility::DirectlyBefore => {
                self.each_txn(|txn| self.direct_reads(txn, &mut found));
                if self.session_order {
                    self.session_writers(&mut found);
                }
            }
            Visibility::CausalPast => return self.causal(),
        }
        Some(self.saturated(found))
    }

    fn saturated(&self, found: Vec<Inferred>) -> Saturated {
        let (contradictions, inferred): (Vec<Inferred>, Vec<Inferred>) =
            found.into_iter().partition(|edge| edge.after == INITIAL);
        let mut consequences = self.told.to_vec();
        consequences.extend(inferred.iter().map(|edge| (edge.before, edge.after)));
        Saturated { graph: self.base(Edge::Overwrite, &consequences), inferred, contradictions }
    }

    /// Causal, without listing every consequence: in an order of all that is known, a consequence that points
    /// forward cannot be part of the reason for a cycle unless another points backward. So only those that
    /// point backward are looked for; they are added, the order is made anew, and so on until none is
    /// left. In an order close to the real one there are next to none. `None` as for [`Saturation::run`].
    fn causal(&self) -> Option<Saturated> {
        let mut found = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let saturated = self.saturated(found);
            let Some(order) = saturated.graph.by_position() else {
                // The first round knows nothing but reads, sessions and what was told.
                return (!saturated.inferred.is_empty()).then_some(saturated);
            };
            let more = match self.backward(&order) {
                Some(more) if more.is_empty() => return Some(saturated),
                Some(more) => more,
                None => break,
            };
            found = saturated.inferred;
            found.extend(more);
            if found.iter().any(|edge| edge.after == INITIAL) {
                return Some(self.saturated(found));
            }
        }
        let mut found = Vec::new();
        self.all_causal(&mut found)?;
        Some(self.saturated(found))
    }

    /// The consequences that point backward in `order`. `None`: too many to look at one by one.
    fn backward(&self, order: &[u32]) -> Option<Vec<Inferred>> {
        let mut position = vec![0u32; self.history.len()];
        for (at, &txn) in order.iter().enumerate() {
            position[txn as usize] = at as u32 + 1;
        }
        let writers = self.writers_by_position(&position);
        let mut candidates: Vec<Inferred> = Vec::new();
        for &txn in order.iter().filter(|&&txn| self.counts(txn)) {
            for (read_op, key, version) in self.reads(txn) {
                let after = self.attribution.writer(version);
                let since = if after == INITIAL { 0 } else { position[after as usize] };
                let writers = &writers[key as usize];
                let first = writers.partition_point(|&(at, _)| at <= since);
                let between = writers[first..].iter().take_while(|&&(at, _)| at < position[txn as usize]);
                candidates.extend(between.map(|&(_, before)| Inferred { before, after, reader: txn, read_op }));
                if candidates.len() > CANDIDATES_MAX {
                    return None;
                }
            }
        }
        if !candidates.is_empty() {
            let chains = self.chains(order);
            let mut rest = candidates.iter().peekable();
            let mut visible = Vec::new();
            // The candidates stand in the order in which the clocks come.
            self.clocks(order, &chains, |txn, clock| {
                let ops = self.history.ops_of(txn);
                while let Some(edge) = rest.next_if(|edge| ops.contains(&(edge.read_op as usize))) {
                    let (chain, place) = (chains.of[edge.before as usize], chains.place[edge.before as usize]);
                    if clock[chain as usize] > place {
                        visible.push(*edge);
                    }
                }
            });
            candidates = visible;
        }
        Some(candidates)
    }

    /// For each key its writers, by their position in an order.
    fn writers_by_position(&self, position: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let attribution = self.attribution;
        (0..attribution.keys())
            .map(|key| {
                let installed = attribution.places(key).filter(|&place| attribution.installs[place]);
                let txns = installed.map(|place| attribution.txn[place]);
                let mut writers: Vec<(u32, u32)> = txns
                    .filter(|&txn| self.roles[txn as usize] == Role::Effective)
                    .map(|txn| (position[txn as usize], txn))
                    .collect();
                writers.sort_unstable();
                writers
            })
            .collect()
    }

    pub(crate) fn each_txn(&self, mut visit: impl FnMut(u32)) {
        (0..self.history.len() as u32).filter(|&txn| self.counts(txn)).for_each(&mut visit);
    }

    pub(crate) fn counts(&self, txn: u32) -> bool {
        self.roles[txn as usize] != Role::Absent
    }

    /// Session order and reads, and `more` of a kind.
    pub fn base(&self, kind: Edge, more: &[(u32, u32)]) -> Graph {
        let mut session = Vec::new();
        if self.session_order {
            let next = self.session_next;
            session.extend((0..next.len() as u32).filter(|&t| next[t as usize] != NONE).map(|t| (t, next[t as usize])));
        }
        let (mut reads, mut told) = (Vec::new(), Vec::new());
        self.each_txn(|txn| {
            reads.extend(self.read_from(txn).map(|source| (source, txn)));
            told.extend(self.told_sources(txn).map(|source| (source, txn)));
        });
        let lists: [(Edge, &[(u32, u32)]); 4] =
            [(Edge::Read, &reads), (Edge::ToldSession, &told), (Edge::Session, &session), (kind, more)];
        Graph::of_edges(self.history.len(), &lists)
    }

    /// The reads of other transactions' versions, in program order: operation, key, version.
    fn reads(&self, txn: u32) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.history.ops_of(txn).filter_map(|row| {
            let version = self.by_op.read_of[row];
            (version != NONE).then(|| (row as u32, self.history.ops.key[row], version))
        })
    }

    /// The transactions that `txn` saw: it read from them, or is told to have; one that is seen twice comes twice.
    pub(crate) fn sources(&self, txn: u32) -> impl Iterator<Item = u32> + '_ {
        self.read_from(txn).chain(self.told_sources(txn))
    }

    /// Those that evidence from outside says it saw.
    pub(crate) fn told_sources(&self, txn: u32) -> impl Iterator<Item = u32> + '_ {
        let told = self.told_sources.get(&txn).map_or(&[][..], |all| all);
        told.iter().copied().filter(|&source| self.counts(source))
    }

    /// The transactions that `txn` read from; one that is read twice comes twice.
    fn read_from(&self, txn: u32) -> impl Iterator<Item = u32> + '_ {
        self.reads(txn).map(|(_, _, version)| self.attribution.writer(version)).filter(|&writer| writer != INITIAL)
    }

    /// The keys that a transaction installed.
    fn installed(&self, txn: u32) -> impl Iterator<Item = u32> + '_ {
        let effective = self.roles[txn as usize] == Role::Effective;
        let keys = self.history.ops_of(txn).filter(move |&row| effective && self.by_op.installs[row]);
        keys.map(|row| self.history.ops.key[row])
    }

    fn earlier_reads(&self, txn: u32, found: &mut Vec<Inferred>) {
        let mut visible = Visible::default();
        for (read_op, key, version) in self.reads(txn) {
            let after = self.attribution.writer(version);
            visible.missed_by(key, after, (txn, read_op), found);
            visible.add(self, after);
        }
    }

    fn direct_reads(&self, txn: u32, found: &mut Vec<Inferred>) {
        let mut visible = Visible::default();
        self.sources(txn).for_each(|source| visible.add(self, source));
        for (read_op, key, version) in self.reads(txn) {
            visible.missed_by(key, self.attribution.writer(version), (txn, read_op), found);
        }
    }

    /// The last writer of each key in the session so far.
    fn session_writers(&self, found: &mut Vec<Inferred>) {
        let mut last: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        self.each_txn(|txn| {
            let session = self.history.txns.session[txn as usize];
            for (read_op, key, version) in self.reads(txn) {
                let after = self.attribution.writer(version);
                if let Some(&before) = last.get(&(session, key))
                    && before != after
                {
                    found.push(Inferred { before, after, reader: txn, read_op });
                }
            }
            for key in self.installed(txn) {
                last.insert((session, key), txn);
            }
        });
    }

    /// Of these readers and writers, those that are told apart although the level lets the reader see the writer.
    pub(crate) fn seen_all_the_same(&self, visibility: Visibility, anti: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let session = &self.history.txns.session;
        let came_before = |reader: u32, writer: u32| {
            self.session_order && writer < reader && session[writer as usize] == session[reader as usize]
        };
        match visibility {
            _ if anti.is_empty() => Vec::new(),
            Visibility::Nothing | Visibility::EarlierRead => Vec::new(),
            Visibility::DirectlyBefore => {
                let sees = |&(reader, writer): &(u32, u32)| {
                    came_before(reader, writer) || self.sources(reader).any(|source| source == writer)
                };
                anti.iter().copied().filter(sees).collect()
            }
            Visibility::CausalPast => {
                let Some(order) = self.base(Edge::Overwrite, &[]).by_position() else { return Vec::new() };
                let chains = self.chains(&order);
                let mut missed: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
                anti.iter().for_each(|&(reader, writer)| missed.entry(reader).or_default().push(writer));
                let mut seen = Vec::new();
                self.clocks(&order, &chains, |txn, clock| {
                    for &writer in missed.get(&txn).map_or(&[][..], |all| all) {
                        if clock[chains.of[writer as usize] as usize] > chains.place[writer as usize] {
                            seen.push((txn, writer));
                        }
                    }
                });
                seen
            }
        }
    }

    /// Every consequence of causal visibility, one by one.
    fn all_causal(&self, found: &mut Vec<Inferred>) -> Option<()> {
        let order = self.base(Edge::Overwrite, &[]).by_position()?;
        let chains = self.chains(&order);
        let writers = self.writers_by_chain(&chains);
        self.clocks(&order, &chains, |txn, clock| self.visible_writers(txn, clock, &writers, found));
        Some(())
    }

    fn visible_writers(&self, txn: u32, clock: &[u32], writers: &WritersByChain, found: &mut Vec<Inferred>) {
        for (read_op, key, version) in self.reads(txn) {
            let after = self.attribution.writer(version);
            for (chain, places) in writers.of_key(key) {
                let visible = places.partition_point(|&(place, _)| place < clock[chain as usize]);
                if let Some(&(_, before)) = visible.checked_sub(1).map(|at| &places[at])
                    && before != after
                    && before != txn
                {
                    found.push(Inferred { before, after, reader: txn, read_op });
                }
            }
        }
    }
}

/// The writes that a transaction can see: key and writer. Short enough to be searched from end to end.
#[derive(Default)]
struct Visible(Vec<(u32, u32)>);

impl Visible {
    fn add(&mut self, saturation: &Saturation<'_>, writer: u32) {
        if writer != INITIAL && self.0.iter().all(|&(_, seen)| seen != writer) {
            self.0.extend(saturation.installed(writer).map(|key| (key, writer)));
        }
    }

    /// Every visible writer of `key` comes before the one that was read.
    fn missed_by(&self, key: u32, after: u32, (reader, read_op): (u32, u32), found: &mut Vec<Inferred>) {
        let writers = self.0.iter().filter(|&&(k, before)| k == key && before != after);
        found.extend(writers.map(|&(_, before)| Inferred { before, after, reader, read_op }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isolde_generator::{Anomaly, Distribution, Level, Parameters, Skew, Workload};

    use super::*;
    use crate::analysis::Analysis;
    use crate::decision::Options;
    use crate::evidence::outside::Outside;

    fn history(level: Level, workload: Workload, inject: Vec<Anomaly>, seed: u64) -> History {
        let parameters = Parameters {
            sessions: 6,
            transactions: 60,
            keys: 3,
            ops_per_transaction: 4,
            distribution: Distribution::Uniform,
            skew: Skew::default(),
            concurrent: 1.0,
            workload,
            level,
            abort_rate: 0.1,
            unknown_rate: 0.1,
            blind_writes: None,
            versions: 0.0,
            inject,
            seed,
        };
        isolde_generator::generate(&parameters).expect("the parameters are possible")
    }

    /// Looking only backward, and listing everything, must give the same answer.
    fn assert_same(history: History, session_order: bool) -> bool {
        let options = Options { session_order, judge_aborted: false, threads: 1, budget: 0 };
        let analysis = Analysis::new(Arc::new(history), Outside::default(), options);
        let by_op = ByOp::new(&analysis.history, &analysis.attribution);
        let saturation = analysis.saturation(&by_op, &[]);
        let holds = |s: &Saturated| s.contradictions.is_empty() && s.graph.by_position().is_some();
        let quick = saturation.causal().is_some_and(|s| holds(&s));
        let mut found = Vec::new();
        let listed = saturation.all_causal(&mut found).is_some() && holds(&saturation.saturated(found));
        assert_eq!(quick, listed);
        quick
    }

    #[test]
    fn looking_backward_decides_causal_as_listing_everything_does() {
        let mut held = 0;
        let levels = [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::SnapshotIsolation];
        for seed in 0..100 {
            for level in levels {
                for workload in [Workload::Mini, Workload::General] {
                    for session_order in [true, false] {
                        held += u32::from(assert_same(history(level, workload, vec![], seed), session_order));
                    }
                }
            }
            assert_same(history(Level::Causal, Workload::General, vec![Anomaly::CausalityViolation], seed), true);
        }
        assert!(held > 400 && held < 1_600, "{held} of 1,600 held: both answers must occur");
    }
}
