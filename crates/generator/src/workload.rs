//! What a transaction will do, before anything is known of what it will see.

use crate::dice::Dice;
use crate::distribution::{KeyChooser, REDRAWS_MAX};
use crate::parameters::{Level, Parameters, Workload};

/// What is done to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Read,
    Write,
    Append,
}

/// One operation of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub action: Action,
    pub key: u32,
}

/// Cobra's mix (Tan et al., OSDI 2020): what remains is read-modify-write.
const READ_ONLY: f64 = 0.2;
const WRITE_ONLY: f64 = 0.4;

/// How often each operation of a mixed transaction is what; what remains are read-modify-writes.
///
/// The three mixes are those of Clark et al., "Bringing Order to Practical Validation of Database Isolation
/// Levels", section 8.4.
#[derive(Clone, Copy)]
struct Mix {
    reads: f64,
    blind_writes: f64,
}

impl Mix {
    fn of(parameters: &Parameters) -> Mix {
        match parameters.workload {
            Workload::HeavyWrite => Mix { reads: 0.1, blind_writes: 0.8 },
            Workload::ReadWrite => {
                let blind_writes = parameters.blind_writes.unwrap_or(0.5);
                Mix { reads: 1.0 - blind_writes, blind_writes }
            }
            _ => Mix { reads: 0.25, blind_writes: 0.25 },
        }
    }
}

/// Every read of a list shows all of it, so a list that grew for ever would make the history quadratic.
/// A list of this length is replaced by a fresh one, as Elle does.
const LIST_LENGTH_MAX: usize = 50;

/// Writes plans of one workload.
pub struct Planner {
    workload: Workload,
    ops: u32,
    chooser: KeyChooser,
    mix: Mix,
    /// Mini-transaction shapes, each as often as its weight; keys are 0 and 1.
    shapes: Vec<Vec<Step>>,
    /// The list that stands for each key now, and the next fresh one.
    lists: Vec<u32>,
    fresh: u32,
    /// Below snapshot isolation other appends may come between a transaction's snapshot and its own
    /// append; then no list that it could read between its append and its end would be a prefix of the
    /// final one. There, it does not look.
    reads_own_appends: bool,
}

impl Planner {
    pub fn new(parameters: &Parameters) -> Planner {
        let (keys, append) = (parameters.keys, parameters.workload == Workload::Append);
        Planner {
            workload: parameters.workload,
            ops: parameters.ops_per_transaction,
            chooser: KeyChooser::new(parameters.distribution, parameters.skew, keys),
            mix: Mix::of(parameters),
            shapes: weighted_shapes(parameters.ops_per_transaction, keys.min(2)),
            lists: if append { (0..keys).collect() } else { Vec::new() },
            fresh: keys,
            reads_own_appends: match parameters.level {
                Level::ReadCommitted | Level::ReadAtomic | Level::Causal => false,
                Level::SnapshotIsolation | Level::Serializable | Level::StrictSerializable => true,
            },
        }
    }

    /// Replaces `plan` by the next transaction's.
    ///
    /// `length` tells how long a list is by now; lists that have grown long are left for fresh ones.
    pub fn plan(&mut self, plan: &mut Vec<Step>, length: impl Fn(u32) -> usize, dice: &mut Dice) {
        plan.clear();
        match self.workload {
            Workload::Mini => self.plan_mini(plan, dice),
            Workload::General => self.plan_general(plan, dice),
            Workload::ReadModifyWrite | Workload::ReadWrite | Workload::HeavyWrite => self.plan_mix(plan, dice),
            Workload::Registers => {
                let action = if dice.below(2) == 0 { Action::Read } else { Action::Write };
                plan.push(Step { action, key: self.chooser.draw(dice) });
            }
            Workload::Append => self.plan_append(plan, length, dice),
            Workload::Cas => unreachable!("compare-and-sets are planned against the current value"),
        }
    }

    fn plan_mini(&self, plan: &mut Vec<Step>, dice: &mut Dice) {
        let shape = &self.shapes[dice.below(self.shapes.len() as u64) as usize];
        let first = self.chooser.draw(dice);
        let second = if shape.iter().any(|step| step.key == 1) { self.chooser.draw_other(first, dice) } else { first };
        plan.extend(shape.iter().map(|step| Step { key: if step.key == 0 { first } else { second }, ..*step }));
    }

