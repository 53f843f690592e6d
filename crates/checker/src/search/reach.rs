//! Who reaches whom, in memory that is bounded.
//!
//! Nodes are covered by chains (paths); a node's label holds, for each chain, the earliest place that it
//! reaches. With sessions as chains that is 4 bytes a session and node. Where there are too many chains, a label is a
//! bit for each node that somebody asks about instead. Either way the labels are made a *window* of columns at a time, each within a
//! fixed amount of memory, and the columns of a window are shared out over the threads.

use super::net::Net;
use crate::parallel;

/// Bytes of labels that are held at a time.
const WINDOW_BYTES: usize = 256 << 20;
/// How many words of labels are joined in the time of looking at one node.
const WORDS_AT_ONCE: u64 = 16;
/// Below this many nodes one thread does it.
const WORTH_A_THREAD: usize = 5_000;

/// A cover of the nodes by chains: the chain of each node, and its place there.
pub struct Cover {
    /// How many chains.
    pub chains: usize,
    /// The chain of each node.
    pub of: Vec<u32>,
    /// The place of each node in its chain; a node leads to those behind it.
    pub place: Vec<u32>,
}

impl Cover {
    /// Paths found greedily along `order`; `prefer` names the successor that should go on a path, if any. Nodes that
    /// are not `there` have no edges worth a path, and are never asked about.
    pub fn of_paths(
        net: &Net,
        order: &[u32],
        there: impl Fn(u32) -> bool,
        prefer: impl Fn(u32) -> Option<u32>,
    ) -> Cover {
        const UNSET: u32 = u32::MAX;
        let mut cover = Cover { chains: 0, of: vec![UNSET; net.len()], place: vec![0; net.len()] };
        for &node in order {
            if !there(node) {
                (cover.of[node as usize], cover.place[node as usize]) = (0, UNSET);
                cover.chains = cover.chains.max(1);
                continue;
            }
            if cover.of[node as usize] == UNSET {
                cover.of[node as usize] = cover.chains as u32;
                cover.chains += 1;
            }
            let free = |&to: &u32| cover.of[to as usize] == UNSET;
            let next = prefer(node).filter(free).or_else(|| net.out(node).iter().copied().find(free));
            if let Some(next) = next {
                cover.of[next as usize] = cover.of[node as usize];
                cover.place[next as usize] = cover.place[node as usize] + 1;
            }
        }
        cover
    }
}

enum Kind {
    Chains,
    Nodes,
}

const NO_COLUMN: u32 = u32::MAX;

/// The plan: which columns there are and how many fit into a window.
pub struct Plan<'a> {
    known: &'a Net,
    more: &'a Net,
    cover: &'a Cover,
    order: &'a [u32],
    rank: Vec<u32>,
    kind: Kind,
    /// The column of each node that is asked about.
    column: Vec<u32>,
    columns: usize,
    width: usize,
    threads: usize,
}

impl<'a> Plan<'a> {
    /// Labels for the union of two graphs, whose nodes stand in a topological `order`. Only the nodes marked in `asked`
    /// can be asked about as ends of paths.
    pub fn new(
        known: &'a Net,
        more: &'a Net,
        cover: &'a Cover,
        order: &'a [u32],
        asked: &[bool],
        threads: usize,
    ) -> Plan<'a> {
        let nodes = known.len();
        let ends = asked.iter().filter(|&&asked| asked).count();
        // Rank 0 is the last of the order, so that a node's successors have smaller ranks.
        let mut rank = vec![0u32; nodes];
        for (at, &node) in order.iter().rev().enumerate() {
            rank[node as usize] = at as u32;
        }
        let mut column = vec![NO_COLUMN; nodes];
        let (kind, columns, per_byte) = if cover.chains * 32 <= ends {
            (Kind::Chains, cover.chains, 4 * nodes)
        } else {
            let mut next = 0..;
            for &node in order.iter().filter(|&&node| asked[node as usize]) {
                column[node as usize] = next.next().unwrap_or(NO_COLUMN);
            }
            (Kind::Nodes, ends, nodes.div_ceil(8))
        };
        let width = (WINDOW_BYTES / per_byte.max(1)).clamp(64, columns.max(64)) / 64 * 64;
        let threads = if nodes < WORTH_A_THREAD { 1 } else { threads };
        Plan { known, more, cover, order, rank, kind, column, columns, width: width.max(64), threads }
    }

    /// The rank of a node: it can only reach nodes of smaller rank.
    pub fn rank(&self, node: u32) -> u32 {
        self.rank[node as usize]
    }

    /// How much is looked at to make all labels: a word of each column for each edge.
    pub fn work(&self) -> u64 {
        let words = match self.kind {
            Kind::Chains => self.columns.div_ceil(2),
            Kind::Nodes => self.columns.div_ceil(64),
        };
        (self.known.edges() + self.more.edges() + self.order.len()) as u64 * words as u64 / WORDS_AT_ONCE
    }

    /// Whether there is more than one window.
    pub fn is_costly(&self) -> bool {
        self.columns > self.width
    }

    /// The windows, one after the other.
    pub fn windows(&self) -> impl Iterator<Item = Window<'_>> {
        (0..self.columns).step_by(self.width).map(|first| self.window(first, (first + self.width).min(self.columns)))
    }

    fn window(&self, first: usize, end: usize) -> Window<'_> {
        let share = (end - first).div_ceil(self.threads).next_multiple_of(64);
        let jobs = (first..end).step_by(share).map(|from| move || self.part(from, (from + share).min(end)));
        Window { plan: self, first, end, share, parts: parallel::run(jobs.collect()) }
    }

    fn part(&self, first: usize, end: usize) -> Part {
        match self.kind {
            Kind::Chains => Part::Chains(self.labels(
                end - first,
                u32::MAX,
                |node| {
                    let chain = self.cover.of[node as usize] as usize;
                    (first..end).contains(&chain).then(|| (chain - first, self.cover.place[node as usize]))
                },
                |mine, theirs| mine.min(theirs),
            )),
            Kind::Nodes => Part::Nodes(self.labels(
                (end - first).div_ceil(64),
                0u64,
                |node| {
                    let column = self.column[node as usize] as usize;
                    (first..end).contains(&column).then(|| ((column - first) / 64, 1 << ((column - first) % 64)))
                },
                |mine, theirs| mine | theirs,
            )),
        }
    }

    /// One row a node, by rank: what is its own, joined with the rows of its successors.
    fn labels<L: Copy>(
        &self,
        width: usize,
        blank: L,
        own: impl Fn(u32) -> Option<(usize, L)>,
        join: impl Fn(L, L) -> L,
    ) -> Vec<L> {
        let mut rows = vec![blank; self.order.len() * width];
        for (at, &node) in self.order.iter().rev().enumerate() {
            let (done, rest) = rows.split_at_mut(at * width);
            let row = &mut rest[..width];
            for &to in self.known.out(node).iter().chain(self.more.out(node)) {
                let other = &done[self.rank(to) as usize * width..][..width];
                for (mine, &theirs) in row.iter_mut().zip(other) {
                    *mine = join(*mine, theirs);
                }
            }
            if let Some((column, label)) = own(node) {
                row[column] = join(row[column], label);
            }
        }
        rows
    }
}

