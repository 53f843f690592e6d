//! Pruning: a choice that would close a cycle is no choice.
//!
//! Each round labels the known graph with who reaches whom, and looks at every open pair of chains. Where one order
//! would close a cycle the other one is known, and its edges join the graph of the next round, until a round finds
//! nothing (or, where rounds are costly, next to nothing: what is left is then up to the solver).

use super::allowance::Allowance;
use super::net::{Net, topological};
use super::orders::{Orders, ROUND_MAX};
use super::polygraph::Polygraph;
use super::reach::{Plan, Window};
use crate::parallel;

/// When labels do not fit into one window, a round must decide one in so many open pairs to be followed by another.
const WORTH_A_ROUND: u64 = 200;

/// The state after pruning.
pub struct Pruned {
    /// What is decided, by group.
    pub orders: Vec<Orders>,
    /// The edges of what is decided.
    pub derived: Net,
    /// The nodes in an order that follows everything known; `None` if that has a cycle.
    pub order: Option<Vec<u32>>,
    /// How many pairs are still open.
    pub open: u64,
}

/// Prunes until nothing changes. Nothing is concluded about chains that may not be there. `None` if it cannot be
/// afforded.
pub fn prune(polygraph: &Polygraph<'_>, allowance: &mut Allowance) -> Option<Pruned> {
    let mut orders: Vec<Orders> = polygraph.groups.iter().map(Orders::new).collect();
    let mut rank: Vec<u64> = vec![0; polygraph.known.len()];
    let mut cover = None;
    let mut round = 0;
    let mut last_round = false;
    loop {
        // Every round looks at all pairs, and at who reaches whom.
        if !allowance.look(orders.iter().map(Orders::pairs).sum()) {
            return None;
        }
        let derived = derived_edges(polygraph, &orders, &rank);
        let Some(order) = topological(&polygraph.known, &derived) else {
            return Some(Pruned { open: open_pairs(&orders), orders, derived, order: None });
        };
        for (at, &node) in order.iter().enumerate() {
            rank[node as usize] = at as u64 + 1;
        }
        if round == ROUND_MAX || last_round {
            return Some(Pruned { open: open_pairs(&orders), orders, derived, order: Some(order) });
        }
        round += 1;
        let threads = polygraph.analysis.options.threads;
        let (found, costly) = {
            let cover = cover.get_or_insert_with(|| polygraph.cover(&order));
            let asked = ends_of_open(polygraph, &orders);
            let plan = Plan::new(&polygraph.known, &derived, cover, &order, &asked, threads);
            if !allowance.look(plan.work()) {
                return None;
            }
            let passes = plan.windows().map(|window| pass(polygraph, &mut orders, &window, round, threads));
            (passes.sum::<u64>(), plan.is_costly())
        };
        if found == 0 {
            return Some(Pruned { open: open_pairs(&orders), orders, derived, order: Some(order) });
        }
        last_round = costly && found < open_pairs(&orders) / WORTH_A_ROUND;
    }
}

/// The nodes from which an edge of an open pair would lead: paths that end there are what matters.
fn ends_of_open(polygraph: &Polygraph<'_>, orders: &[Orders]) -> Vec<bool> {
    let mut asked = vec![false; polygraph.known.len()];
    for group in orders {
        let mut open = vec![false; group.chains().len()];
        for (a, b) in group.open() {
            for (chain, other) in [(a, b), (b, a)] {
                let seen = &mut open[(chain - group.chains().start) as usize];
                if !std::mem::replace(seen, true) {
                    polygraph.edges(chain, other, |(from, _)| {
                        asked[from as usize] = true;
                        true
                    });
                }
            }
        }
    }
    asked
}

fn open_pairs(orders: &[Orders]) -> u64 {
    orders.iter().map(|orders| orders.open().count() as u64).sum()
}

/// The edges of everything decided; `rank` is the place of each node in an order that follows it.
pub fn derived_edges(polygraph: &Polygraph<'_>, orders: &[Orders], rank: &[u64]) -> Net {
    let mut edges = Vec::new();
    for group in orders {
        let place = |chain: u32| {
            let head = polygraph.head(chain);
            if head == crate::evidence::attribution::INITIAL { 0 } else { rank[polygraph.commit(head) as usize] }
        };
        group.edges(polygraph, place, &mut |edge| edges.push(edge));
    }
    Net::of(polygraph.known.len(), &edges)
}

fn pass(polygraph: &Polygraph<'_>, orders: &mut [Orders], window: &Window<'_>, round: u8, threads: usize) -> u64 {
    let share = orders.len().div_ceil(threads).max(1);
    let jobs = orders
        .chunks_mut(share)
        .map(|part| move || part.iter_mut().map(|group| pass_group(polygraph, group, window, round)).sum::<u64>());
    parallel::run(jobs.collect()).into_iter().sum()
}

fn pass_group(polygraph: &Polygraph<'_>, group: &mut Orders, window: &Window<'_>, round: u8) -> u64 {
    let closes = |a: u32, b: u32| {
        let mut cycle = false;
        polygraph.edges(a, b, |(from, to)| {
            cycle = window.reaches(to, from);
            !cycle
        });
        cycle
    };
    let forced: Vec<(u32, u32)> = group
        .open()
        .filter(|&(a, b)| polygraph.certain[a as usize] && polygraph.certain[b as usize])
        .filter_map(|(a, b)| if closes(a, b) { Some((b, a)) } else { closes(b, a).then_some((a, b)) })
        .collect();
    for &(a, b) in &forced {
        group.set(a, b, round);
    }
    forced.len() as u64
}
