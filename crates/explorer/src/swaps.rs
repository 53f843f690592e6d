//! Which earlier reads may see the transaction that has just committed instead.
//!
//! A read `r` outside the causal past of the committed `t` is moved behind it: everything after `r` that `t` does not depend
//! on is dropped, and `r` reads from `t`. So that no history is reached twice, every dropped read, and `r`, must read from the
//! *latest* write that its causal past allows (`reads_latest`). That condition does not depend on which read is moved: going
//! through the reads from the last to the first, the first that fails ends the search. The paper's condition that no dropped
//! read was moved before follows from this one and is not tested (`docs/design/explore.md`).

use crate::behaviour::Behaviours;
use crate::bits::Set;
use crate::history::{Forced, History, INITIAL, Program, Read, Txn, Undo};
use crate::level::Level;

/// Memory that is used again and again.
#[derive(Clone, Debug, Default)]
pub struct Scratch<S> {
    /// Orders that a read forces.
    pub forced: Vec<Forced>,
    before: Vec<S>,
    /// A part of a history, to try reads on.
    rest: History<S>,
    undo: Undo<S>,
}

/// Appends the places of the reads that may be moved behind the last transaction, which has just committed.
pub fn movable<S: Set>(
    history: &History<S>,
    program: &Program<S>,
    behaviours: &Behaviours,
    level: Level,
    scratch: &mut Scratch<S>,
    found: &mut Vec<u32>,
) {
    let txn = *history.order.last().expect("a transaction has just ended");
    let t = txn as usize;
    let writes = &behaviours.at(history.node[t]).writes;
    if !history.committed.has(t) || writes.is_empty() {
        return;
    }
    let kept = history.past[t].or(S::single(t));
    for place in (0..history.first_read[t] as usize).rev() {
        let read = &history.reads[place];
        if kept.has(read.txn as usize) {
            continue;
        }
        if !reads_latest(history, program, level, place, kept, scratch) {
            return;
        }
        if writes.iter().any(|&(key, _)| key == read.key) {
            found.push(place as u32);
        }
    }
}

/// Whether a read sees the latest write, in the history order, of those that its causal past allows.
///
/// The causal past is the one without this read; and what is allowed is tested on the history that is left when everything
/// from the read on is dropped except for `kept`, the transaction behind which it would move and its causal past.
fn reads_latest<S: Set>(
    history: &History<S>,
    program: &Program<S>,
    level: Level,
    place: usize,
    kept: S,
    scratch: &mut Scratch<S>,
) -> bool {
    let read = &history.reads[place];
    let candidates = history.writers(read.key).and(read.past);
    let later = if read.source == INITIAL {
        candidates
    } else {
        if !candidates.has(read.source as usize) {
            return false;
        }
        let at = history.place[read.source as usize];
        let mut later = S::default();
        for candidate in candidates.members().filter(|&candidate| history.place[candidate] > at) {
            later.insert(candidate);
        }
        later
    };
    if later.is_empty() {
        return true;
    }
    let earlier = &history.reads[history.first_read[read.txn as usize] as usize..place];
    let mut rest_is_made = false;
    for candidate in later.members() {
        let what = (read.key, candidate as Txn);
        let seen = (read.past, read.sources);
        if !history.forced(program, level, read.txn, earlier, seen, what, &mut scratch.forced) {
            continue;
        }
        // What agrees with the order that the whole history forces agrees with that of a part of it.
        if history.agrees(&scratch.forced, &mut scratch.before) {
            return false;
        }
        let forced = std::mem::take(&mut scratch.forced);
        if !rest_is_made {
            let mut rest = std::mem::take(&mut scratch.rest);
            remaining(&mut rest, history, program, level, place, kept, &mut scratch.forced);
            scratch.rest = rest;
            rest_is_made = true;
        }
        let agrees = scratch.rest.agrees(&forced, &mut scratch.before);
        scratch.forced = forced;
        if agrees {
            return false;
        }
    }
    true
}

/// Makes `rest` the history without everything from a read on, except for the transactions that are kept; the reader comes
/// last, pending.
fn remaining<S: Set>(
    rest: &mut History<S>,
    history: &History<S>,
    program: &Program<S>,
    level: Level,
    place: usize,
    kept: S,
    forced: &mut Vec<Forced>,
) {
    let read = history.reads[place];
    rest.clear(program.len(), history.writers.len());
    let reader_at = history.place[read.txn as usize];
    for &txn in &history.order {
        let t = txn as usize;
        if txn == read.txn || (history.place[t] > reader_at && !kept.has(t)) {
            continue;
        }
        keep(rest, history, txn, reads_of(history, t));
        rest.node[t] = history.node[t];
        rest.past[t] = history.past[t];
        rest.sources[t] = history.sources[t];
        if history.committed.has(t) {
            rest.committed.insert(t);
        }
    }
    for (writers, all) in rest.writers.iter_mut().zip(&history.writers) {
        *writers = all.and(rest.committed);
    }
    let reader = read.txn as usize;
    keep(rest, history, read.txn, history.first_read[reader] as usize..place);
    rest.pending = read.txn;
    rest.node[reader] = read.node;
    rest.past[reader] = read.past;
    rest.sources[reader] = read.sources;
    let possible = rest.reorder(program, level, forced);
    debug_assert!(possible, "a prefix of a history that a level allows is allowed");
}

fn keep<S: Set>(rest: &mut History<S>, history: &History<S>, txn: Txn, reads: std::ops::Range<usize>) {
    let t = txn as usize;
    rest.place[t] = rest.order.len() as u16;
    rest.order.push(txn);
    rest.started.insert(t);
    rest.first_read[t] = rest.reads.len() as u32;
    rest.reads.extend_from_slice(&history.reads[reads]);
}

/// Where the reads of a transaction that has ended are in the list.
fn reads_of<S: Set>(history: &History<S>, t: usize) -> std::ops::Range<usize> {
    let first = history.first_read[t] as usize;
    let next = history.order.get(history.place[t] as usize + 1);
    first..next.map_or(history.reads.len(), |&next| history.first_read[next as usize] as usize)
}

/// Makes `moved` the history in which the read at `place` sees the last transaction instead; `false` if the level does not
/// allow it.
pub fn swap<S: Set>(
    moved: &mut History<S>,
    history: &History<S>,
    program: &Program<S>,
    level: Level,
    place: usize,
    scratch: &mut Scratch<S>,
) -> bool {
    let txn = *history.order.last().expect("a transaction has just ended");
    let kept = history.past[txn as usize].or(S::single(txn as usize));
    let Read { key, .. } = history.reads[place];
    let Scratch { forced, undo, .. } = scratch;
    remaining(moved, history, program, level, place, kept, forced);
    undo.clear();
    moved.read(program, level, (key, txn), forced, undo)
}
