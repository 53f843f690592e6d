//! The operations behind an edge.

use isolde_history::History;

use crate::attribution::{Attribution, INITIAL, NONE};
use crate::dependencies::Dependencies;
use crate::realtime;

/// The kinds of edges that a person is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// Session order.
    So,
    /// Real time.
    Rt,
    /// `to` read what `from` wrote.
    Wr,
    /// `to` overwrote what `from` wrote.
    Ww,
    /// `to` overwrote what `from` read.
    Rw,
}

/// One reason why `from` comes before `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The kind.
    pub relation: Relation,
    /// The key, or [`NONE`].
    pub key: u32,
    /// The operation of `from`, or [`NONE`].
    pub from_op: u32,
    /// The operation of `to`, or [`NONE`].
    pub to_op: u32,
    /// For `rw`: the write that both are about, or [`NONE`] for an initial value.
    pub seen_op: u32,
}

/// Every reason why `from` comes before `to`, as far as single operations show it.
pub fn between(
    history: &History,
    attribution: &Attribution,
    dependencies: &Dependencies,
    from: u32,
    to: u32,
) -> Vec<Evidence> {
    let mut all = Vec::new();
    let bare = |relation| Evidence { relation, key: NONE, from_op: NONE, to_op: NONE, seen_op: NONE };
    if history.txns.session[from as usize] == history.txns.session[to as usize] && from < to {
        all.push(bare(Relation::So));
    }
    if realtime::precedes(history, from, to) {
        all.push(bare(Relation::Rt));
    }
    let op_of = |version: u32| attribution.place_of(version).map_or(NONE, |place| attribution.op[place as usize]);
    for (key, place) in places_of(history, attribution, to) {
        let version = attribution.read_of[place];
        if version != NONE && attribution.writer(version) == from {
            let to_op = attribution.op[place];
            all.push(Evidence { relation: Relation::Wr, key, from_op: op_of(version), to_op, seen_op: NONE });
        }
    }
    for (key, place) in places_of(history, attribution, from) {
        if attribution.installs[place] {
            let version = attribution.version_at(place as u32);
            for next in dependencies.followers(version).filter(|&next| attribution.writer(next) == to) {
                let from_op = attribution.op[place];
                all.push(Evidence { relation: Relation::Ww, key, from_op, to_op: op_of(next), seen_op: NONE });
            }
        }
        let version = attribution.read_of[place];
        if version == NONE {
            continue;
        }
        for next in dependencies.followers(version).filter(|&next| attribution.writer(next) == to) {
            let (from_op, to_op) = (attribution.op[place], op_of(next));
            let seen_op = if attribution.writer(version) == INITIAL { NONE } else { op_of(version) };
            all.push(Evidence { relation: Relation::Rw, key, from_op, to_op, seen_op });
        }
    }
    all
}

fn places_of<'a>(
    history: &'a History,
    attribution: &'a Attribution,
    txn: u32,
) -> impl Iterator<Item = (u32, usize)> + 'a {
    history.ops_of(txn).filter_map(move |row| {
        let key = history.ops.key[row];
        (key != isolde_history::NO_KEY).then(|| (key, attribution.place(key, row as u32) as usize))
    })
}
