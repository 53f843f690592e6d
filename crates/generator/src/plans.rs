//! What the clients of a real database mean to do: the same workloads, without the simulated store.

use crate::dice::Dice;
use crate::distribution::KeyChooser;
use crate::parameters::{Parameters, Workload};
use crate::workload::{Action, Planner, Step};

/// What a client means to do to a key. What it writes is its own business.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Intent {
    /// Look at it.
    Read = 0,
    /// Replace it by a fresh value; insert it if it was seen to be absent.
    Write = 1,
    /// Add a fresh element to the list.
    Append = 2,
    /// Remove it.
    Delete = 3,
    /// Replace it by a fresh value if it holds what the client believes.
    CompareAndSet = 4,
}

const SINGLE_READS: f64 = 0.3;
const SINGLE_WRITES: f64 = 0.1;

/// The transactions of one client, one after the other, without end.
pub struct Plans {
    planner: Planner,
    chooser: KeyChooser,
    compares: bool,
    deletes: f64,
    dice: Dice,
    steps: Vec<Step>,
}

impl Plans {
    /// The plans of one of the sessions; `deletes` is the share of writes that remove the key instead.
    /// The same parameters and session give the same plans. A sentence says why there are none.
    pub fn new(parameters: &Parameters, session: u32, deletes: f64) -> Result<Plans, String> {
        parameters.check()?;
        if !(0.0..=1.0).contains(&deletes) {
            return Err(format!("the share of deletes is {deletes}; it must lie between 0 and 1"));
        }
        if deletes > 0.0 && parameters.workload == Workload::Append {
            return Err("lists only grow; use a workload of registers for deletes, like 'mini' or 'general'".into());
        }
        // Neighbouring seeds and sessions must not give the same or shifted streams; the golden ratio spreads them.
        let seed = parameters.seed ^ (u64::from(session) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Ok(Plans {
            planner: Planner::new(parameters),
            chooser: KeyChooser::new(parameters.distribution, parameters.skew, parameters.keys),
            compares: parameters.workload == Workload::Cas,
            deletes,
            dice: Dice::new(seed),
            steps: Vec::new(),
        })
    }

    /// The next transaction's operations.
    pub fn next_plan(&mut self) -> Vec<(Intent, u32)> {
        if self.compares {
            return vec![self.single()];
        }
        // How long real lists are is known to the clients alone; they leave long ones for fresh ones.
        self.planner.plan(&mut self.steps, |_| 0, &mut self.dice);
        let (dice, deletes) = (&mut self.dice, self.deletes);
        let intent = |step: &Step| match step.action {
            Action::Read => (Intent::Read, step.key),
            Action::Append => (Intent::Append, step.key),
            Action::Write if deletes > 0.0 && dice.chance(deletes) => (Intent::Delete, step.key),
            Action::Write => (Intent::Write, step.key),
        };
        self.steps.iter().map(intent).collect()
    }

    fn single(&mut self) -> (Intent, u32) {
        let (kind, key) = (self.dice.unit(), self.chooser.draw(&mut self.dice));
        let intent = if kind < SINGLE_READS {
            Intent::Read
        } else if kind < SINGLE_READS + SINGLE_WRITES {
            if self.dice.chance(self.deletes) { Intent::Delete } else { Intent::Write }
        } else {
            Intent::CompareAndSet
        };
        (intent, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Distribution, Level, Skew};

    fn parameters(workload: Workload) -> Parameters {
        Parameters {
            sessions: 4,
            transactions: 0,
            keys: 10,
            ops_per_transaction: 4,
            distribution: Distribution::Zipfian,
            skew: Skew::default(),
            concurrent: 1.0,
            workload,
            level: Level::StrictSerializable,
            abort_rate: 0.0,
            unknown_rate: 0.0,
            blind_writes: None,
            versions: 0.0,
            inject: Vec::new(),
            seed: 7,
        }
    }

    fn plans(workload: Workload, session: u32, deletes: f64) -> Vec<Vec<(Intent, u32)>> {
        let mut plans = Plans::new(&parameters(workload), session, deletes).unwrap();
        (0..200).map(|_| plans.next_plan()).collect()
    }

    #[test]
    fn the_same_seed_and_session_give_the_same_plans_and_others_give_others() {
        for &(name, workload) in Workload::ALL {
            assert_eq!(plans(workload, 1, 0.0), plans(workload, 1, 0.0), "{name}");
            assert_ne!(plans(workload, 1, 0.0), plans(workload, 2, 0.0), "{name}");
        }
    }

    #[test]
    fn every_write_of_a_mini_transaction_follows_a_read_of_its_key_deletes_included() {
        let all = plans(Workload::Mini, 0, 0.5);
        for plan in &all {
            for (place, &(intent, key)) in plan.iter().enumerate() {
                assert!(intent == Intent::Read || plan[..place].contains(&(Intent::Read, key)), "{plan:?}");
            }
        }
        assert!(all.iter().flatten().any(|&(intent, _)| intent == Intent::Delete));
    }

    #[test]
    fn single_operations_are_single() {
        for workload in [Workload::Cas, Workload::Registers] {
            assert!(plans(workload, 0, 0.0).iter().all(|plan| plan.len() == 1));
        }
    }

    #[test]
    fn lists_are_not_deleted() {
        assert!(Plans::new(&parameters(Workload::Append), 0, 0.1).is_err());
    }
}
