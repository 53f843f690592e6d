//! Transactional causal consistency: replicas that tell each other in causal order.
//!
//! Each session belongs to a replica. A replica executes a transaction on what was delivered to it, and
//! sends its writes to the others; they are delivered in an order that keeps causality (vector clocks),
//! later rather than sooner. Of the delivered versions of a key the last one in `co` is the current one.
//!
//! *Axiom.* If t2 reaches t3 by `so ∪ wr` edges and writes x, then the version of x that t3 reads is t2's
//! or later in `co`. *Why it holds.* Everything that reaches t3 was delivered to its replica before t3:
//! session predecessors ran there, who is read was delivered there, and nothing is delivered before what
//! it depends on. The version read is the maximum in `co` of those delivered. There is one `co`, the
//! commit order, for all replicas.
//!
//! Lists: an element is delivered after all earlier elements of its list (an append depends on the one
//! before), so a reader has been delivered every transaction whose element it is shown.

use super::{Isolation, Seq, Store, Transaction};
use crate::dice::Dice;

const REPLICAS_MAX: usize = 4;
/// How often, a transaction, one replica tells another all it can.
const DELIVERY: f64 = 0.5;

/// By replica: how many of its commits. As a vector clock, those that something depends on.
type Clock = [u32; REPLICAS_MAX];

/// See the module.
pub struct Causal {
    replicas: usize,
    /// The commits of each replica.
    commits: [Vec<Seq>; REPLICAS_MAX],
    /// What was delivered to each.
    delivered: [Clock; REPLICAS_MAX],
    /// The causal past of each commit, itself included; the first is that of commit 1.
    past: Vec<Clock>,
    /// By key and replica: the current version's writer.
    current: Vec<[Seq; REPLICAS_MAX]>,
}

impl Causal {
    pub fn new(sessions: u32) -> Causal {
        Causal {
            replicas: REPLICAS_MAX.min(sessions as usize),
            commits: Default::default(),
            delivered: Default::default(),
            past: Vec::new(),
            current: Vec::new(),
        }
    }

    fn replica(&self, session: u32) -> usize {
        session as usize % self.replicas
    }

    /// Shows `seq` to a replica.
    fn apply(&mut self, store: &Store, seq: Seq, to: usize) {
        for &key in store.written_by(seq) {
            let key = key as usize;
            if key >= self.current.len() {
                self.current.resize(key + 1, [0; REPLICAS_MAX]);
            }
            let current = &mut self.current[key][to];
            *current = seq.max(*current);
        }
    }

    /// Delivers commits of one replica to another, up to the first whose past is not known there.
    fn deliver(&mut self, store: &Store, from: usize, to: usize) {
        while let Some(&seq) = self.commits[from].get(self.delivered[to][from] as usize) {
            let past = &self.past[seq as usize - 1];
            if (0..self.replicas).any(|other| other != from && past[other] > self.delivered[to][other]) {
                return;
            }
            self.delivered[to][from] += 1;
            self.apply(store, seq, to);
        }
    }

    /// Delivers all that a clock covers. The order does not matter: a clock covers the past of all that
    /// it covers, and the maximum in `co` is the same whatever came first.
    fn catch_up(&mut self, store: &Store, clock: Clock, to: usize) {
        for (from, &until) in clock.iter().enumerate() {
            while self.delivered[to][from] < until {
                let seq = self.commits[from][self.delivered[to][from] as usize];
                self.delivered[to][from] += 1;
                self.apply(store, seq, to);
            }
        }
    }
}

impl Isolation for Causal {
    fn read(&mut self, store: &Store, transaction: &mut Transaction, dice: &mut Dice) {
        let replicas = self.replicas as u64;
        if replicas > 1 && dice.chance(DELIVERY) {
            let from = dice.below(replicas);
            let to = (from + 1 + dice.below(replicas - 1)) % replicas;
            self.deliver(store, from as usize, to as usize);
        }
        let replica = self.replica(transaction.session);
        transaction.seen.clear();
        transaction.seen.extend(transaction.steps.iter().map(|step| {
            let current = self.current.get(step.key as usize).map_or(0, |current| current[replica]);
            store.visible(step.key, current)
        }));
    }

    fn committed(&mut self, store: &Store, session: u32, seq: Seq) {
        let replica = self.replica(session);
        if store.lists() {
            for &key in store.written_by(seq) {
                let before = store.visible(key, seq - 1);
                if let Some(version) = store.read(key, before).last() {
                    self.catch_up(store, self.past[version.seq as usize - 1], replica);
                }
            }
        }
        self.commits[replica].push(seq);
        self.delivered[replica][replica] += 1;
        self.past.push(self.delivered[replica]);
        self.apply(store, seq, replica);
    }

    fn met(&mut self, store: &Store, sessions: &[u32]) {
        let mut all = Clock::default();
        for (count, commits) in all.iter_mut().zip(&self.commits) {
            *count = commits.len() as u32;
        }
        for &session in sessions {
            self.catch_up(store, all, self.replica(session));
        }
    }
}
