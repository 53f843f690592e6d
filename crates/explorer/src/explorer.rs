//! The door: a program, a question, and workers that go on until they have to be told something.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::behaviour::{Behaviours, End, Node, Observed, Value};
use crate::bits::Set;
use crate::commit_order::{Orders, Step};
use crate::estimate::Estimator;
use crate::history::{History, INITIAL, Program, Txn, Undo};
use crate::outcomes::{Choices, Shown, State, States, keep_best, keep_first};
use crate::worker::{Counts, Known, Method, Question, Task, Watched, Worker};

/// How many executions wait for a behaviour before the caller is asked for it.
const PARKED_MAX: usize = 1024;
/// How many states wait to be judged before the caller is asked.
const UNJUDGED_MAX: usize = 4096;
/// How many histories are kept before they are handed over.
const COLLECTED_MAX: usize = 16_384;
/// How many choices a worker takes before it looks around.
const PATIENCE: usize = 128;

/// An execution from which the walk is to go on, without what can be computed again: a checkpoint is a list of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Whom each transaction read from, in the history order.
    pub choices: Choices,
    /// Whether the last transaction has not ended.
    pub pending: bool,
}

/// The exploration of one program.
pub struct Explorer<S> {
    program: Program<S>,
    behaviours: Behaviours,
    question: Question,
    workers: Vec<Worker<S>>,
    queue: Vec<Task<S>>,
    states: States,
    estimator: Option<Estimator<S>>,
    started: bool,
}

impl<S: Set> Explorer<S> {
    /// Transactions in the oracle order, by their sessions; their roots must be added before it runs.
    pub fn new(session: Vec<u16>, question: Question, threads: usize) -> Self {
        let roots = vec![Node::MAX; session.len()];
        // Walking plainly, a worker remembers which histories it has met, and there is only one memory.
        let threads = if question.method == Method::Plain { 1 } else { threads.max(1) };
        Explorer {
            program: Program::new(session, roots),
            behaviours: Behaviours::default(),
            question,
            workers: (0..threads).map(|_| Worker::default()).collect(),
            queue: Vec::new(),
            states: States::default(),
            estimator: None,
            started: false,
        }
    }

    /// What is known of the transactions.
    pub fn behaviours(&mut self) -> &mut Behaviours {
        &mut self.behaviours
    }

    /// Tells how a transaction begins.
    pub fn add_root(&mut self, txn: Txn, observed: Observed) -> Node {
        let node = self.behaviours.add_root(observed);
        self.program.roots[txn as usize] = node;
        node
    }

    /// Goes on until nothing is left, until something must be told, or for about so many calls; `true` if nothing is left.
    pub fn run(&mut self, calls_max: u64, keep_on: &(dyn Fn() -> bool + Sync)) -> bool {
        let known = Known { program: &self.program, behaviours: &self.behaviours, question: &self.question };
        if !self.started {
            self.started = true;
            self.workers[0].count_root();
            let history = History::new(self.program.len(), self.behaviours.keys());
            self.queue.push(Task { history, unknown: None });
        }
        // Executions that waited are retried first, so that few of them wait at any time.
        for worker in &mut self.workers {
            self.queue.append(&mut worker.parked);
        }
        let share = calls_max / self.workers.len() as u64 + 1;
        let around = Around {
            queue: Mutex::new(std::mem::take(&mut self.queue)),
            states: Mutex::new(std::mem::take(&mut self.states)),
            stop: AtomicBool::new(false),
            idle: AtomicUsize::new(0),
            workers: self.workers.len(),
        };
        let (first, others) = self.workers.split_first_mut().expect("there is a worker");
        std::thread::scope(|scope| {
            for worker in others {
                scope.spawn(|| work(worker, &known, &around, share, &|| true));
            }
            work(first, &known, &around, share, keep_on);
        });
        self.queue = around.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.states = around.states.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.queue.is_empty() && self.workers.iter().all(|worker| worker.is_idle() && worker.parked.is_empty())
    }

