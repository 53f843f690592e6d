//! The operations behind an edge.

use isolde_history::History;

use crate::evidence::attribution::{Attribution, INITIAL, NONE};
use crate::evidence::dependencies::{Dependencies, Teller};
use crate::evidence::outside::Outside;
use crate::evidence::realtime;

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
    /// What `from` wrote changed what a predicate of `to` matched.
    PredicateWr,
    /// `to` changed what a predicate of `from` had matched.
    PredicateRw,
}

/// How the order of the two versions that an edge is about is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// From what was read, by any level; also that the initial version comes first.
    Seen,
    /// From a `versions` line.
    Told,
    /// From a told order of evidence from outside, by operations.
    Installed,
    /// The whole edge is evidence from outside.
    Outside,
    /// From levels that let nothing come between a version and the one made from it: what was written blindly then comes
    /// after all that was made from the initial version.
    Inferred,
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
    /// For `ww` and `rw`: how the order of the versions is known.
    pub basis: Basis,
    /// The place of an edge from outside among those, or [`NONE`].
    pub outside: u32,
}

impl Evidence {
    /// A reason that operations show: of `from`, of `to`, and the write that both are about.
    pub fn known(relation: Relation, key: u32, (from_op, to_op, seen_op): (u32, u32, u32), basis: Basis) -> Evidence {
        Evidence { relation, key, from_op, to_op, seen_op, basis, outside: NONE }
    }

    /// A reason that was told from outside.
    pub fn outside(relation: Relation, place: u32) -> Evidence {
        let outside = place;
        Evidence { relation, key: NONE, from_op: NONE, to_op: NONE, seen_op: NONE, basis: Basis::Outside, outside }
    }

    /// A reason that what was read shows.
    pub fn seen(relation: Relation, key: u32, from_op: u32, to_op: u32, seen_op: u32) -> Evidence {
        Evidence::known(relation, key, (from_op, to_op, seen_op), Basis::Seen)
    }
}

/// How it is known that one version came before another.
pub fn basis(
    history: &History,
    attribution: &Attribution,
    dependencies: &Dependencies,
    before: u32,
    after: u32,
) -> Basis {
    if attribution.writer(before) == INITIAL || history.has_lists() {
        return Basis::Seen;
    }
    let writer = attribution.writer(after);
    let mut places = attribution.places(attribution.key_of(after)).filter(|&place| attribution.txn[place] == writer);
    let first_read = places.find_map(|place| Some(attribution.read_of[place]).filter(|&version| version != NONE));
    if dependencies.made[after as usize] && first_read == Some(before) {
        return Basis::Seen;
    }
    match dependencies.told_only.get(&(before, after)) {
        Some(Teller::Line) => Basis::Told,
        Some(Teller::Outside) => Basis::Installed,
        None => Basis::Inferred,
    }
}

/// Every reason why `from` comes before `to`, as far as single operations show it.
pub fn between(
    history: &History,
    outside: &Outside,
    attribution: &Attribution,
    dependencies: &Dependencies,
    from: u32,
    to: u32,
) -> Vec<Evidence> {
    let mut all = Vec::new();
    let bare = |relation| Evidence::seen(relation, NONE, NONE, NONE, NONE);
    let known = |before: u32, after: u32| basis(history, attribution, dependencies, before, after);
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
            all.push(Evidence::seen(Relation::Wr, key, op_of(version), to_op, NONE));
        }
    }
    for (key, place) in places_of(history, attribution, from) {
        if attribution.installs[place] {
            let version = attribution.version_at(place as u32);
            for next in dependencies.followers(version).filter(|&next| attribution.writer(next) == to) {
                let (from_op, to_op) = (attribution.op[place], op_of(next));
                let basis = known(version, next);
                all.push(Evidence::known(Relation::Ww, key, (from_op, to_op, NONE), basis));
            }
        }
        let version = attribution.read_of[place];
        if version == NONE {
            continue;
        }
        for next in dependencies.followers(version).filter(|&next| attribution.writer(next) == to) {
            let (from_op, to_op) = (attribution.op[place], op_of(next));
            let seen_op = if attribution.writer(version) == INITIAL { NONE } else { op_of(version) };
            let basis = known(version, next);
            all.push(Evidence::known(Relation::Rw, key, (from_op, to_op, seen_op), basis));
        }
    }
    let told = outside.edges_between(from, to).iter();
    all.extend(told.map(|&place| Evidence::outside(outside.relation[place as usize], place)));
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
