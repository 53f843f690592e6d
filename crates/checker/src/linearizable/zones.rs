//! Linearizability of single-key transactions, a key at a time, in O(n log n).
//!
//! When every read has its one writer, the versions of a key form chains (each version made from the one
//! before by a compare-and-set or a read-modify-write), and nothing of another chain can come between the
//! operations of one: a chain is one *block* of the order. Inside a block the order is given, and real
//! time must not contradict it (Wei et al. 2025, algorithm 2, with the insertion at the head of the chain).
//! Between blocks, A must come before B when something of A ended before something of B started; the
//! blocks can be ordered iff no two must come before each other (Gibbons & Korach 1997: zones). The block
//! of the initial value comes first.

use isolde_history::{History, NO_TIME};

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::dependencies::Dependencies;
use crate::evidence::outcome::Role;
use crate::evidence::readers::Readers;
use crate::evidence::realtime;

/// Why a key is not linearizable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// `later` follows `earlier` in the chain of `key`, but was over before `earlier` began.
    Order {
        /// The key.
        key: u32,
        /// The transaction that comes first in the chain.
        earlier: u32,
        /// The one that was over before.
        later: u32,
        /// Those that wrote the versions between the two.
        between: Vec<u32>,
    },
    /// Each of these read what the one before it wrote, in a circle.
    Loop {
        /// The transactions around the circle.
        txns: Vec<u32>,
    },
    /// Two blocks must each come before the other: `first_end` of one was over before `second_start` of
    /// the other began, and `second_end` of that before `first_start` of the one.
    Blocks {
        /// The key.
        key: u32,
        /// In the one block, over early; [`INITIAL`] stands for the initial value.
        first_end: u32,
        /// In the one block, began late.
        first_start: u32,
        /// In the other block, over early.
        second_end: u32,
        /// In the other block, began late.
        second_start: u32,
        /// Those that wrote the versions of the two blocks.
        between: Vec<u32>,
    },
    /// No order was found, although all were tried; see [`crate::linearizable::refutation::Refutation`].
    Search {
        /// The key.
        key: u32,
        /// An order that gets as far as any.
        order: Vec<u32>,
        /// Those that have no place there; the first of them ended without one.
        stuck: Vec<u32>,
        /// Those that may or may not have taken effect.
        maybe: Vec<u32>,
    },
}

/// A transaction that touches more than one key, or none by key.
pub fn not_single_key(history: &History) -> Option<u32> {
    (0..history.len() as u32).find(|&txn| {
        let keys = &history.ops.key[history.ops_of(txn)];
        keys.iter().any(|&key| key == isolde_history::NO_KEY || key != keys[0])
    })
}

/// What a block needs of real time.
#[derive(Clone, Copy)]
struct Block {
    root: u32,
    end_min: i64,
    end_min_of: u32,
    start_max: i64,
    start_max_of: u32,
}

/// The first conflict of every key that has one.
pub fn conflicts(
    history: &History,
    attribution: &Attribution,
    dependencies: &Dependencies,
    roles: &[Role],
) -> Vec<Conflict> {
    let readers = Readers::new(attribution, roles);
    (0..attribution.keys())
        .filter_map(|key| {
            let view = KeyView { history, attribution, dependencies, roles, readers: &readers, key };
            view.conflict()
        })
        .collect()
}

/// The counted transactions of every key of interest in an order that explains them; the keys have no conflict.
pub fn orders(
    history: &History,
    attribution: &Attribution,
    dependencies: &Dependencies,
    roles: &[Role],
    of_interest: impl Fn(&u32) -> bool,
) -> Vec<Vec<u32>> {
    let readers = Readers::new(attribution, roles);
    (0..attribution.keys())
        .filter(of_interest)
        .map(|key| KeyView { history, attribution, dependencies, roles, readers: &readers, key }.order())
        .collect()
}