    /// The behaviours that have to be told: which value was read at the end of which stretch.
    pub fn requests(&self) -> Vec<(Node, Value)> {
        let parked = self.workers.iter().flat_map(|worker| &worker.parked).chain(&self.queue);
        let mut asked: Vec<(Node, Value)> = parked.filter_map(|task| task.unknown).collect();
        asked.extend(self.estimator.iter().flat_map(Estimator::requests));
        asked.retain(|&(node, value)| self.behaviours.after(node, value).is_none());
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Goes on with estimating how large the whole exploration is, for so many executions; the first estimate keeps at most
    /// `kept_max` executions of a level. `true` if one more estimate is finished, `false` also if something must be told first.
    pub fn estimate(&mut self, kept_max: usize, executions_max: usize) -> bool {
        let known = Known { program: &self.program, behaviours: &self.behaviours, question: &self.question };
        let fresh = || Estimator::new(known.program, known.behaviours, kept_max);
        self.estimator.get_or_insert_with(fresh).go(&known, executions_max)
    }

    /// About how many calls there are in all, if that was estimated.
    pub fn estimated(&self) -> Option<f64> {
        self.estimator.as_ref()?.calls()
    }

    /// Everything counted so far.
    pub fn counts(&self) -> Counts {
        self.workers.iter().map(|worker| worker.counts).fold(Counts::default(), |sum, counts| Counts {
            explored: sum.explored + counts.explored,
            end_states: sum.end_states + counts.end_states,
            histories: sum.histories + counts.histories,
            fruitless: sum.fruitless + counts.fruitless,
            beyond: sum.beyond + counts.beyond,
        })
    }

    /// States that wait to be judged, and what they are judged by.
    pub fn states(&mut self) -> &mut States {
        &mut self.states
    }

    /// The states that wait to be judged.
    pub fn unjudged(&mut self) -> Vec<State> {
        for worker in &mut self.workers {
            worker.share(&mut self.states);
        }
        self.states.unjudged()
    }

    /// The shortest history for each check that failed, inside transactions or on a state.
    pub fn failed(&self) -> BTreeMap<u32, Shown> {
        let mut best = self.states.best.clone();
        for worker in &self.workers {
            for (&check, shown) in &worker.failed {
                keep_best(&mut best, check, shown.clone());
            }
        }
        best
    }

    /// Behaviours that break the levels compared against, the shortest first.
    pub fn beyond(&self) -> Vec<Shown> {
        let mut shown: Vec<Shown> = self.workers.iter().flat_map(|worker| worker.beyond.iter().cloned()).collect();
        let most = self.question.shown_max.min(shown.len());
        shown.push(Shown { events: u32::MAX, choices: Vec::new(), state: None });
        keep_first(&mut shown, most);
        shown
    }

    /// Histories that were not handed over yet.
    pub fn collected(&mut self) -> Vec<Choices> {
        self.workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.collected)).collect()
    }

    /// Everything that is left to walk through; the exploration stands still until it is given back.
    pub fn left(&mut self) -> Vec<Left> {
        let known = Known { program: &self.program, behaviours: &self.behaviours, question: &self.question };
        let mut tasks = std::mem::take(&mut self.queue);
        for worker in &mut self.workers {
            tasks.append(&mut worker.parked);
            tasks.extend(worker.unfinished(&known));
        }
        tasks.into_iter().map(left_of).collect()
    }

    /// A commit order of a complete history at the levels of the question: one that leaves this state, if one is given, at its
    /// end or, if states after each commit are looked at, on the way; then how many steps lead to it.
    pub fn commit_order(
        &self,
        choices: &Choices,
        state: Option<&State>,
    ) -> Result<Option<(Vec<Step>, usize)>, Restoring> {
        let left = Left { choices: choices.clone(), pending: false };
        let (history, _) = self.rebuilt(&left)?;
        let Question { levels, steering, watched, .. } = &self.question;
        let Some(orders) = Orders::new(&history, &self.program, &self.behaviours, levels, *steering) else {
            return Ok(None);
        };
        let whole = |steps: Vec<Step>| {
            let count = steps.len();
            (steps, count)
        };
        Ok(match state {
            None => orders.steps().map(whole),
            Some(state) if *watched == Watched::EachCommit => orders.steps_through(state),
            Some(state) => orders.steps_to(state).map(whole),
        })
    }

    /// Goes on from an execution; what must be told first is returned instead.
    pub fn restore(&mut self, left: &Left) -> Result<(), Restoring> {
        self.started = true;
        let (history, unknown) = self.rebuilt(left)?;
        self.queue.push(Task { history, unknown });
        Ok(())
    }

    /// The execution, and what its pending transaction has just read if what it does then is not known.
    fn rebuilt(&self, left: &Left) -> Result<Rebuilt<S>, Restoring> {
        let Left { choices, pending } = left;
        let mut history: History<S> = History::new(self.program.len(), self.behaviours.keys());
        let mut unknown = None;
        for (place, (txn, sources)) in choices.iter().enumerate() {
            let fits = (*txn as usize) < self.program.len()
                && !history.started.has(*txn as usize)
                && self.program.earlier[*txn as usize].within(history.started);
            if !fits {
                return Err(Restoring::Impossible);
            }
            history.begin(&self.program, *txn);
            for (nth, &source) in sources.iter().enumerate() {
                let node = history.node[*txn as usize];
                let End::Read(key) = self.behaviours.at(node).end else { return Err(Restoring::Impossible) };
                if source != INITIAL && !history.writers(key).has(source as usize) {
                    return Err(Restoring::Impossible);
                }
                let steering = self.question.steering;
                if !history.read(&self.program, steering, (key, source), &mut Vec::new(), &mut Undo::default()) {
                    return Err(Restoring::Impossible);
                }
                let value = history.written(&self.behaviours, source, key);
                if *pending && place + 1 == choices.len() && nth + 1 == sources.len() {
                    unknown = Some((node, value));
                    break;
                }
                let Some(child) = self.behaviours.after(node, value) else { return Err(Restoring::Needs(node, value)) };
                history.node[*txn as usize] = child;
            }
            if place + 1 < choices.len() || !*pending {
                if matches!(self.behaviours.at(history.node[*txn as usize]).end, End::Read(_)) {
                    return Err(Restoring::Impossible);
                }
                history.end(&self.behaviours);
            }
        }
        Ok((history, unknown))
    }

    /// Counts go on from what was counted before.
    pub fn restore_counts(&mut self, counts: Counts) {
        // An exploration that had nothing left does not begin again.
        self.started = true;
        self.workers[0].counts = counts;
    }
}

