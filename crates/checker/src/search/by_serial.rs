//! The order that the database itself gave, tried before any other, and believed only if it replays.
//!
//! Where every transaction has its place, they are run one after the other. Where only the writers have (a read-only
//! transaction gets no commit timestamp), their places are taken as the order of all versions, and the readers find their own.

use std::borrow::Cow;

use crate::analysis::Analysis;
use crate::decision::Question;
use crate::evidence::attribution::NONE;
use crate::evidence::dependencies::collect;
use crate::evidence::outcome::Role;
use crate::evidence::outside::Outside;
use crate::evidence::realtime::timeline;
use crate::order::acyclic::{Explanation, Space};

impl Analysis {
    /// An order that follows the one that was told, if one replays that keeps what the question asks for.
    pub(crate) fn by_serial(&self, question: Question) -> Option<Explanation> {
        if self.outside.serial.is_empty() {
            return None;
        }
        let counted = |txn: &u32| self.counts(*txn);
        let told: Vec<u32> = self.outside.serial.iter().copied().filter(counted).collect();
        if told.len() == (0..self.history.len() as u32).filter(counted).count() {
            let explanation = Explanation::of(told);
            if self.replays(question, &explanation) {
                return Some(explanation);
            }
        }
        let mut place = vec![NONE; self.history.len()];
        self.outside.serial.iter().zip(0..).for_each(|(&txn, at)| place[txn as usize] = at);
        let mut chains = Vec::new();
        for key in 0..self.attribution.keys() {
            let installed = self.attribution.places(key).filter(|&at| {
                self.attribution.installs[at] && self.roles[self.attribution.txn[at] as usize] == Role::Effective
            });
            let mut writes: Vec<(u32, u32)> =
                installed.map(|at| (place[self.attribution.txn[at] as usize], self.attribution.op[at])).collect();
            writes.sort_unstable();
            if writes.last().is_some_and(|&(at, _)| at == NONE) {
                return None;
            }
            chains.push(std::iter::once(NONE).chain(writes.into_iter().map(|(_, op)| op)).collect());
        }
        let none = Vec::new;
        let versions = Outside::new(&self.history, none(), none(), Vec::new(), chains, none()).ok()?;
        let options = self.options;
        let roles = &self.roles;
        let known = collect(&self.history, &versions, &self.attribution, roles, options.session_order, options.threads);
        let graph = self.known(question, Cow::Owned(known.graph));
        let times = question.real_time().then(|| timeline(&self.history, roles));
        let space = Space { graph: &graph, rule: question.rule(), timeline: times.as_ref() };
        let explanation = space.explanation(&space.order().ok()?, |txn| self.counts(txn));
        self.replays(question, &explanation).then_some(explanation)
    }
}
