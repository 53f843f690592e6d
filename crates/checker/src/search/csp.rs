//! What is left after pruning, as choices with alternatives and edges that depend on them.

use rustc_hash::FxHashMap;

use super::orders::Orders;
use super::polygraph::{NodeEdge, Polygraph};
use super::select::Selectors;
use crate::analysis::Analysis;
use crate::decision::Question;
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::dependencies::Edge;
use crate::evidence::outcome::Role;

/// The choice of whether each transaction that may have taken effect did.
pub type Effects = FxHashMap<u32, u32>;

/// A choice, by its place in [`Csp::choices`], and one of its alternatives.
pub type Alternative = (u32, u32);

/// Something to decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Which of two chains comes first: alternative 0 says the first, 1 the second.
    Order(u32, u32),
    /// Which candidate a read saw, by the selector's place. If its reader may not have taken effect, one alternative
    /// more says that.
    Source(u32),
    /// Whether a transaction of unknown outcome took effect: alternative 1 says so.
    Effect(u32),
    /// Which candidate an entry of a `versions` line means, by the entry's place. If none of them need be there, one
    /// alternative more says that none is.
    Meant(u32),
}

/// What an edge of the problem says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The first chain comes before the second.
    Order(u32, u32),
    /// The read of a selector, by its place, saw this version.
    Source(u32, u32),
    /// Session order.
    Session,
    /// Evidence from outside, of this kind.
    Outside(Edge),
    /// A `versions` line puts the first version before the second. From a transaction to itself: that cannot be.
    Told(u32, u32),
    /// What a weak level's axiom says, by its place among those learned. From a transaction to itself: it read the
    /// initial version although it saw another.
    Inferred(u32),
}

/// An edge that is there when all its conditions hold.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// The edge.
    pub edge: NodeEdge,
    /// Why it is there then.
    pub meaning: Meaning,
    /// The conditions, a few.
    pub when: Vec<Alternative>,
}

/// The problem: pick an alternative of each choice so that the graph has no cycle.
#[derive(Default)]
pub struct Csp {
    /// The choices.
    pub choices: Vec<Choice>,
    /// How many alternatives each has.
    pub alternatives: Vec<u32>,
    /// Alternatives that do not go together.
    pub excluded: Vec<(Alternative, Alternative)>,
    /// The edges.
    pub edges: Vec<Guarded>,
}

impl Csp {
    /// Adds a choice.
    pub fn add(&mut self, choice: Choice, alternatives: usize) -> u32 {
        self.choices.push(choice);
        self.alternatives.push(alternatives as u32);
        self.choices.len() as u32 - 1
    }

    /// About how many edges [`Csp::of`] gives for all open pairs, without making them.
    pub fn size(polygraph: &Polygraph<'_>, selectors: &Selectors, orders: &[Orders]) -> u64 {
        let readers = |chain: u32| polygraph.readers.of(polygraph.chains[chain as usize].last).len() as u64 + 1;
        let pairs: u64 = orders.iter().flat_map(Orders::open).map(|(a, b)| readers(a) + readers(b)).sum();
        let group_of = |chain: u32| polygraph.groups.partition_point(|group| group.chains.end <= chain);
        let behind = |version: u32| match polygraph.ends[version as usize] {
            NONE => 2,
            end => orders[group_of(end)].chains().len() as u64 + 1,
        };
        let seen = selectors.all.iter().flat_map(|selector| &selector.candidates);
        pairs + seen.map(|&version| behind(version)).sum::<u64>()
    }

    /// The choices between these pairs of chains, and all other choices there are.
    pub fn of(
        polygraph: &Polygraph<'_>,
        selectors: &Selectors,
        orders: &[Orders],
        pairs: impl Iterator<Item = (u32, u32)>,
    ) -> Csp {
        let mut csp = Csp::default();
        let effects = csp.add_effects(selectors);
        let took_effect = |txn: u32| effects.get(&txn).map(|&choice| (choice, 1));
        let mut order_choice: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let ordered = |csp: &mut Csp, first: u32, second: u32, chosen: Option<Alternative>| {
            let when: Vec<Alternative> = chosen
                .into_iter()
                .chain(took_effect(polygraph.head(first)))
                .chain(took_effect(polygraph.head(second)))
                .collect();
            polygraph.edges(first, second, |edge| {
                csp.edges.push(Guarded { edge, meaning: Meaning::Order(first, second), when: when.clone() });
                true
            });
        };
        for (a, b) in pairs {
            let choice = csp.add(Choice::Order(a, b), 2);
            order_choice.insert((a, b), choice);
            ordered(&mut csp, a, b, Some((choice, 0)));
            ordered(&mut csp, b, a, Some((choice, 1)));
        }
        for group in polygraph.groups.iter().filter(|_| !effects.is_empty()) {
            for chain in group.chains.clone().filter(|&chain| !polygraph.certain[chain as usize]) {
                ordered(&mut csp, group.chains.start, chain, None);
            }
        }
        let analysis = polygraph.analysis;
        csp.add_sessions(analysis, &effects, |earlier, later| (polygraph.commit(earlier), polygraph.snapshot(later)));
        csp.add_outside(analysis, polygraph.question, &effects, |from, to, kind| polygraph.outside(from, to, kind));
        let follows = |earlier: u32, later: u32| (polygraph.commit(earlier), polygraph.overwrite_target(later));
        csp.add_meanings(analysis, selectors, |txn| effects.get(&txn).copied(), follows);
        let reads = |writer: u32, reader: u32| (polygraph.commit(writer), polygraph.snapshot(reader));
        let group_of = |chain: u32| polygraph.groups.partition_point(|group| group.chains.end <= chain);
        for (place, selector) in selectors.all.iter().enumerate() {
            let choice = csp.add_source(analysis, selectors, &effects, place, reads);
            for (alternative, &version) in selector.candidates.iter().enumerate() {
                let chosen = (choice, alternative as u32);
                let meaning = Meaning::Source(place as u32, version);
                let from = polygraph.snapshot(selector.reader);
                let mut overwritten = |txn: u32, mut when: Vec<Alternative>| {
                    if txn != selector.reader {
                        when.extend(took_effect(txn));
                        csp.edges.push(Guarded { edge: (from, polygraph.commit(txn)), meaning, when });
                    }
                };
                let end = polygraph.ends[version as usize];
                if end == NONE {
                    let next = polygraph.analysis.dependencies.made_into(version);
                    if next != NONE {
                        overwritten(polygraph.analysis.attribution.writer(next), vec![chosen]);
                    }
                    continue;
                }
                let group = &orders[group_of(end)];
                for other in group.chains().filter(|&other| other != end) {
                    let head = polygraph.head(other);
                    match (group.get(end, other), order_choice.get(&(end.min(other), end.max(other)))) {
                        (Some((true, _)), _) if head != INITIAL => overwritten(head, vec![chosen]),
                        (None, Some(&pair)) => overwritten(head, vec![chosen, (pair, u32::from(end > other))]),
                        _ => {}
                    }
                }
            }
        }
        csp
    }