/// An execution, and what its pending transaction has read at the end of which stretch.
type Rebuilt<S> = (History<S>, Option<(Node, Value)>);

/// Why an execution cannot be gone on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restoring {
    /// What a transaction does after it reads a value at the end of a stretch has to be told first.
    Needs(Node, Value),
    /// It is no execution of this program.
    Impossible,
}

fn left_of<S: Set>(task: Task<S>) -> Left {
    Left { choices: task.history.choices(), pending: task.history.pending != INITIAL }
}

/// What workers share while they work.
struct Around<S> {
    queue: Mutex<Vec<Task<S>>>,
    states: Mutex<States>,
    stop: AtomicBool,
    idle: AtomicUsize,
    workers: usize,
}

fn work<S: Set>(
    worker: &mut Worker<S>,
    known: &Known<'_, S>,
    around: &Around<S>,
    share: u64,
    keep_on: &dyn Fn() -> bool,
) {
    let calls_end = worker.counts.explored + share;
    while !around.stop.load(Ordering::Relaxed) {
        if worker.is_idle() && !fetch(worker, known, around) {
            break;
        }
        for _ in 0..PATIENCE {
            if !worker.next(known) || worker.counts.explored >= calls_end {
                break;
            }
        }
        if around.idle.load(Ordering::Relaxed) > 0 {
            let task = worker.split(known, false);
            lock(&around.queue).extend(task);
        }
        let enough = worker.counts.explored >= calls_end
            || worker.parked.len() >= PARKED_MAX
            || worker.collected.len() >= COLLECTED_MAX
            || !keep_on();
        let crowded = !worker.states.is_empty() && {
            let mut states = lock(&around.states);
            worker.share(&mut states);
            states.waiting() >= UNJUDGED_MAX
        };
        if enough || crowded {
            around.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes a task on; `false` if there is none and nobody is left who could give one away.
fn fetch<S: Set>(worker: &mut Worker<S>, known: &Known<'_, S>, around: &Around<S>) -> bool {
    if let Some(task) = lock(&around.queue).pop() {
        worker.take(known, task);
        return true;
    }
    around.idle.fetch_add(1, Ordering::SeqCst);
    loop {
        {
            let mut queue = lock(&around.queue);
            if let Some(task) = queue.pop() {
                around.idle.fetch_sub(1, Ordering::SeqCst);
                drop(queue);
                worker.take(known, task);
                return true;
            }
            if around.idle.load(Ordering::SeqCst) == around.workers {
                return false;
            }
        }
        if around.stop.load(Ordering::Relaxed) {
            around.idle.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
