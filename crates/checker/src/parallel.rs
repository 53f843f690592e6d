//! Work on several threads, or on this one when there is only one piece of it.

use std::thread;

/// Below this many operations a thread costs more than it saves.
pub const WORTH_A_THREAD: usize = 20_000;

/// Runs every job and gives the answers in order.
pub fn run<T: Send>(jobs: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    if jobs.len() <= 1 {
        return jobs.into_iter().map(|job| job()).collect();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
        // A panic in a job is a panic of the whole.
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
