//! Clients that compare and set.
//!
//! A client decides on what the key holds when it starts, and is answered by what the key holds at its
//! completion; both instants lie in its interval, and the second is where the operation takes place. So
//! the history is linearizable, and operations fail exactly when somebody came in between, or when the
//! client meant them to.

use isolde_history::{Cas, Status, Value};

use crate::dice::Dice;
use crate::distribution::KeyChooser;
use crate::parameters::Parameters;
use crate::recording::{Interval, Recording};
use crate::schedule::Simulation;

const READS: f64 = 0.3;
/// Compare-and-sets that expect what the key does not hold any more.
const MISTAKEN: f64 = 0.1;

#[derive(Clone, Copy, Default)]
struct Register {
    current: Option<Value>,
    previous: Option<Value>,
}

#[derive(Clone, Copy)]
enum Plan {
    Read { key: u32 },
    CompareAndSet { key: u32, expected: Value },
}

/// Registers and the operations in flight on them.
pub struct CompareAndSets {
    chooser: KeyChooser,
    registers: Vec<Register>,
    plans: Vec<Plan>,
    abort_rate: f64,
    unknown_rate: f64,
}

impl CompareAndSets {
    pub fn new(parameters: &Parameters) -> CompareAndSets {
        CompareAndSets {
            chooser: KeyChooser::new(parameters.distribution, parameters.skew, parameters.keys),
            registers: vec![Register::default(); parameters.keys as usize],
            plans: vec![Plan::Read { key: 0 }; parameters.sessions as usize],
            abort_rate: parameters.abort_rate,
            unknown_rate: parameters.unknown_rate,
        }
    }
}

impl Simulation for CompareAndSets {
    fn begin(&mut self, session: u32, dice: &mut Dice) -> u32 {
        let key = self.chooser.draw(dice);
        let register = self.registers[key as usize];
        self.plans[session as usize] = match register.current {
            None => Plan::CompareAndSet { key, expected: Value::NULL },
            Some(_) if dice.chance(READS) => Plan::Read { key },
            Some(current) => {
                let outdated = register.previous.unwrap_or(Value::NULL);
                Plan::CompareAndSet { key, expected: if dice.chance(MISTAKEN) { outdated } else { current } }
            }
        };
        2
    }

    fn complete(&mut self, session: u32, interval: Interval, recording: &mut Recording, dice: &mut Dice) {
        let aborts = dice.chance(self.abort_rate);
        let mut status = if aborts { Status::Aborted } else { Status::Committed };
        match self.plans[session as usize] {
            Plan::Read { key } => {
                recording.read(key, self.registers[key as usize].current.unwrap_or(Value::NULL));
            }
            Plan::CompareAndSet { key, expected } => {
                let register = &mut self.registers[key as usize];
                let held = register.current.unwrap_or(Value::NULL);
                let applied = held == expected;
                let new = recording.fresh_value();
                let mut effect = applied && !aborts;
                // A client that was told of a failure, or of a value, knows the outcome; only the answer
                // of one that succeeded can be lost without leaving a trace.
                if effect && dice.chance(self.unknown_rate) {
                    status = Status::Unknown;
                    effect = dice.chance(0.5);
                }
                if effect {
                    *register = Register { current: Some(new), previous: register.current };
                }
                let current = if applied { Value::MISSING } else { held };
                recording.cas(key, Cas { expected, new, current, applied });
            }
        }
        recording.end(session, status, interval);
    }

    fn met(&mut self, _sessions: &[u32]) {}
}
