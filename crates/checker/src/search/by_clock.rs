//! The order that the clock suggests, found before any constraint is laid out, and believed only if it replays.
//!
//! Every snapshot and every commit has a window of time: between the start and the end of its transaction, after what it
//! needs and before what needs it. Where windows leave one way to order two writes of a key, or one version that a read can
//! have seen, that way is taken, and the windows shrink, until nothing more follows. It does not matter then how many
//! versions of a key share a value (every delete writes the same one): only those near in time are left to choose from, and
//! the solver decides among them. That a database keeps real time is assumed here, not known, so that
//! nothing follows if no order is found.
//!
//! Time and memory are linear in the history, but for sorting, as long as few transactions overlap.

mod neighbours;

use isolde_history::{Op, Status, Value};
use rustc_hash::FxHashSet;

use self::neighbours::Problem;
use super::csp::Csp;
use super::net::{Net, topological};
use super::polygraph::NodeEdge;
use super::sat::{Question, Solved, solve};
use crate::analysis::Analysis;
use crate::decision::Question as Level;
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::outcome::Role;
use crate::evidence::realtime::timeline;
use crate::order::acyclic::{Explanation, Node, Rule, Space};

/// How often it is asked what follows.
const ROUNDS_MAX: usize = 30;
/// How many writers of a key are compared with each other one at a time.
const NEIGHBOURS: usize = 64;
/// How many steps the solver may take for each transaction, and at most.
const STEPS_A_TRANSACTION: u64 = 20;
const STEPS_MAX: u64 = 2_000_000;
/// More writers of a key whose order is open, or more versions that a read can have seen, are too many to guess.
const CLUSTER_MAX: usize = 48;

impl Analysis {
    /// An order that the clock suggests, if one replays that keeps what the question asks for.
    pub(crate) fn by_clock(&self, question: Level) -> Option<Explanation> {
        let (rule, real_time) = (question.rule(), question.real_time());
        if !self.timed || self.history.has_lists() || rule == Rule::Prefix {
            return None;
        }
        let times = real_time.then(|| timeline(&self.history, &self.roles));
        // What is serializable keeps the order of snapshots too, and windows of snapshots tell more.
        let graph = self.known_order(question);
        let space = Space { graph: &graph, rule: Rule::Snapshot, timeline: times.as_ref() };
        let mut clock = Clock::new(self, space);
        for _ in 0..ROUNDS_MAX {
            if clock.infer()? == 0 {
                break;
            }
        }
        let space = Space { graph: &graph, rule, timeline: times.as_ref() };
        let explanation = clock.solve(&space)?;
        self.replays(question, &explanation).then_some(explanation)
    }
}

/// What an operation found at its key, outside of its transaction.
#[derive(Clone, Copy)]
struct Look {
    key: u32,
    value: Value,
    /// Whether it found this value; otherwise it found another one.
    is: bool,
    /// Who wrote what was seen, or [`INITIAL`]; none while that is open.
    seen: Option<u32>,
}

impl Look {
    fn fits(&self, value: Value) -> bool {
        (self.value == value) == self.is
    }
}

/// What a transaction left at a key.
#[derive(Clone, Copy)]
struct Left {
    key: u32,
    value: Value,
}

/// When each node can have happened.
struct Windows {
    earliest: Vec<i64>,
    latest: Vec<i64>,
}

impl Windows {
    /// Whether the one node can have come before the other.
    fn possible(&self, (first, second): NodeEdge) -> bool {
        self.earliest[first as usize] <= self.latest[second as usize]
    }
}

/// The writers of a key, by when they can have taken effect.
#[derive(Default)]
struct Span {
    /// The earliest moment of each.
    by_earliest: Vec<(i64, u32)>,
    /// The latest moment of each, and the latest of it and all before.
    latest: Vec<i64>,
    until: Vec<i64>,
    /// The latest moment of each, and the latest of the earliest moments of it and all before.
    by_latest: Vec<(i64, i64)>,
}

