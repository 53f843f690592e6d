//! What is known and what is open, as a generalised polygraph (Tan et al. 2020, Cobra).
//!
//! The versions of a key form *chains*: runs that nothing can come between, since each version was made from the one
//! before it (a read-modify-write) or a list shows them one after the other. The chain of the initial version is
//! the first. Of two other chains either one may come first, and that choice decides everything between them: the
//! overwrite (`ww`) from the end of the one to the head of the other, and the `rw` edges from the readers of that end.
//!
//! Prefix allows two transactions to overwrite the same version, so its chains are single versions.

use isolde_history::Status;

use super::net::Net;
use super::reach::Cover;
use super::select::Selectors;
use crate::analysis::Analysis;
use crate::decision::Question;
use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::dependencies::Edge;
use crate::evidence::outcome::Role;
use crate::evidence::readers::Readers;
use crate::order::acyclic::{Node, Rule, Space};
use crate::weak::saturation::ByOp;

/// A run of versions of a key, by its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// The oldest version.
    pub first: u32,
    /// The newest.
    pub last: u32,
}

/// The chains of one key; the first is the one of the initial version.
#[derive(Clone, Debug)]
pub struct Group {
    /// The key.
    pub key: u32,
    /// Its chains, as a range of [`Polygraph::chains`].
    pub chains: std::ops::Range<u32>,
}

/// An edge that a choice brings, between nodes.
pub type NodeEdge = (u32, u32);

/// The problem that a search solves.
pub struct Polygraph<'a> {
    /// The evidence.
    pub analysis: &'a Analysis,
    /// What is asked.
    pub question: Question,
    /// How nodes are numbered.
    pub space: Space<'a>,
    /// Everything that is known.
    pub known: Net,
    /// The chains of the keys with something open.
    pub chains: Vec<Chain>,
    /// Those keys.
    pub groups: Vec<Group>,
    /// Who read each version.
    pub readers: Readers,
    /// The columns by operation.
    pub by_op: ByOp,
    /// The chain that each version is the end of, or [`NONE`].
    pub ends: Vec<u32>,
    /// The chain that each version is the head of, or [`NONE`].
    pub heads: Vec<u32>,
    /// Whether each transaction wrote something.
    writes: Vec<bool>,
    /// A plausible place of each transaction among all, where no times are known.
    place: Vec<i64>,
    /// Whether each chain is there for certain; one of a transaction that may not have taken effect is not.
    pub certain: Vec<bool>,
}

