//! The causal past of each transaction, as a vector clock over sessions or chains.

use isolde_history::NO_KEY;
use rustc_hash::FxHashMap;

use crate::evidence::attribution::NONE;
use crate::evidence::outcome::Role;
use crate::weak::saturation::Saturation;

impl Saturation<'_> {
    /// Visits the transactions in an order of so ∪ wr, each with a clock that says how much of every chain
    /// lies in its past. A clock is kept only until the last reader of its transaction has been visited.
    pub(crate) fn clocks(&self, order: &[u32], chains: &Chains, mut visit: impl FnMut(u32, &[u32])) {
        let mut readers_left = vec![0u32; self.history.len()];
        self.each_txn(|txn| self.sources(txn).for_each(|source| readers_left[source as usize] += 1));
        let mut clocks: Vec<Option<Box<[u32]>>> = vec![None; self.history.len()];
        let mut tails: Vec<Option<Box<[u32]>>> = vec![None; chains.count];
        for &txn in order.iter().filter(|&&txn| self.counts(txn)) {
            let (chain, place) = (chains.of[txn as usize] as usize, chains.place[txn as usize]);
            let mut clock = tails[chain].take().unwrap_or_else(|| vec![0u32; chains.count].into_boxed_slice());
            for source in self.sources(txn) {
                let past = clocks[source as usize].as_ref().expect("a source comes first and waits for its readers");
                for (mine, theirs) in clock.iter_mut().zip(past.iter()) {
                    *mine = (*mine).max(*theirs);
                }
            }
            visit(txn, &clock);
            clock[chain] = place + 1;
            for source in self.sources(txn) {
                readers_left[source as usize] -= 1;
                if readers_left[source as usize] == 0 {
                    clocks[source as usize] = None;
                }
            }
            if readers_left[txn as usize] > 0 {
                clocks[txn as usize] = Some(clock.clone());
            }
            tails[chain] = Some(clock);
        }
    }

    /// Sessions, or chains of transactions that read from each other where sessions do not count.
    pub(crate) fn chains(&self, order: &[u32]) -> Chains {
        let mut chains = Chains { of: vec![NONE; self.history.len()], place: vec![0; self.history.len()], count: 0 };
        let mut lengths: Vec<u32> = Vec::new();
        let mut tails: Vec<u32> = Vec::new();
        if self.session_order {
            lengths = vec![0; self.history.sessions.len()];
            self.each_txn(|txn| {
                let session = self.history.txns.session[txn as usize];
                chains.of[txn as usize] = session;
                chains.place[txn as usize] = lengths[session as usize];
                lengths[session as usize] += 1;
            });
            chains.count = lengths.len();
            return chains;
        }
        for &txn in order.iter().filter(|&&txn| self.counts(txn)) {
            let extended = self
                .sources(txn)
                .map(|s| chains.of[s as usize])
                .find(|&c| self.sources(txn).any(|s| chains.of[s as usize] == c && tails[c as usize] == s));
            let chain = extended.unwrap_or_else(|| {
                lengths.push(0);
                tails.push(NONE);
                lengths.len() as u32 - 1
            });
            chains.of[txn as usize] = chain;
            chains.place[txn as usize] = lengths[chain as usize];
            lengths[chain as usize] += 1;
            tails[chain as usize] = txn;
        }
        chains.count = lengths.len();
        chains
    }

    /// The writers of each key, by the chain that they are in.
    pub(crate) fn writers_by_chain(&self, chains: &Chains) -> WritersByChain {
        let mut all: Vec<(u32, u32, u32, u32)> = Vec::new();
        for row in 0..self.history.ops.kind.len() {
            let key = self.history.ops.key[row];
            if key == NO_KEY || !self.by_op.installs[row] {
                continue;
            }
            let txn = self.attribution.txn[self.attribution.place(key, row as u32) as usize];
            if self.roles[txn as usize] == Role::Effective {
                all.push((key, chains.of[txn as usize], chains.place[txn as usize], txn));
            }
        }
        all.sort_unstable();
        let mut writers = WritersByChain { key_groups: FxHashMap::default(), groups: Vec::new(), places: Vec::new() };
        for (key, chain, place, txn) in all {
            let same = writers.key_groups.get(&key).is_some_and(|&(_, last)| {
                last as usize == writers.groups.len() && writers.groups.last().is_some_and(|group| group.0 == chain)
            });
            if !same {
                writers.groups.push((chain, writers.places.len() as u32));
                let count = writers.groups.len() as u32;
                writers.key_groups.entry(key).and_modify(|range| range.1 = count).or_insert((count - 1, count));
            }
            writers.places.push((place, txn));
        }
        writers
    }
}

/// Where each transaction stands: in which chain, and as the how manyth of it.
pub(crate) struct Chains {
    pub(crate) of: Vec<u32>,
    pub(crate) place: Vec<u32>,
    count: usize,
}

/// For each key and chain, the places of its writers, ascending.
pub(crate) struct WritersByChain {
    key_groups: FxHashMap<u32, (u32, u32)>,
    groups: Vec<(u32, u32)>,
    places: Vec<(u32, u32)>,
}

impl WritersByChain {
    pub(crate) fn of_key(&self, key: u32) -> impl Iterator<Item = (u32, &[(u32, u32)])> {
        let (first, last) = self.key_groups.get(&key).copied().unwrap_or((0, 0));
        (first as usize..last as usize).map(|at| {
            let (chain, start) = self.groups[at];
            let end = self.groups.get(at + 1).map_or(self.places.len(), |group| group.1 as usize);
            (chain, &self.places[start as usize..end])
        })
    }
}