impl Span {
    fn sort(&mut self, latest: impl Fn(u32) -> i64) {
        self.by_earliest.sort_unstable();
        self.latest = self.by_earliest.iter().map(|&(_, txn)| latest(txn)).collect();
        let mut most = i64::MIN;
        self.until.extend(self.latest.iter().map(|&moment| {
            most = most.max(moment);
            most
        }));
        self.by_latest.sort_unstable();
        let mut most = i64::MIN;
        for (_, earliest) in &mut self.by_latest {
            most = most.max(*earliest);
            *earliest = most;
        }
    }

    /// Those that can have taken effect in this time.
    fn within(&self, from: i64, until: i64) -> impl Iterator<Item = u32> + '_ {
        let end = self.by_earliest.partition_point(|&(earliest, _)| earliest <= until);
        let near = (0..end).rev().take_while(move |&at| self.until[at] >= from);
        near.filter(move |&at| self.latest[at] >= from).map(|at| self.by_earliest[at].1)
    }

    /// A moment such that all who took effect before it were overwritten by `moment`, if somebody was.
    fn overwritten_before(&self, moment: i64) -> Option<i64> {
        let before = self.by_latest.partition_point(|&(latest, _)| latest < moment);
        before.checked_sub(1).map(|at| self.by_latest[at].1)
    }
}

struct Clock<'a> {
    analysis: &'a Analysis,
    space: Space<'a>,
    known: Net,
    /// What follows from the clock.
    more: Vec<NodeEdge>,
    inferred: FxHashSet<NodeEdge>,
    initial: Vec<Value>,
    /// What each transaction found, and where those of each begin.
    looks: Vec<Look>,
    looks_of: Vec<u32>,
    /// What each transaction left behind, and where that of each begins.
    writes: Vec<Left>,
    writes_of: Vec<u32>,
}

