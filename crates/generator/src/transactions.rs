//! Clients that run transactions against the store.

use isolde_history::{Status, Value};

use crate::dice::Dice;
use crate::parameters::{Parameters, Workload};
use crate::recording::{Interval, Recording, integer};
use crate::schedule::Simulation;
use crate::store::{Isolation, Store, Transaction, isolation};
use crate::workload::{Action, Planner};

/// The store, the rules it is under, and the transactions in flight.
pub struct Transactions {
    planner: Planner,
    store: Store,
    isolation: Box<dyn Isolation>,
    /// By session.
    flights: Vec<Transaction>,
    /// The writes of the transaction that is being completed.
    writes: Vec<(u32, Value)>,
    abort_rate: f64,
    unknown_rate: f64,
}

impl Transactions {
    pub fn new(parameters: &Parameters) -> Transactions {
        let sessions = parameters.sessions;
        Transactions {
            planner: Planner::new(parameters),
            store: Store::new(parameters.keys, parameters.workload == Workload::Append),
            isolation: isolation(parameters.level, sessions),
            flights: (0..sessions).map(|session| Transaction { session, ..Default::default() }).collect(),
            writes: Vec::new(),
            abort_rate: parameters.abort_rate,
            unknown_rate: parameters.unknown_rate,
        }
    }

    /// Writes the operations down, with their values, and collects the writes.
    fn record(&mut self, session: u32, recording: &mut Recording) {
        let flight = &self.flights[session as usize];
        self.writes.clear();
        for (step, &seen) in flight.steps.iter().zip(&flight.seen) {
            let key = step.key;
            let mut own = self.writes.iter().filter(|(written, _)| *written == key).map(|(_, value)| *value);
            let mut read = self.store.read(key, seen).iter().map(|version| version.value);
            match step.action {
                Action::Read if self.store.lists() => recording.read_list(key, read.chain(own)),
                Action::Read => {
                    let value = own.next_back().or(read.next_back()).unwrap_or(integer(0));
                    recording.read(key, value);
                }
                Action::Write => {
                    let value = recording.fresh_value();
                    recording.write(key, value);
                    self.writes.push((key, value));
                }
                Action::Append => {
                    let element = recording.fresh_value();
                    recording.append(key, element);
                    self.writes.push((key, element));
                }
            }
        }
    }
}

impl Simulation for Transactions {
    fn begin(&mut self, session: u32, dice: &mut Dice) -> u32 {
        let flight = &mut self.flights[session as usize];
        let store = &self.store;
        self.planner.plan(&mut flight.steps, |list| store.len(list), dice);
        flight.snapshot = self.isolation.begin(&self.store, session, dice);
        flight.steps.len() as u32 + 1
    }

    fn complete(&mut self, session: u32, interval: Interval, recording: &mut Recording, dice: &mut Dice) {
        let flight = &mut self.flights[session as usize];
        self.isolation.read(&self.store, flight, dice);
        let (status, effect) = if dice.chance(self.abort_rate) || !self.isolation.admits(&self.store, flight) {
            (Status::Aborted, false)
        } else if dice.chance(self.unknown_rate) {
            (Status::Unknown, dice.chance(0.5))
        } else {
            (Status::Committed, true)
        };
        self.record(session, recording);
        recording.end(session, status, interval);
        if effect && !self.writes.is_empty() {
            let seq = self.store.install(session, &self.writes);
            self.isolation.committed(&self.store, session, seq);
        }
    }

    fn met(&mut self, sessions: &[u32]) {
        self.isolation.met(&self.store, sessions);
    }

    fn versions(&self) -> Vec<(u32, Vec<Value>)> {
        self.store.orders().map(|(key, versions)| (key, versions.iter().map(|v| v.value).collect())).collect()
    }
}
