//! Who does the next step.
//!
//! At each tick of a logical clock one session, drawn at random, does one step: it starts a transaction,
//! goes on with it, or is answered. So transactions overlap, a session has one at a time, and its next
//! start comes after its last end.
//!
//! Injected anomalies are bursts. When one is due, sessions are chosen for it and held back as they
//! complete what they have in flight; when all are free, the group runs on its own keys, and they go on.
//! The group's sessions are told that they have met, so that the store sees to it that no path leads
//! from what such a session does later to what another one did before.

use isolde_history::{History, Value};

use crate::anomaly::{self, Member};
use crate::cas::CompareAndSets;
use crate::dice::Dice;
use crate::parameters::{Parameters, Workload};
use crate::recording::{Interval, Recording};
use crate::transactions::Transactions;

/// What the sessions do, apart from when.
pub trait Simulation {
    /// The session starts a transaction; gives the number of further steps, of which the last completes
    /// it. At least 1.
    fn begin(&mut self, session: u32, dice: &mut Dice) -> u32;

    /// The transaction takes place, if it does, and is recorded.
    fn complete(&mut self, session: u32, interval: Interval, recording: &mut Recording, dice: &mut Dice);

    /// Sessions with nothing in flight exchanged information outside the simulation.
    fn met(&mut self, sessions: &[u32]);

    /// The versions that each key got so far, oldest first and without the initial one; no key for which
    /// the store knows no order.
    fn versions(&self) -> Vec<(u32, Vec<Value>)> {
        Vec::new()
    }
}

/// What is in flight in a session.
#[derive(Clone, Copy, Default)]
struct Client {
    start: i64,
    /// 0 when nothing is.
    steps_left: u32,
    /// Whether it is drawn no more: held back, or out of work.
    resting: bool,
}

/// An anomaly to be put in, once so many transactions of the workload have started.
struct Injection {
    after: u64,
    group: &'static [Member],
}

/// One run.
pub struct Schedule {
    dice: Dice,
    recording: Recording,
    simulation: Box<dyn Simulation>,
    clients: Vec<Client>,
    /// The sessions that are not resting.
    active: Vec<u32>,
    /// The sessions with a transaction in flight, as long as fewer may have one than there are.
    in_flight: Vec<u32>,
    /// How many these may be.
    at_once: usize,
    clock: i64,
    begun: u64,
    /// Transactions of the workload, without injected ones.
    total: u64,
    /// The last one is due first.
    injections: Vec<Injection>,
    /// The sessions that wait for the injection due.
    held: Vec<u32>,
    fresh_key: u32,
    /// Sessions of the workload; injections that need more take fresh ones from here on.
    sessions: u32,
    /// The share of versions to tell the order of.
    versions: f64,
}

impl Schedule {
    /// Prepares a run of parameters that were checked.
    pub fn new(parameters: &Parameters) -> Schedule {
        let mut dice = Dice::new(parameters.seed);
        let mut recording = Recording::default();
        let simulation: Box<dyn Simulation> = match parameters.workload {
            Workload::Cas => Box::new(CompareAndSets::new(parameters)),
            _ => Box::new(Transactions::new(parameters)),
        };
        if parameters.workload.registers() {
            (0..parameters.keys).for_each(|key| recording.start_with_zero(key));
        }
        let groups: Vec<_> = parameters.inject.iter().map(|&anomaly| anomaly::group(anomaly)).collect();
        let total = parameters.transactions - groups.iter().map(|group| group.len() as u64).sum::<u64>();
        let mut injections: Vec<Injection> =
            groups.into_iter().map(|group| Injection { after: dice.below(total + 1), group }).collect();
        injections.sort_by_key(|injection| std::cmp::Reverse(injection.after));
        Schedule {
            dice,
            recording,
            simulation,
            clients: vec![Client::default(); parameters.sessions as usize],
            active: (0..parameters.sessions).collect(),
            in_flight: Vec::new(),
            at_once: parameters.at_once(),
            clock: 0,
            begun: 0,
            total,
            injections,
            held: Vec::new(),
            fresh_key: parameters.keys,
            sessions: parameters.sessions,
            versions: parameters.versions,
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> History {
        loop {
            self.inject_if_due();
            if self.active.is_empty() {
                self.tell_versions();
                return self.recording.finish();
            }
            let (session, place) = self.next();
            self.step(session, place);
        }
    }

    /// Tells the order of this share of all versions, of which each is as likely to be among them. It is
    /// done last, so that the share changes nothing else. The keys of injected anomalies have no store, and
    /// no order that is true.
    fn tell_versions(&mut self) {
        let all = if self.versions > 0.0 { self.simulation.versions() } else { Vec::new() };
        let mut left = all.iter().map(|(_, values)| values.len() as u64).sum::<u64>();
        let mut wanted = (left as f64 * self.versions).round() as u64;
        for (key, mut values) in all {
            values.retain(|_| {
                let kept = self.dice.below(left) < wanted;
                left -= 1;
                wanted -= u64::from(kept);
                kept
            });
            if !values.is_empty() {
                self.recording.versions(key, values);
            }
        }
    }

    /// Who does the next step: any active session, or one of those in flight if no more may be; and its place there.
    fn next(&mut self) -> (u32, usize) {
        let full = self.in_flight.len() >= self.at_once;
        let choice = if full { &self.in_flight } else { &self.active };
        let place = self.dice.below(choice.len() as u64) as usize;
        (choice[place], place)
    }

    /// One step of a session; it is at this place of the active ones if it has nothing in flight.
    fn step(&mut self, session: u32, place: usize) {
        let client = &mut self.clients[session as usize];
        if client.steps_left == 0 {
            if self.begun == self.total || self.held.contains(&session) {
                client.resting = true;
                self.active.swap_remove(place);
                return;
            }
            self.clock += 1;
            self.begun += 1;
            client.start = self.clock;
            client.steps_left = self.simulation.begin(session, &mut self.dice);
            if self.at_once < self.sessions as usize {
                self.in_flight.push(session);
            }
            return;
        }
        self.clock += 1;
        client.steps_left -= 1;
        if client.steps_left == 0 {
            let interval = Interval { start: client.start, end: self.clock };
            self.in_flight.retain(|&flying| flying != session);
            self.simulation.complete(session, interval, &mut self.recording, &mut self.dice);
        }
    }

    /// Chooses sessions for the next injection when its time has come; runs it when they rest.
    fn inject_if_due(&mut self) {
        while let Some(&Injection { after, group }) = self.injections.last() {
            if after > self.begun {
                return;
            }
            if self.held.is_empty() {
                self.hold(anomaly::sessions(group));
            }
            let rests = |&session: &u32| self.clients.get(session as usize).is_none_or(|client| client.resting);
            if !self.held.iter().all(rests) {
                return;
            }
            self.injections.pop();
            let held = std::mem::take(&mut self.held);
            self.fresh_key += anomaly::record(group, &held, self.fresh_key, &mut self.clock, &mut self.recording);
            self.simulation.met(&held);
            for &session in &held {
                if let Some(client) = self.clients.get_mut(session as usize) {
                    client.resting = false;
                    self.active.push(session);
                }
            }
        }
    }

    /// Holds so many sessions back: different ones of the workload as far as there are, else fresh ones.
    fn hold(&mut self, wanted: usize) {
        while self.held.len() < wanted {
            let all = self.held.len() >= self.sessions as usize;
            let session = if all { self.held.len() as u32 } else { self.dice.below(u64::from(self.sessions)) as u32 };
            if !self.held.contains(&session) {
                self.held.push(session);
            }
        }
    }
}
