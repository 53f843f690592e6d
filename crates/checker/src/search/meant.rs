//! Which write a `versions` line means, where a value was written more than once.
//!
//! A line gives versions of a key by their values, in the order in which they were installed. A value that several
//! transactions left behind may mean any of their versions, as long as all entries of the line come in order.

use super::csp::{Alternative, Choice, Csp, Guarded, Meaning};
use super::polygraph::NodeEdge;
use super::select::Selectors;
use crate::analysis::Analysis;
use crate::evidence::attribution::INITIAL;

/// A value of a line, and the versions that it may mean.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The line, by its place in the history.
    pub line: u32,
    /// The place in the line.
    pub at: u32,
    /// The versions.
    pub candidates: Vec<u32>,
    /// Whether one of them is there for certain; otherwise the entry may say nothing.
    pub sure: bool,
    /// Whether nothing is open about it.
    pub settled: bool,
}

impl Csp {
    /// The choices of what the entries mean, and the order that follows. `follows` joins a writer to a later one.
    pub fn add_meanings(
        &mut self,
        analysis: &Analysis,
        selectors: &Selectors,
        effect: impl Fn(u32) -> Option<u32>,
        follows: impl Fn(u32, u32) -> NodeEdge,
    ) {
        let writer = |version: u32| analysis.attribution.writer(version);
        let mut line: Vec<(usize, Option<u32>)> = Vec::new();
        for (place, entry) in selectors.entries.iter().enumerate() {
            if line.last().is_some_and(|&(before, _)| selectors.entries[before].line != entry.line) {
                line.clear();
            }
            let choice = (!entry.settled).then(|| {
                let count = entry.candidates.len() + usize::from(!entry.sure);
                let choice = self.add(Choice::Meant(place as u32), count);
                for (alternative, &version) in entry.candidates.iter().enumerate() {
                    let Some(effect) = effect(writer(version)) else { continue };
                    self.excluded.push(((choice, alternative as u32), (effect, 0)));
                    if !entry.sure {
                        self.excluded.push(((choice, entry.candidates.len() as u32), (effect, 1)));
                    }
                }
                choice
            });
            // What comes before an entry that says something for certain comes before it through that one.
            for &(before, before_choice) in line.iter().rev() {
                let earlier = &selectors.entries[before];
                for (one, &first) in earlier.candidates.iter().enumerate() {
                    for (other, &second) in entry.candidates.iter().enumerate() {
                        let when: Vec<Alternative> = (before_choice.map(|choice| (choice, one as u32)).into_iter())
                            .chain(choice.map(|choice| (choice, other as u32)))
                            .collect();
                        if when.is_empty() || writer(first) == INITIAL {
                            continue;
                        }
                        // One version cannot come before itself, and none before the initial one.
                        let impossible = first == second || writer(second) == INITIAL;
                        let to = if impossible { writer(first) } else { writer(second) };
                        let edge = if impossible { (to, to) } else { follows(writer(first), to) };
                        self.edges.push(Guarded { edge, meaning: Meaning::Told(first, second), when });
                    }
                }
                if earlier.sure {
                    break;
                }
            }
            line.push((place, choice));
        }
    }
}
