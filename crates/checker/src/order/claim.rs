//! Is the order that the database told a serialization order? By replaying it: another order that explains the history does
//! not help a database that says it was this one (Clark et al. 2024, Enne).

use isolde_history::Status;

use crate::analysis::Analysis;
use crate::decision::Question;
use crate::evidence::attribution::{INITIAL, NONE};
use crate::evidence::outside::Outside;
use crate::evidence::realtime;
use crate::order::acyclic::{Explanation, Rule};
use crate::order::reasons::Relation;

/// Why the order that was told is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// Run in this order, the operation does not get the answer that was recorded.
    Answer {
        /// The operation.
        op: u32,
        /// Who changed its key last before, or [`INITIAL`].
        writer: u32,
    },
    /// One transaction comes before another, and the order has them the other way round.
    Reversed {
        /// The one that comes first.
        first: u32,
        /// The one after it.
        second: u32,
        /// In what sense.
        relation: Relation,
        /// The place of the edge from outside that says so, or [`NONE`].
        outside: u32,
    },
}

impl Analysis {
    /// A committed transaction that has no place in the order that was told.
    pub fn without_place(&self) -> Option<u32> {
        let mut placed = vec![false; self.history.len()];
        self.outside.serial.iter().for_each(|&txn| placed[txn as usize] = true);
        (0..self.history.len() as u32)
            .find(|&txn| self.history.txns.status[txn as usize] == Status::Committed && !placed[txn as usize])
    }

    /// Replays the order that was told: the explanation that it is, or why it is none. Whoever has a place took effect.
    pub fn claim(&self, question: Question) -> Result<Explanation, Misfit> {
        let commits = self.outside.serial.clone();
        let unknown = |txn: &u32| self.history.txns.status[*txn as usize] == Status::Unknown;
        let mut effects: Vec<u32> = commits.iter().copied().filter(unknown).collect();
        effects.sort_unstable();
        let mut place = vec![NONE; self.history.len()];
        commits.iter().zip(0..).for_each(|(&txn, at)| place[txn as usize] = at);
        if let Some(misfit) = self.reversed(question, &commits, &place) {
            return Err(misfit);
        }
        let explanation = Explanation { commits, snapshots: Vec::new(), effects };
        match self.first_misfit(Rule::Serializable, &explanation, &|at| at as u32) {
            None => Ok(explanation),
            Some((op, last)) => {
                let writer = last.map_or(INITIAL, |at| explanation.commits[at as usize]);
                Err(Misfit::Answer { op: op as u32, writer })
            }
        }
    }

    /// Two transactions that the order has the wrong way round.
    fn reversed(&self, question: Question, commits: &[u32], place: &[u32]) -> Option<Misfit> {
        let history = &self.history;
        let placed = |txn: u32| place[txn as usize] != NONE;
        let wrong = |first: u32, second: u32| place[first as usize] > place[second as usize];
        let misfit = |first, second, relation, outside| Some(Misfit::Reversed { first, second, relation, outside });
        if self.options.session_order {
            let mut last = vec![NONE; history.sessions.len()];
            for txn in (0..history.len() as u32).filter(|&txn| placed(txn)) {
                let before = std::mem::replace(&mut last[history.txns.session[txn as usize] as usize], txn);
                if before != NONE && wrong(before, txn) {
                    return misfit(before, txn, Relation::So, NONE);
                }
            }
        }
        if question.real_time() {
            let mut soonest: Option<u32> = None;
            for &txn in commits.iter().rev() {
                if let Some(first) = soonest.filter(|&first| realtime::precedes(history, first, txn)) {
                    return misfit(first, txn, Relation::Rt, NONE);
                }
                let end = |txn: u32| realtime::end_of(history, txn).unwrap_or(i64::MAX);
                soonest = Some(soonest.filter(|&other| end(other) <= end(txn)).unwrap_or(txn));
            }
        }
        let Outside { from, to, relation, chains, .. } = &self.outside;
        let counts = |at: &usize| placed(from[*at]) && placed(to[*at]) && relation[*at].edge(question).is_some();
        if let Some(at) = (0..from.len()).filter(counts).find(|&at| wrong(from[at], to[at])) {
            return misfit(from[at], to[at], relation[at], at as u32);
        }
        for chain in chains {
            let writers: Vec<u32> = chain.iter().filter(|&&op| op != NONE).map(|&op| self.txn_of(op)).collect();
            let mut pairs = writers.windows(2).filter(|pair| placed(pair[0]) && placed(pair[1]));
            if let Some(pair) = pairs.find(|pair| wrong(pair[0], pair[1])) {
                return misfit(pair[0], pair[1], Relation::Ww, NONE);
            }
        }
        None
    }
}