impl<'a> Polygraph<'a> {
    /// The problem of a space.
    pub fn new(analysis: &'a Analysis, question: Question, space: Space<'a>, selectors: &Selectors) -> Polygraph<'a> {
        let known = Net::build(space.len(), |visit| {
            for number in 0..space.len() as u32 {
                space.successors(number, |to| visit(number, to));
            }
        });
        let versions = analysis.attribution.version_count();
        let mut polygraph = Polygraph {
            known,
            chains: Vec::new(),
            groups: Vec::new(),
            readers: Readers::new(&analysis.attribution, &analysis.roles),
            by_op: ByOp::new(&analysis.history, &analysis.attribution),
            ends: vec![NONE; versions],
            heads: vec![NONE; versions],
            certain: Vec::new(),
            writes: vec![false; analysis.history.len()],
            place: plausible_places(analysis),
            analysis,
            question,
            space,
        };
        let mut asked = vec![false; analysis.attribution.keys() as usize];
        selectors.all.iter().for_each(|selector| asked[selector.key as usize] = true);
        for (place, &txn) in analysis.attribution.txn.iter().enumerate() {
            polygraph.writes[txn as usize] |= analysis.attribution.installs[place];
        }
        for key in 0..analysis.attribution.keys() {
            polygraph.add_key(key, asked[key as usize], selectors);
        }
        polygraph
    }

    /// Adds the chains of a key if something about them is open; `asked` says that somebody may have read any of them.
    fn add_key(&mut self, key: u32, asked: bool, selectors: &Selectors) {
        let attribution = &self.analysis.attribution;
        let initial = Attribution::initial_version(key);
        let alone = self.space.rule == Rule::Prefix;
        let follow = |version: u32| {
            let mut last = version;
            while !alone && self.analysis.dependencies.made_into(last) != NONE {
                last = self.analysis.dependencies.made_into(last);
            }
            last
        };
        let installed = attribution
            .places(key)
            .filter(|&p| attribution.installs[p])
            .filter(|&p| {
                let txn = attribution.txn[p];
                self.analysis.roles[txn as usize] == Role::Effective || selectors.is_maybe(txn)
            })
            .map(|place| attribution.version_at(place as u32));
        let heads = installed.filter(|&v| alone || !self.analysis.dependencies.made[v as usize]);
        let mut chains: Vec<Chain> = vec![Chain { first: initial, last: follow(initial) }];
        chains.extend(heads.map(|first| Chain { first, last: follow(first) }));
        // With one chain behind the initial one nothing is open, unless it may not be there; prefix has no edges for that yet.
        let uncertain = chains.iter().any(|chain| selectors.is_maybe(attribution.writer(chain.first)));
        if chains.len() < if alone { 2 } else { 3 } && !asked && !uncertain {
            return;
        }
        let base = self.chains.len() as u32;
        for (at, chain) in chains.iter().enumerate() {
            self.heads[chain.first as usize] = base + at as u32;
            self.ends[chain.last as usize] = base + at as u32;
        }
        self.groups.push(Group { key, chains: base..base + chains.len() as u32 });
        self.certain.extend(chains.iter().map(|chain| !selectors.is_maybe(attribution.writer(chain.first))));
        self.chains.append(&mut chains);
    }

    /// The node at which a transaction's writes take effect.
    #[inline]
    pub fn commit(&self, txn: u32) -> u32 {
        self.space.number(Node::Plain(txn))
    }

    /// The node at which it reads.
    #[inline]
    pub fn snapshot(&self, txn: u32) -> u32 {
        self.space.number(Node::Arrived(txn))
    }

    /// The transaction that a chain begins with; none for an initial one.
    #[inline]
    pub fn head(&self, chain: u32) -> u32 {
        self.analysis.attribution.writer(self.chains[chain as usize].first)
    }

    /// Where an overwrite by this transaction leads to.
    #[inline]
    pub fn overwrite_target(&self, txn: u32) -> u32 {
        match self.space.rule {
            Rule::Serializable | Rule::Prefix => self.commit(txn),
            Rule::Snapshot => self.snapshot(txn),
        }
    }

    /// Where an edge from outside leads from and to.
    pub fn outside(&self, from: u32, to: u32, kind: Edge) -> NodeEdge {
        match self.space.rule {
            _ if kind.is_anti() => (self.snapshot(from), self.commit(to)),
            Rule::Prefix if kind.orders_commits() => (self.commit(from), self.commit(to)),
            Rule::Serializable | Rule::Snapshot | Rule::Prefix => (self.commit(from), self.snapshot(to)),
        }
    }

    /// Calls `visit` with the edges that follow when chain `a` comes before chain `b`, until it says stop.
    #[inline]
    pub fn edges(&self, a: u32, b: u32, mut visit: impl FnMut(NodeEdge) -> bool) {
        let head = self.head(b);
        let last = self.chains[a as usize].last;
        let tail = self.analysis.attribution.writer(last);
        if tail != INITIAL && !visit((self.commit(tail), self.overwrite_target(head))) {
            return;
        }
        for &reader in self.readers.of(last).iter().filter(|&&reader| reader != head) {
            if !visit((self.snapshot(reader), self.commit(head))) {
                return;
            }
        }
    }

    /// A cover of the nodes by paths: sessions and the line of time where these count.
    pub fn cover(&self, order: &[u32]) -> Cover {
        let next_of = |txn: u32| {
            let next = self.analysis.dependencies.session_next[txn as usize];
            (self.analysis.options.session_order && next != NONE).then(|| self.snapshot(next))
        };
        let there = |node: u32| match self.space.node(node) {
            Node::Plain(txn) | Node::Arrived(txn) => self.analysis.roles[txn as usize] != Role::Absent,
            Node::Time(_) => true,
        };
        Cover::of_paths(&self.known, order, there, |node| match self.space.node(node) {
            Node::Arrived(txn) => Some(self.commit(txn)),
            Node::Plain(txn) => next_of(txn),
            Node::Time(_) => Some(node + 1).filter(|&next| (next as usize) < self.space.len()),
        })
    }

    /// When a node plausibly happened: at its recorded time, or where it stands in the file or in its session. One that
    /// writes nothing is in nobody's way, but others may have to wait for it.
    pub fn moment(&self, node: u32) -> i64 {
        let history = &self.analysis.history;
        let (txn, starts) = match self.space.node(node) {
            Node::Plain(txn) => (txn, false),
            Node::Arrived(txn) => (txn, true),
            Node::Time(_) => return i64::MIN,
        };
        let row = txn as usize;
        if !self.writes[row] {
            return i64::MIN;
        }
        if !self.analysis.timed {
            return 2 * self.place[row] + i64::from(!starts);
        }
        let ended = !starts && history.txns.status[row] != Status::Unknown;
        if ended { history.txns.end[row] } else { history.txns.start[row] }
    }
}

/// The place in the file, if that has its sessions mixed; if one comes after the other, how far on each is in its session.
pub fn plausible_places(analysis: &Analysis) -> Vec<i64> {
    const SCALE: i64 = 1 << 40;
    let sessions = &analysis.history.txns.session;
    let in_a_row = sessions.windows(2).filter(|pair| pair[0] == pair[1]).count();
    if in_a_row * 2 < sessions.len() || analysis.history.sessions.len() < 2 {
        return (0..sessions.len() as i64).collect();
    }
    let mut count = vec![0i64; analysis.history.sessions.len()];
    sessions.iter().for_each(|&session| count[session as usize] += 1);
    let mut seen = vec![0i64; count.len()];
    sessions
        .iter()
        .map(|&session| {
            seen[session as usize] += 1;
            seen[session as usize] * (SCALE / count[session as usize])
        })
        .collect()
}