    fn plan_general(&self, plan: &mut Vec<Step>, dice: &mut Dice) {
        let kind = dice.unit();
        while plan.len() < self.ops as usize {
            let key = self.chooser.draw(dice);
            if kind < READ_ONLY {
                plan.push(Step { action: Action::Read, key });
            } else if kind < READ_ONLY + WRITE_ONLY {
                plan.push(Step { action: Action::Write, key });
            } else {
                plan.extend([Step { action: Action::Read, key }, Step { action: Action::Write, key }]);
            }
        }
        // An odd number of operations ends a read-modify-write with a read.
        plan.truncate(self.ops as usize);
    }

    fn plan_mix(&self, plan: &mut Vec<Step>, dice: &mut Dice) {
        for _ in 0..self.ops {
            let (kind, key) = (dice.unit(), self.chooser.draw(dice));
            let read = Step { action: Action::Read, key };
            if kind < self.mix.blind_writes {
                let key = self.unread(plan, key, dice);
                plan.push(Step { action: Action::Write, key });
            } else if kind < self.mix.blind_writes + self.mix.reads {
                plan.push(read);
            } else {
                plan.extend([read, Step { action: Action::Write, key }]);
            }
        }
    }

    /// A key that the plan does not read, so that a write of it is blind: `key` or, a few times, another
    /// draw. Where the keys are few, a write may come after a read all the same.
    fn unread(&self, plan: &[Step], mut key: u32, dice: &mut Dice) -> u32 {
        for _ in 0..REDRAWS_MAX {
            if !plan.contains(&Step { action: Action::Read, key }) {
                break;
            }
            key = self.chooser.draw(dice);
        }
        key
    }

    fn plan_append(&mut self, plan: &mut Vec<Step>, length: impl Fn(u32) -> usize, dice: &mut Dice) {
        for _ in 0..self.ops {
            let place = self.chooser.draw(dice) as usize;
            if length(self.lists[place]) >= LIST_LENGTH_MAX {
                self.lists[place] = self.fresh;
                self.fresh += 1;
            }
            let key = self.lists[place];
            let appended = || plan.contains(&Step { action: Action::Append, key });
            let read = dice.below(2) == 0 && (self.reads_own_appends || !appended());
            plan.push(Step { action: if read { Action::Read } else { Action::Append }, key });
        }
    }
}

/// All mini-transactions of definition 8 over at most `keys` keys and `ops` operations, up to the keys'
/// names. Those that touch no key twice in the same way come more often: two-key updates most, because
/// skews, forks and fractures need them.
fn weighted_shapes(ops: u32, keys: u32) -> Vec<Vec<Step>> {
    let mut weighted = Vec::new();
    let mut prefixes: Vec<Vec<Step>> = vec![Vec::new()];
    for _ in 0..ops.min(4) {
        let longer: Vec<_> = prefixes.iter().flat_map(|prefix| extensions(prefix, keys)).collect();
        for shape in &longer {
            let plain = (1..shape.len()).all(|at| !shape[..at].contains(&shape[at]));
            let weight = match (plain, shape.iter().any(|step| step.key == 1)) {
                (true, true) => 4,
                (true, false) => 3,
                (false, _) => 1,
            };
            weighted.extend(std::iter::repeat_n(shape.clone(), weight));
        }
        prefixes = longer;
    }
    weighted
}

/// The mini-transactions that continue this one by an operation.
fn extensions(prefix: &[Step], keys: u32) -> Vec<Vec<Step>> {
    let count = |action| prefix.iter().filter(|step| step.action == action).count();
    let used = prefix.iter().map(|step| step.key + 1).max().unwrap_or(0);
    let mut steps = Vec::new();
    if count(Action::Read) < 2 {
        steps.extend((0..keys.min(used + 1)).map(|key| Step { action: Action::Read, key }));
    }
    if count(Action::Write) < 2 {
        let read = |key: &u32| prefix.contains(&Step { action: Action::Read, key: *key });
        steps.extend((0..keys).filter(read).map(|key| Step { action: Action::Write, key }));
    }
    steps.into_iter().map(|step| prefix.iter().copied().chain([step]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_up_to_two_operations_are_the_known_ones() {
        let mut shapes = weighted_shapes(2, 2);
        shapes.dedup();
        let text = |shape: &Vec<Step>| -> String {
            let name = |step: &Step| format!("{}{}", if step.action == Action::Read { 'r' } else { 'w' }, step.key);
            shape.iter().map(name).collect()
        };
        assert_eq!(shapes.iter().map(text).collect::<Vec<_>>(), ["r0", "r0r0", "r0r1", "r0w0"]);
        assert!(weighted_shapes(4, 2).iter().any(|shape| text(shape) == "r0r1w0w1"));
        assert!(weighted_shapes(4, 1).iter().all(|shape| shape.iter().all(|step| step.key == 0)));
    }
}