    /// A choice for each transaction that may have taken effect.
    pub fn add_effects(&mut self, selectors: &Selectors) -> Effects {
        selectors.maybe.iter().map(|&txn| (txn, self.add(Choice::Effect(txn), 2))).collect()
    }

    /// The choice of whom a read saw, and the edges from there, which `reads` makes of a writer and a reader.
    pub fn add_source(
        &mut self,
        analysis: &Analysis,
        selectors: &Selectors,
        effects: &Effects,
        place: usize,
        reads: impl Fn(u32, u32) -> NodeEdge,
    ) -> u32 {
        let selector = &selectors.all[place];
        // The reads of one that is judged anyway hold whether it took effect or not.
        let judged = analysis.roles[selector.reader as usize] != Role::Absent;
        let reader = effects.get(&selector.reader).filter(|_| !judged);
        let choice = self.add(Choice::Source(place as u32), selector.candidates.len() + usize::from(reader.is_some()));
        if let Some(&effect) = reader {
            self.excluded.push(((choice, selector.candidates.len() as u32), (effect, 1)));
        }
        for (alternative, &version) in selector.candidates.iter().enumerate() {
            let chosen = (choice, alternative as u32);
            let writer = analysis.attribution.writer(version);
            if writer != INITIAL {
                let meaning = Meaning::Source(place as u32, version);
                self.edges.push(Guarded { edge: reads(writer, selector.reader), meaning, when: vec![chosen] });
                self.excluded.extend(effects.get(&writer).map(|&effect| (chosen, (effect, 0))));
            }
        }
        choice
    }

    /// Edges from outside from and to transactions that may have taken effect; `leads` makes an edge of two of a kind. Who
    /// is told to have been read from took effect if its reader did.
    pub fn add_outside(
        &mut self,
        analysis: &Analysis,
        question: Question,
        effects: &Effects,
        leads: impl Fn(u32, u32, Edge) -> NodeEdge,
    ) {
        if effects.is_empty() {
            return;
        }
        let there = |txn: u32| analysis.counts(txn) || effects.contains_key(&txn);
        let doubtful = |txn: u32| effects.get(&txn).filter(|_| !analysis.counts(txn));
        for (from, to, kind) in analysis.outside.edges(question, there) {
            let when: Vec<Alternative> =
                [from, to].iter().filter_map(|&txn| doubtful(txn)).map(|&effect| (effect, 1)).collect();
            if !when.is_empty() {
                self.edges.push(Guarded { edge: leads(from, to, kind), meaning: Meaning::Outside(kind), when });
            }
        }
        for (reader, writer) in analysis.outside.read_from() {
            if let (Some(&reader), Some(&writer)) = (doubtful(reader), effects.get(&writer)) {
                self.excluded.push(((reader, 1), (writer, 0)));
            }
        }
    }

    /// Session order from and to transactions that may have taken effect; `precedes` makes an edge of two of a session.
    pub fn add_sessions(&mut self, analysis: &Analysis, effects: &Effects, precedes: impl Fn(u32, u32) -> NodeEdge) {
        if effects.is_empty() || !analysis.options.session_order {
            return;
        }
        // By session: the last that certainly counts, and those behind it that may.
        let mut last: Vec<Vec<u32>> = vec![Vec::new(); analysis.history.sessions.len()];
        for txn in 0..analysis.history.len() as u32 {
            let before = &mut last[analysis.history.txns.session[txn as usize] as usize];
            let counts = analysis.roles[txn as usize] != Role::Absent;
            if !counts && !effects.contains_key(&txn) {
                continue;
            }
            for &earlier in before.iter() {
                let when: Vec<Alternative> =
                    [earlier, txn].iter().filter_map(|txn| effects.get(txn)).map(|&effect| (effect, 1)).collect();
                if !when.is_empty() {
                    let edge = precedes(earlier, txn);
                    self.edges.push(Guarded { edge, meaning: Meaning::Session, when });
                }
            }
            if counts {
                before.clear();
            }
            before.push(txn);
        }
    }
}
