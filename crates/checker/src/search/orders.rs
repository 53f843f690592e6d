//! What is decided about pairs of chains, and when.

use super::polygraph::{Group, NodeEdge, Polygraph};

/// More rounds of pruning than this are not told apart.
pub const ROUND_MAX: u8 = 120;

/// The pairs of one key, a byte each: open, or which comes first and since which round of pruning.
#[derive(Clone)]
pub struct Orders {
    first: u32,
    count: usize,
    cells: Vec<u8>,
}

impl Orders {
    /// Nothing but that the initial chain comes first.
    pub fn new(group: &Group) -> Orders {
        let count = group.chains.len();
        let mut orders = Orders { first: group.chains.start, count, cells: vec![0; count * (count - 1) / 2] };
        for other in 1..count as u32 {
            orders.set(orders.first, orders.first + other, 0);
        }
        orders
    }

    /// How many pairs there are.
    pub fn pairs(&self) -> u64 {
        self.cells.len() as u64
    }

    /// The chains.
    pub fn chains(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count as u32
    }

    fn cell(&self, low: u32, high: u32) -> usize {
        let (i, j) = ((low - self.first) as usize, (high - self.first) as usize);
        j * (j - 1) / 2 + i
    }

    /// Whether `a` comes before `b`, and since which round; `None` while that is open.
    #[inline]
    pub fn get(&self, a: u32, b: u32) -> Option<(bool, u8)> {
        let code = self.cells[if a < b { self.cell(a, b) } else { self.cell(b, a) }];
        (code != 0).then(|| ((code - 1).is_multiple_of(2) == (a < b), (code - 1) / 2))
    }

    /// Whether `a` is known to come before `b`.
    #[inline]
    pub fn precedes(&self, a: u32, b: u32) -> bool {
        self.get(a, b).is_some_and(|(before, _)| before)
    }

    /// Notes that `a` comes before `b`.
    pub fn set(&mut self, a: u32, b: u32, round: u8) {
        let code = 1 + 2 * round + u8::from(a > b);
        let cell = if a < b { self.cell(a, b) } else { self.cell(b, a) };
        self.cells[cell] = code;
    }

    /// The pairs that are open, the lower chain first.
    pub fn open(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let chains = self.chains();
        chains
            .clone()
            .flat_map(move |b| (chains.start..b).map(move |a| (a, b)))
            .zip(&self.cells)
            .filter_map(|(pair, &code)| (code == 0).then_some(pair))
    }

    /// Calls `visit` with the edges of what is known, without those that follow from others. `rank` orders the chains
    /// in a way that follows what is known.
    pub fn edges(&self, polygraph: &Polygraph<'_>, rank: impl Fn(u32) -> u64, visit: &mut dyn FnMut(NodeEdge)) {
        let mut sorted: Vec<u32> = self.chains().collect();
        sorted.sort_unstable_by_key(|&chain| rank(chain));
        let words = self.count.div_ceil(64);
        let mut after = vec![0u64; self.count * words];
        for at in (0..sorted.len()).rev() {
            let chain = sorted[at];
            let mut row = vec![0u64; words];
            // What was found in the last round may still point against the rank.
            let certain = |other: u32| polygraph.certain[other as usize];
            for &other in sorted[..at].iter().filter(|&&other| self.precedes(chain, other) && certain(other)) {
                polygraph.edges(chain, other, |edge| {
                    visit(edge);
                    true
                });
            }
            for (place, &other) in sorted.iter().enumerate().skip(at + 1) {
                if row[place / 64] >> (place % 64) & 1 == 0 && self.precedes(chain, other) && certain(other) {
                    polygraph.edges(chain, other, |edge| {
                        visit(edge);
                        true
                    });
                    for (mine, theirs) in row.iter_mut().zip(&after[place * words..]) {
                        *mine |= theirs;
                    }
                    row[place / 64] |= 1 << (place % 64);
                }
            }
            after[at * words..(at + 1) * words].copy_from_slice(&row);
        }
    }
}