struct KeyView<'a> {
    history: &'a History,
    attribution: &'a Attribution,
    dependencies: &'a Dependencies,
    roles: &'a [Role],
    readers: &'a Readers,
    key: u32,
}

impl KeyView<'_> {
    fn conflict(&self) -> Option<Conflict> {
        let initial = Attribution::initial_version(self.key);
        let mut blocks = Vec::new();
        let mut covered = self.chain(initial).len() - 1;
        match self.block(initial) {
            Ok(block) => blocks.push(Block { end_min: i64::MIN, end_min_of: INITIAL, ..block }),
            Err(conflict) => return Some(conflict),
        }
        for root in self.roots() {
            covered += self.chain(root).len();
            match self.block(root) {
                Ok(block) => blocks.push(block),
                Err(conflict) => return Some(conflict),
            }
        }
        if covered < self.installed().count() {
            return self.circle().or_else(|| self.between(&blocks));
        }
        self.between(&blocks)
    }

    /// The blocks in an order that keeps real time, each from its root on.
    ///
    /// A must come before B iff `A.end_min < B.start_max`, and there is no conflict. Sorting by the smaller of the two
    /// bounds of each block does it, the larger one being `end_min` in the first of two that are equal: say A must come
    /// before B. If `A.start_max <= A.end_min`, then A's smaller bound lies below `B.start_max`, and not above `B.end_min`
    /// since B need not come before A. If not, it is `A.end_min`, which lies below both.
    fn order(&self) -> Vec<u32> {
        let roots = std::iter::once(Attribution::initial_version(self.key)).chain(self.roots());
        let mut blocks: Vec<Block> = roots.filter_map(|root| self.block(root).ok()).collect();
        blocks[1..].sort_by_key(|b| (b.end_min.min(b.start_max), b.end_min < b.start_max));
        let mut order = Vec::new();
        for block in blocks {
            let chain = self.chain(block.root);
            for (at, &version) in chain.iter().enumerate() {
                let overwriter = chain.get(at + 1).map_or(NONE, |&next| self.attribution.writer(next));
                let writer = self.attribution.writer(version);
                order.extend((writer != INITIAL).then_some(writer));
                let readers = self.readers.of(version).iter().copied().filter(|&reader| reader != overwriter);
                let mut readers: Vec<u32> = readers.collect();
                readers.sort_by_key(|&reader| (self.history.txns.start[reader as usize], reader));
                readers.dedup();
                order.extend(readers);
            }
        }
        order
    }

    /// The versions that took effect.
    fn installed(&self) -> impl Iterator<Item = u32> + '_ {
        let attribution = self.attribution;
        attribution
            .places(self.key)
            .filter(|&p| attribution.installs[p] && self.roles[attribution.txn[p] as usize] == Role::Effective)
            .map(|place| attribution.version_at(place as u32))
    }

    /// Versions that were each made from the one before, in a circle, and so belong to no block.
    fn circle(&self) -> Option<Conflict> {
        let next = |version: u32| self.dependencies.overwritten_by[version as usize];
        let limit = self.installed().count();
        self.installed().find_map(|start| {
            let mut versions = vec![start];
            let mut at = next(start);
            while at != NONE && at != start && versions.len() <= limit {
                versions.push(at);
                at = next(at);
            }
            (at == start).then(|| Conflict::Loop { txns: self.writers(&versions) })
        })
    }

    /// Versions written without reading the one before.
    fn roots(&self) -> Vec<u32> {
        let attribution = self.attribution;
        attribution
            .places(self.key)
            .filter(|&place| {
                let txn = attribution.txn[place];
                attribution.installs[place]
                    && self.roles[txn as usize] == Role::Effective
                    && !self.reads_before(place, txn)
            })
            .map(|place| attribution.version_at(place as u32))
            .collect()
    }

    fn reads_before(&self, place: usize, txn: u32) -> bool {
        let first = self.attribution.places(self.key).start;
        (first..=place)
            .rev()
            .take_while(|&p| self.attribution.txn[p] == txn)
            .any(|p| self.attribution.read_of[p] != NONE)
    }

    /// The versions of a block, oldest first.
    fn chain(&self, root: u32) -> Vec<u32> {
        let mut chain = vec![root];
        let mut last = root;
        loop {
            let next = self.dependencies.overwritten_by[last as usize];
            // A blind write that merely must come next starts a block of its own.
            if next == NONE || !self.readers.of(last).contains(&self.attribution.writer(next)) || next == root {
                return chain;
            }
            chain.push(next);
            last = next;
        }
    }

    /// Walks a chain from its end and compares each operation with the earliest end of what follows it.
    fn block(&self, root: u32) -> Result<Block, Conflict> {
        let mut block = Block { root, end_min: i64::MAX, end_min_of: NONE, start_max: i64::MIN, start_max_of: NONE };
        let chain = self.chain(root);
        for (at, &version) in chain.iter().enumerate().rev() {
            let overwriter = chain.get(at + 1).map_or(NONE, |&next| self.attribution.writer(next));
            let before_group = block;
            for &reader in self.readers.of(version).iter().filter(|&&r| r != overwriter) {
                self.check(&chain[at..], &before_group, reader)?;
                self.widen(&mut block, reader);
            }
            let writer = self.attribution.writer(version);
            if writer != INITIAL {
                let after = block;
                self.check(&chain[at..], &after, writer)?;
                self.widen(&mut block, writer);
            }
        }
        Ok(block)
    }

    /// Whether what follows `txn` in the chain was over before it began; `chain` starts at its version.
    fn check(&self, chain: &[u32], following: &Block, txn: u32) -> Result<(), Conflict> {
        let start = self.history.txns.start[txn as usize];
        let later = following.end_min_of;
        if later == NONE || later == txn || following.end_min >= start {
            return Ok(());
        }
        let of_later = |&v: &u32| self.attribution.writer(v) == later || self.readers.of(v).contains(&later);
        let reach = chain.iter().rposition(of_later).map_or(chain.len(), |at| at + 1);
        let between = self.writers(&chain[..reach]);
        Err(Conflict::Order { key: self.key, earlier: txn, later, between })
    }

    fn writers(&self, versions: &[u32]) -> Vec<u32> {
        versions.iter().map(|&v| self.attribution.writer(v)).filter(|&writer| writer != INITIAL).collect()
    }

    fn widen(&self, block: &mut Block, txn: u32) {
        let start = self.history.txns.start[txn as usize];
        if start != NO_TIME && start > block.start_max {
            block.start_max = start;
            block.start_max_of = txn;
        }
        if let Some(end) = realtime::end_of(self.history, txn)
            && end < block.end_min
        {
            block.end_min = end;
            block.end_min_of = txn;
        }
    }

    /// Two blocks that must each come before the other, if there are any.
    fn between(&self, blocks: &[Block]) -> Option<Conflict> {
        let (mut forward, backward): (Vec<Block>, Vec<Block>) =
            blocks.iter().filter(|b| b.start_max_of != NONE).partition(|b| b.end_min < b.start_max);
        forward.sort_by_key(|b| b.end_min);
        for pair in forward.windows(2) {
            if pair[1].end_min < pair[0].start_max {
                return Some(self.clash(&pair[0], &pair[1]));
            }
        }
        for inner in &backward {
            let at = forward.partition_point(|b| b.end_min < inner.start_max);
            if let Some(outer) = at.checked_sub(1).map(|at| &forward[at])
                && inner.end_min < outer.start_max
            {
                return Some(self.clash(outer, inner));
            }
        }
        None
    }

    fn clash(&self, first: &Block, second: &Block) -> Conflict {
        Conflict::Blocks {
            key: self.key,
            first_end: first.end_min_of,
            first_start: first.start_max_of,
            second_end: second.end_min_of,
            second_start: second.start_max_of,
            between: [first, second].iter().flat_map(|block| self.writers(&self.chain(block.root))).collect(),
        }
    }
}