impl<'a> Clock<'a> {
    fn new(analysis: &'a Analysis, space: Space<'a>) -> Clock<'a> {
        let history = &analysis.history;
        let known = net(&space);
        let mut initial = vec![Value::NULL; history.keys.len()];
        for &(name, value) in &history.header.initial {
            if let Some(key) = history.keys.find(name) {
                initial[key as usize] = value;
            }
        }
        let mut clock = Clock {
            analysis,
            space,
            known,
            more: Vec::new(),
            inferred: FxHashSet::default(),
            initial,
            looks: Vec::new(),
            looks_of: vec![0],
            writes: Vec::new(),
            writes_of: vec![0],
        };
        for txn in 0..history.len() as u32 {
            clock.add(txn);
            clock.looks_of.push(clock.looks.len() as u32);
            clock.writes_of.push(clock.writes.len() as u32);
        }
        clock
    }

    /// Notes what a counted transaction found and left behind.
    fn add(&mut self, txn: u32) {
        let analysis = self.analysis;
        let role = analysis.roles[txn as usize];
        if role == Role::Absent {
            return;
        }
        let first = self.writes.len();
        for row in analysis.history.ops_of(txn) {
            let (key, look, left) = match analysis.history.op(row) {
                Op::Read(key, value) => (key, Some((value, true)), None),
                Op::Write(key, value) => (key, None, Some(value)),
                Op::Cas(key, cas) if cas.applied => (key, Some((cas.expected, true)), Some(cas.new)),
                Op::Cas(key, cas) if cas.current == Value::MISSING => (key, Some((cas.expected, false)), None),
                Op::Cas(key, cas) => (key, Some((cas.current, true)), None),
                Op::Append(..) | Op::Scan(_) | Op::Sql(_) => continue,
            };
            let own = self.writes[first..].iter().position(|left| left.key == key);
            if let (Some((value, is)), None) = (look, own) {
                let place = analysis.attribution.place(key, row as u32);
                let version = analysis.attribution.read_of[place as usize];
                let seen = (version != NONE).then(|| analysis.attribution.writer(version));
                self.looks.push(Look { key, value, is, seen });
            }
            match (left, own) {
                (Some(value), Some(at)) => self.writes[first + at].value = value,
                (Some(value), None) => self.writes.push(Left { key, value }),
                (None, _) => {}
            }
        }
        if role != Role::Effective {
            self.writes.truncate(first);
        }
    }

    fn writes(&self, txn: u32) -> &[Left] {
        &self.writes[self.writes_of[txn as usize] as usize..self.writes_of[txn as usize + 1] as usize]
    }

    /// What a transaction left at a key.
    fn left(&self, txn: u32, key: u32) -> Option<Value> {
        self.writes(txn).iter().find(|left| left.key == key).map(|left| left.value)
    }

    fn commit(&self, txn: u32) -> u32 {
        self.space.number(Node::Plain(txn))
    }

    fn snapshot(&self, txn: u32) -> u32 {
        self.space.number(Node::Arrived(txn))
    }

    /// When each node can have happened: nothing before what it needs began, nor after what needs it ended.
    fn windows(&self, more: &Net, order: &[u32]) -> Windows {
        let nodes = self.known.len() as u32;
        let out = |node: u32| self.known.out(node).iter().chain(more.out(node)).copied();
        let bounds = |node: u32| match self.space.node(node) {
            Node::Plain(txn) | Node::Arrived(txn) if self.analysis.roles[txn as usize] != Role::Absent => {
                let txns = &self.analysis.history.txns;
                // One of unknown outcome may take effect long after its client gave up.
                let ended = txns.status[txn as usize] != Status::Unknown;
                (txns.start[txn as usize], if ended { txns.end[txn as usize] } else { i64::MAX })
            }
            Node::Plain(_) | Node::Arrived(_) | Node::Time(_) => (i64::MIN, i64::MAX),
        };
        let mut earliest: Vec<i64> = (0..nodes).map(|node| bounds(node).0).collect();
        let mut latest: Vec<i64> = (0..nodes).map(|node| bounds(node).1).collect();
        for &node in order {
            out(node).for_each(|to| earliest[to as usize] = earliest[to as usize].max(earliest[node as usize]));
        }
        for &node in order.iter().rev() {
            out(node).for_each(|to| latest[node as usize] = latest[node as usize].min(latest[to as usize]));
        }
        Windows { earliest, latest }
    }

    /// Adds what follows from the clock: where a read or two writes of a key leave one way open, that way. Says how much
    /// was found; `None` if nothing is left, so that the clock cannot be right.
    fn infer(&mut self) -> Option<usize> {
        let more = Net::of(self.known.len(), &self.more);
        let order = topological(&self.known, &more)?;
        let times = self.windows(&more, &order);
        let keys: Vec<Span> = self.spans(&times);
        let mut found: Vec<NodeEdge> = Vec::new();
        let mut seen: Vec<(usize, u32)> = Vec::new();
        // Notes the one of two ways that is left.
        let either = |found: &mut Vec<NodeEdge>, one: NodeEdge, other: NodeEdge| -> Option<()> {
            match (times.possible(one), times.possible(other)) {
                (true, true) => {}
                (true, false) => found.push(one),
                (false, true) => found.push(other),
                (false, false) => return None,
            }
            Some(())
        };
        for txn in 0..self.looks_of.len() as u32 - 1 {
            for at in self.looks_of[txn as usize]..self.looks_of[txn as usize + 1] {
                let look = &self.looks[at as usize];
                let span = &keys[look.key as usize];
                let snapshot = self.snapshot(txn);
                let Some(writer) = look.seen else {
                    let candidates = self.candidates(&times, span, txn, look);
                    if candidates.is_empty() {
                        return None;
                    }
                    if let [only] = candidates[..] {
                        seen.push((at as usize, only));
                        if only != INITIAL {
                            found.push((self.commit(only), snapshot));
                        }
                    }
                    continue;
                };
                let from = if writer == INITIAL { i64::MIN } else { times.earliest[self.commit(writer) as usize] };
                let writes = self.left(txn, look.key).is_some();
                let until = times.latest[if writes { self.commit(txn) } else { snapshot } as usize];
                for other in span.within(from, until).filter(|&other| other != txn && other != writer).take(NEIGHBOURS)
                {
                    let behind =
                        if writes { (self.commit(txn), self.snapshot(other)) } else { (snapshot, self.commit(other)) };
                    if writer == INITIAL {
                        found.push(behind);
                    } else {
                        either(&mut found, (self.commit(other), self.snapshot(writer)), behind)?;
                    }
                }
            }
        }
        for span in &keys {
            for &(_, txn) in &span.by_earliest {
                let commit = self.commit(txn) as usize;
                let (from, until) = (times.earliest[commit], times.latest[commit]);
                for other in span.within(from, until).filter(|&other| other < txn).take(NEIGHBOURS) {
                    let one = (self.commit(txn), self.snapshot(other));
                    either(&mut found, one, (self.commit(other), self.snapshot(txn)))?;
                }
            }
        }
        seen.iter().for_each(|&(at, writer)| self.looks[at].seen = Some(writer));
        let before = self.more.len();
        let new = found.into_iter().filter(|&edge| self.inferred.insert(edge));
        self.more.extend(new);
        Some(self.more.len() - before + seen.len())
    }

    /// Whom an open read can have seen.
    fn candidates(&self, times: &Windows, span: &Span, txn: u32, look: &Look) -> Vec<u32> {
        let snapshot = self.snapshot(txn) as usize;
        // What came for certain before something that came for certain before this was overwritten.
        let gone = span.overwritten_before(times.earliest[snapshot]);
        let fits = |other: u32| other != txn && self.left(other, look.key).is_some_and(|value| look.fits(value));
        let first = (gone.is_none() && look.fits(self.initial[look.key as usize])).then_some(INITIAL);
        let others = span.within(gone.unwrap_or(i64::MIN), times.latest[snapshot]).filter(|&other| fits(other));
        first.into_iter().chain(others.take(CLUSTER_MAX + 1)).collect()
    }

    fn spans(&self, times: &Windows) -> Vec<Span> {
        let mut spans: Vec<Span> = self.initial.iter().map(|_| Span::default()).collect();
        for txn in 0..self.writes_of.len() as u32 - 1 {
            let commit = self.commit(txn) as usize;
            for left in self.writes(txn) {
                let span = &mut spans[left.key as usize];
                span.by_earliest.push((times.earliest[commit], txn));
                span.by_latest.push((times.latest[commit], times.earliest[commit]));
            }
        }
        spans.iter_mut().for_each(|span| span.sort(|txn| times.latest[self.commit(txn) as usize]));
        spans
    }

    /// Lets the solver choose what windows leave open, in the space of a rule; an order of everything, if there is one.
    fn solve(&self, space: &Space<'_>) -> Option<Explanation> {
        let more = Net::of(self.known.len(), &self.more);
        let order = topological(&self.known, &more)?;
        let times = self.windows(&more, &order);
        let spans = self.spans(&times);
        let mut problem = Problem { clock: self, space, times: &times, csp: Csp::default(), certain: Vec::new() };
        let mut keys = Vec::with_capacity(spans.len());
        for span in &spans {
            keys.push(problem.clusters(span)?);
        }
        for txn in 0..self.looks_of.len() as u32 - 1 {
            for at in self.looks_of[txn as usize]..self.looks_of[txn as usize + 1] {
                let look = &self.looks[at as usize];
                problem.look(&keys[look.key as usize], &spans[look.key as usize], txn, at)?;
            }
        }
        let Problem { csp, certain, .. } = problem;
        let nodes = space.len();
        let all = || {
            let plain = |visit: &mut dyn FnMut(u32, u32)| {
                for number in 0..nodes as u32 {
                    space.successors(number, |to| visit(number, to));
                }
                certain.iter().for_each(|&(from, to)| visit(from, to));
            };
            Net::build(nodes, plain)
        };
        let known = all();
        let order = topological(&known, &Net::of(nodes, &[]))?;
        let mut budget = (STEPS_A_TRANSACTION * self.analysis.history.len() as u64).min(STEPS_MAX);
        let question = Question { csp: &csp, known: &all, order: &order, plausible: &|_| 0 };
        let Solved::Picks(picks) = solve(&question, &mut budget) else { return None };
        let picked: Vec<NodeEdge> = csp
            .edges
            .iter()
            .filter(|guarded| guarded.when.iter().all(|&(choice, wanted)| picks[choice as usize] == wanted))
            .map(|guarded| guarded.edge)
            .collect();
        let order = topological(&known, &Net::of(nodes, &picked))?;
        Some(space.explanation(&order, |txn| self.analysis.roles[txn as usize] != Role::Absent))
    }
}

fn net(space: &Space<'_>) -> Net {
    Net::build(space.len(), |visit| {
        for number in 0..space.len() as u32 {
            space.successors(number, |to| visit(number, to));
        }
    })
}
