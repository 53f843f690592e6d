//! Versions that an open read cannot have seen: overwritten for certain before it looked, or written only later.
//!
//! Everything known of the order is a graph of commits and snapshots: reads with one writer, sessions, real time where the
//! level has it. The nodes are covered by paths, and a clock a node says how far along each path what comes
//! before it goes. Of the writers of a key on one path that come before a snapshot only the last can have been seen, and not
//! even that if it comes before such a writer on another path.

use super::net::Net;
use super::net::topological;
use super::polygraph::Polygraph;
use super::select::Selectors;
use crate::evidence::attribution::INITIAL;
use crate::evidence::outcome::Role;

/// More bytes than this are not spent on clocks.
const BYTES_MAX: usize = 256 << 20;

/// A writer of a key: its path, its place there, who it is.
type Writer = (u32, u32, u32);

/// Takes impossible versions off the candidates. A read that would be left with none keeps them all: that it cannot be
/// explained is for the search to show.
pub fn take_off_overwritten(polygraph: &Polygraph<'_>, selectors: &mut Selectors) {
    let analysis = polygraph.analysis;
    let nodes = polygraph.known.len();
    let Some(order) = topological(&polygraph.known, &Net::of(nodes, &[])) else { return };
    let cover = polygraph.cover(&order);
    if nodes * cover.chains * 4 > BYTES_MAX {
        return;
    }
    // By node and path: how many nodes of the path come before it, itself included.
    let mut clocks = vec![0u32; nodes * cover.chains];
    for &node in &order {
        let at = node as usize * cover.chains;
        let own = at + cover.of[node as usize] as usize;
        // Nodes of transactions that are not there stand on no path.
        if cover.place[node as usize] != u32::MAX {
            clocks[own] = clocks[own].max(cover.place[node as usize] + 1);
        }
        for &to in polygraph.known.out(node) {
            let (low, high) = (at.min(to as usize * cover.chains), at.max(to as usize * cover.chains));
            let (left, right) = clocks.split_at_mut(high);
            let (one, other) = (&mut left[low..low + cover.chains], &mut right[..cover.chains]);
            let (from, into) = if low == at { (one, other) } else { (other, one) };
            into.iter_mut().zip(from.iter()).for_each(|(mine, &theirs)| *mine = (*mine).max(theirs));
        }
    }
    let place = |txn: u32| {
        let node = polygraph.commit(txn) as usize;
        (cover.of[node], cover.place[node], txn)
    };
    // Whether a writer comes before a node.
    let before = |(path, place, _): Writer, node: u32| clocks[node as usize * cover.chains + path as usize] > place;
    let mut writers: Vec<Option<Vec<Writer>>> = vec![None; analysis.attribution.keys() as usize];
    for selector in &mut selectors.all {
        let snapshot = polygraph.snapshot(selector.reader);
        let writers = writers[selector.key as usize].get_or_insert_with(|| {
            let places = analysis.attribution.places(selector.key).filter(|&p| analysis.attribution.installs[p]);
            let certain = places.map(|p| analysis.attribution.txn[p]);
            let certain = certain.filter(|&txn| analysis.roles[txn as usize] == Role::Effective);
            let mut writers: Vec<Writer> = certain.map(place).collect();
            writers.sort_unstable();
            writers
        });
        // The last writer on each path that comes before the snapshot.
        let mut last: Vec<Writer> = Vec::new();
        let mut at = 0;
        while at < writers.len() {
            let path = writers[at].0;
            let end = at + writers[at..].partition_point(|writer| writer.0 == path);
            let seen = writers[at..end].partition_point(|&writer| before(writer, snapshot));
            // Where snapshots and commits are one, the reader comes before itself.
            last.extend(writers[at..at + seen].iter().rev().find(|writer| writer.2 != selector.reader));
            at = end;
        }
        let reader = (cover.of[snapshot as usize], cover.place[snapshot as usize], selector.reader);
        let overwritten = |version: u32| {
            let writer = analysis.attribution.writer(version);
            if writer == INITIAL {
                return !last.is_empty();
            }
            if analysis.roles[writer as usize] != Role::Effective {
                return false;
            }
            let written = place(writer);
            (writer != selector.reader && before(reader, polygraph.commit(writer)))
                || last.iter().any(|&other| other.2 != writer && before(written, polygraph.commit(other.2)))
        };
        let left: Vec<u32> = selector.candidates.iter().copied().filter(|&version| !overwritten(version)).collect();
        if !left.is_empty() {
            selector.candidates = left;
        }
    }
}
