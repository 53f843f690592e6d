//! A tree of cases turned into a proof that can be shown: only what its cycles use.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cases::Tree;
use super::csp::{Alternative, Choice, Csp, Guarded};
use super::select::Selectors;
use crate::analysis::Analysis;
use crate::decision::{Assumption, Case, CycleEdge, Proof};

/// What a case comes to: the edges of its cycle, and the picks that they use.
pub type Closed = (Vec<CycleEdge>, FxHashSet<Alternative>);

/// The proof of a tree, and the picks that it uses. A choice that some branch does not use is not shown; those that
/// are shown are added to `choices`. `cycle` finds the cycle that an edge closes under the picks so far.
pub fn draw(
    tree: &Tree,
    picks: &mut Vec<Alternative>,
    choices: &mut FxHashSet<u32>,
    cycle: &mut dyn FnMut(usize, &[Alternative]) -> Option<Closed>,
    assumption: &dyn Fn(Alternative) -> Assumption,
) -> Option<(Proof, FxHashSet<Alternative>)> {
    match tree {
        Tree::Closed { edge } => cycle(*edge, picks).map(|(edges, used)| (Proof::Cycle(edges), used)),
        Tree::Cases { choice, branches } => {
            let mut cases = Vec::new();
            let mut used = FxHashSet::default();
            for (alternative, below) in branches {
                let pick = (*choice, *alternative);
                picks.push(pick);
                let drawn = draw(below, picks, choices, cycle, assumption);
                picks.pop();
                let (proof, mut needs) = drawn?;
                if !needs.remove(&pick) {
                    return Some((proof, needs));
                }
                used.extend(needs);
                cases.push(Case { assumption: assumption(pick), proof });
            }
            choices.insert(*choice);
            Some((Proof::Cases(cases), used))
        }
    }
}

/// What holds when some alternatives are picked.
pub struct Holding<'c> {
    csp: &'c Csp,
    picks: &'c [Alternative],
    /// An effect stands for the first pick that needs it.
    because: FxHashMap<u32, Alternative>,
    /// The effects that make a choice one that is to be made.
    hangs_on: FxHashMap<u32, Vec<u32>>,
}

impl<'c> Holding<'c> {
    /// These picks and the effects that they need.
    pub fn of(csp: &'c Csp, picks: &'c [Alternative]) -> Holding<'c> {
        let mut because: FxHashMap<u32, Alternative> = FxHashMap::default();
        let mut hangs_on: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (chosen, (effect, excluded)) in &csp.excluded {
            if *excluded == 0 && picks.contains(chosen) {
                because.entry(*effect).or_insert(*chosen);
            }
            if *excluded == 1 {
                hangs_on.entry(chosen.0).or_default().push(*effect);
            }
        }
        Holding { csp, picks, because, hangs_on }
    }

    /// The edges that are there, with their places in the problem.
    pub fn edges(&self) -> impl Iterator<Item = (usize, &'c Guarded)> {
        self.csp.edges.iter().enumerate().filter(|(_, guarded)| {
            let mut when = guarded.when.iter();
            when.all(|picked| self.picks.contains(picked) || (picked.1 == 1 && self.because.contains_key(&picked.0)))
        })
    }

    /// The picks that an edge needs, with those that make the reads behind them count.
    pub fn needs(&self, edge: usize) -> FxHashSet<Alternative> {
        let mut needed = FxHashSet::default();
        let mut waiting = self.csp.edges[edge].when.clone();
        while let Some(picked) = waiting.pop() {
            let picked = self.because.get(&picked.0).copied().unwrap_or(picked);
            if needed.insert(picked) {
                let effects = self.hangs_on.get(&picked.0).into_iter().flatten();
                waiting.extend(effects.filter_map(|effect| self.because.get(effect)).take(1));
            }
        }
        needed
    }
}

impl Selectors {
    /// What picking an alternative of a read or of a told value assumes.
    pub fn assumption(&self, analysis: &Analysis, choice: Choice, alternative: u32) -> Assumption {
        match choice {
            Choice::Source(place) => {
                let selector = &self.all[place as usize];
                let written_op = analysis.op_of(selector.candidates[alternative as usize]);
                Assumption::Source { read_op: selector.op, written_op }
            }
            Choice::Meant(place) => {
                let entry = &self.entries[place as usize];
                let written_op = analysis.op_of(entry.candidates[alternative as usize]);
                Assumption::Meant { line: entry.line, at: entry.at, written_op }
            }
            Choice::Order(..) | Choice::Effect(_) => unreachable!("neither a read nor a told value"),
        }
    }
}