enum Part {
    Chains(Vec<u32>),
    Nodes(Vec<u64>),
}

/// The labels of some columns.
pub struct Window<'a> {
    plan: &'a Plan<'a>,
    first: usize,
    end: usize,
    share: usize,
    parts: Vec<Part>,
}

impl Window<'_> {
    /// Whether this window shows that `from` reaches `to` (a node reaches itself).
    #[inline]
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        let (from_rank, to_rank) = (self.plan.rank(from), self.plan.rank(to));
        if from_rank < to_rank {
            return false;
        }
        let column = match self.plan.kind {
            Kind::Chains => self.plan.cover.of[to as usize] as usize,
            Kind::Nodes => self.plan.column[to as usize] as usize,
        };
        if column < self.first || column >= self.end {
            return false;
        }
        let (part, within) = ((column - self.first) / self.share, (column - self.first) % self.share);
        let width = self.share.min(self.end - self.first - part * self.share);
        match &self.parts[part] {
            Part::Chains(rows) => rows[from_rank as usize * width + within] <= self.plan.cover.place[to as usize],
            Part::Nodes(rows) => {
                let words = width.div_ceil(64);
                rows[from_rank as usize * words + within / 64] >> (within % 64) & 1 == 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::net::topological;

    /// Edges that lead to larger nodes only, by a small generator of numbers.
    fn edges(nodes: u32, count: usize, mut seed: u64) -> Vec<(u32, u32)> {
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32
        };
        let pairs = (0..count).map(|_| (next() % nodes, next() % nodes));
        pairs.filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).collect()
    }

    fn reached(known: &Net, more: &Net, from: u32) -> Vec<bool> {
        let mut seen = vec![false; known.len()];
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut seen[node as usize], true) {
                stack.extend(known.out(node).iter().chain(more.out(node)));
            }
        }
        seen
    }

    #[test]
    fn labels_say_what_a_walk_finds_with_few_chains_and_with_many() {
        let nodes = 200;
        let line: Vec<(u32, u32)> = (0..nodes - 1).filter(|n| n % 100 != 99).map(|n| (n, n + 1)).collect();
        for (known, seed) in [(line, 1), (edges(nodes, 150, 2), 3), (Vec::new(), 4)] {
            let (known, more) = (Net::of(nodes as usize, &known), Net::of(nodes as usize, &edges(nodes, 120, seed)));
            let order = topological(&known, &more).expect("edges lead upwards");
            let cover = Cover::of_paths(&known, &order, |_| true, |_| None);
            let plan = Plan::new(&known, &more, &cover, &order, &vec![true; nodes as usize], 2);
            let windows: Vec<_> = plan.windows().collect();
            for from in 0..nodes {
                let walk = reached(&known, &more, from);
                for to in 0..nodes {
                    let labelled = windows.iter().any(|window| window.reaches(from, to));
                    assert_eq!(labelled, walk[to as usize], "{from} to {to}, {} chains", cover.chains);
                }
            }
        }
    }
}
