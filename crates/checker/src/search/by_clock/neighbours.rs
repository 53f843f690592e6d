//! What windows of time leave open, as choices between neighbours: which of two writes came first, whom a read saw.

use rustc_hash::FxHashMap;

use super::super::csp::{Alternative, Choice, Csp, Guarded, Meaning};
use super::super::polygraph::NodeEdge;
use super::{CLUSTER_MAX, Clock, NEIGHBOURS, Span, Windows};
use crate::evidence::attribution::INITIAL;
use crate::order::acyclic::{Node, Rule, Space};

/// The versions of a key in clusters: all of one come before all of the next; inside of one, orders may be open.
pub(super) struct Clusters {
    /// The writers, [`INITIAL`] first, and the choice of each pair of one cluster that is open.
    members: Vec<Vec<u32>>,
    /// The cluster of each writer.
    of: FxHashMap<u32, u32>,
    /// The open pairs of a cluster: alternative 0 puts the first one first.
    open: FxHashMap<(u32, u32), u32>,
}

impl Clusters {
    /// Whether the one is before the other of the same cluster: the choice and alternative that say so, if it is open.
    fn when(&self, first: u32, second: u32) -> Option<Alternative> {
        let forward = self.open.get(&(first, second)).map(|&choice| (choice, 0));
        forward.or_else(|| self.open.get(&(second, first)).map(|&choice| (choice, 1)))
    }
}

/// What is left to choose.
pub(super) struct Problem<'p, 'a> {
    pub(super) clock: &'p Clock<'a>,
    pub(super) space: &'p Space<'p>,
    pub(super) times: &'p Windows,
    pub(super) csp: Csp,
    pub(super) certain: Vec<NodeEdge>,
}

impl Problem<'_, '_> {
    fn commit(&self, txn: u32) -> u32 {
        self.space.number(Node::Plain(txn))
    }

    fn snapshot(&self, txn: u32) -> u32 {
        self.space.number(Node::Arrived(txn))
    }

    /// The edge from a writer to one that overwrites it.
    fn overwrite(&self, first: u32, second: u32) -> NodeEdge {
        match self.space.rule {
            Rule::Snapshot => (self.commit(first), self.snapshot(second)),
            Rule::Serializable | Rule::Prefix => (self.commit(first), self.commit(second)),
        }
    }

    fn possible(&self, first: u32, second: u32) -> bool {
        let edge = (self.clock.commit(first), self.clock.snapshot(second));
        self.times.possible(edge)
            && !self.clock.inferred.contains(&(self.clock.commit(second), self.clock.snapshot(first)))
    }

    fn add(&mut self, edge: NodeEdge, when: Vec<Alternative>) {
        if when.is_empty() {
            self.certain.push(edge);
        } else {
            self.csp.edges.push(Guarded { edge, meaning: Meaning::Session, when });
        }
    }

    /// Orders the writers of a key as far as windows do, and makes a choice of every pair that they leave open.
    pub(super) fn clusters(&mut self, span: &Span) -> Option<Clusters> {
        let latest = |txn: u32| self.times.latest[self.clock.commit(txn) as usize];
        let mut sorted: Vec<u32> = span.by_earliest.iter().map(|&(_, txn)| txn).collect();
        sorted.sort_by_key(|&txn| (latest(txn), txn));
        let mut members: Vec<Vec<u32>> = vec![vec![INITIAL]];
        for txn in sorted {
            // A later one that could come before any of a cluster belongs to it, and to those that it reaches back over.
            let mut first = members.len();
            for (at, cluster) in members.iter().enumerate().skip(1).rev().take(NEIGHBOURS) {
                if cluster.iter().any(|&member| self.possible(txn, member)) {
                    first = at;
                }
            }
            let mut joined: Vec<u32> = members.split_off(first).into_iter().flatten().collect();
            joined.push(txn);
            if joined.len() > CLUSTER_MAX {
                return None;
            }
            members.push(joined);
        }
        let mut clusters = Clusters { members, of: FxHashMap::default(), open: FxHashMap::default() };
        for at in 0..clusters.members.len() {
            let cluster = &clusters.members[at];
            for (place, &one) in cluster.iter().enumerate() {
                clusters.of.insert(one, at as u32);
                for &other in &cluster[place + 1..] {
                    match (self.possible(one, other), self.possible(other, one)) {
                        (true, true) => {
                            let choice = self.csp.add(Choice::Order(one, other), 2);
                            clusters.open.insert((one, other), choice);
                            self.add(self.overwrite(one, other), vec![(choice, 0)]);
                            self.add(self.overwrite(other, one), vec![(choice, 1)]);
                        }
                        (true, false) => self.add(self.overwrite(one, other), Vec::new()),
                        (false, true) => self.add(self.overwrite(other, one), Vec::new()),
                        (false, false) => return None,
                    }
                }
                for &next in clusters.members.get(at + 1).into_iter().flatten().filter(|_| one != INITIAL) {
                    self.add(self.overwrite(one, next), Vec::new());
                }
            }
        }
        Some(clusters)
    }

    /// What follows from a read, for whom it saw or for each whom it can have seen.
    pub(super) fn look(&mut self, clusters: &Clusters, span: &Span, txn: u32, at: u32) -> Option<()> {
        let look = &self.clock.looks[at as usize];
        let (candidates, choice) = match look.seen {
            Some(seen) => (vec![seen], None),
            None => {
                let mut candidates = self.clock.candidates(self.times, span, txn, look);
                if candidates.is_empty() || candidates.len() > CLUSTER_MAX {
                    return None;
                }
                // The latest is the likeliest.
                let written = |&writer: &u32| match writer {
                    INITIAL => i64::MIN,
                    writer => self.times.latest[self.clock.commit(writer) as usize],
                };
                candidates.sort_by_key(|writer| std::cmp::Reverse(written(writer)));
                let choice = self.csp.add(Choice::Source(at), candidates.len());
                (candidates, Some(choice))
            }
        };
        let snapshot = self.snapshot(txn);
        for (alternative, &seen) in candidates.iter().enumerate() {
            let when: Vec<Alternative> = choice.map(|choice| (choice, alternative as u32)).into_iter().collect();
            if seen != INITIAL {
                self.add((self.commit(seen), snapshot), when.clone());
            }
            let here = *clusters.of.get(&seen)? as usize;
            for &other in clusters.members[here].iter().filter(|&&other| other != seen && other != txn) {
                match clusters.when(seen, other) {
                    Some(first) => self.add((snapshot, self.commit(other)), [&when[..], &[first]].concat()),
                    None if self.possible(seen, other) => self.add((snapshot, self.commit(other)), when.clone()),
                    None => {}
                }
            }
            for &next in clusters.members.get(here + 1).into_iter().flatten().filter(|&&next| next != txn) {
                self.add((snapshot, self.commit(next)), when.clone());
            }
        }
        Some(())
    }
}
