//! The levels' definitions (Biswas & Enea 2019), by brute force over commit orders.

use std::collections::HashMap;

use isolde_history::{History, Kind, Op, Status, Value};

/// A consistency axiom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axiom {
    ReadCommitted,
    ReadAtomic,
    Causal,
    Prefix,
    SnapshotIsolation,
    Serializable,
    StrictSerializable,
}

impl Axiom {
    /// Weakest first.
    pub const ALL: [Axiom; 7] = [
        Axiom::ReadCommitted,
        Axiom::ReadAtomic,
        Axiom::Causal,
        Axiom::Prefix,
        Axiom::SnapshotIsolation,
        Axiom::Serializable,
        Axiom::StrictSerializable,
    ];
}

/// A read that its own transaction did not answer: whose version it is (`None`: the initial one), and
/// everyone whose write it shows.
#[derive(Clone, Debug)]
struct Read {
    key: u32,
    from: Option<usize>,
    shown: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Txn {
    session: u32,
    status: Status,
    start: i64,
    end: i64,
    reads: Vec<Read>,
    writes: Vec<u32>,
}

/// A history with its reads attributed.
pub struct Judged {
    txns: Vec<Txn>,
    /// Pairs of transactions that appended to the same list, in the order that reads show.
    list_order: Vec<(usize, usize)>,
    /// Whether no read is wrong by itself.
    sound: bool,
}

fn int(history: &History, value: Value) -> i64 {
    match history.atoms.kind(value) {
        Kind::Int(i) => i,
        other => panic!("{other:?}"),
    }
}

impl Judged {
    pub fn new(history: &History) -> Judged {
        // Writers of values, and whether the write was the transaction's last of a register.
        let mut writer = HashMap::new();
        for txn in 0..history.len() {
            let mut last = HashMap::new();
            for row in history.ops_of(txn as u32) {
                match history.op(row) {
                    Op::Write(key, value) => {
                        writer.insert(int(history, value), (txn, key, true));
                        if let Some(old) = last.insert(key, int(history, value)) {
                            writer.insert(old, (txn, key, false));
                        }
                    }
                    Op::Append(key, value) => drop(writer.insert(int(history, value), (txn, key, true))),
                    _ => {}
                }
            }
        }
        let mut judged = Judged { txns: Vec::new(), list_order: Vec::new(), sound: true };
        let mut longest: HashMap<u32, Vec<i64>> = HashMap::new();
        for id in 0..history.len() {
            let mut txn = Txn {
                session: history.txns.session[id],
                status: history.txns.status[id],
                start: history.txns.start[id],
                end: history.txns.end[id],
                reads: Vec::new(),
                writes: Vec::new(),
            };
            let mut sound = true;
            let mut own: HashMap<u32, Vec<i64>> = HashMap::new();
            for row in history.ops_of(id as u32) {
                match history.op(row) {
                    Op::Write(key, value) => {
                        own.insert(key, vec![int(history, value)]);
                        txn.writes.push(key);
                    }
                    Op::Append(key, value) => {
                        own.entry(key).or_default().push(int(history, value));
                        txn.writes.push(key);
                    }
                    Op::Read(key, value) => {
                        let mut shown: Vec<i64> = match history.atoms.kind(value) {
                            Kind::Null => Vec::new(),
                            Kind::List(list) => history.lists.get(list).iter().map(|&v| int(history, v)).collect(),
                            Kind::Int(i) => vec![i],
                            other => panic!("{other:?}"),
                        };
                        let register = matches!(history.atoms.kind(value), Kind::Int(_));
                        if let Some(mine) = own.get(&key) {
                            sound &= shown.ends_with(mine);
                            shown.truncate(shown.len().saturating_sub(mine.len()));
                            if register {
                                continue;
                            }
                        }
                        if register {
                            shown.retain(|&value| value != 0);
                        } else if txn.status == Status::Committed {
                            let known = longest.entry(key).or_default();
                            let (short, long) =
                                if known.len() < shown.len() { (&*known, &shown) } else { (&shown, &*known) };
                            sound &= long.starts_with(short);
                            *known = long.clone();
                        }
                        let mut from = Vec::new();
                        for value in shown {
                            match writer.get(&value) {
                                Some(&(by, of, last)) if by != id && of == key && last => from.push(by),
                                _ => sound = false,
                            }
                        }
                        sound &= from.iter().all(|&by| history.txns.status[by] != Status::Aborted);
                        txn.reads.push(Read { key, from: from.last().copied(), shown: from });
                    }
                    other => panic!("{other:?}"),
                }
            }
            judged.sound &= sound || txn.status != Status::Committed;
            judged.txns.push(txn);
        }
        for list in longest.values() {
            let writers: Vec<usize> = list.iter().map(|value| writer[value].0).collect();
            judged.list_order.extend(writers.windows(2).map(|w| (w[0], w[1])).filter(|(a, b)| a != b));
        }
        judged
    }

    /// Whether some outcome of the unknown ones and some commit order satisfy the axiom.
    pub fn satisfies(&self, axiom: Axiom) -> bool {
        let mut committed: Vec<usize> = Vec::new();
        committed.extend((0..self.txns.len()).filter(|&t| self.txns[t].status == Status::Committed));
        // Whoever a committed one read from counts as committed.
        let mut at = 0;
        while at < committed.len() {
            for &by in self.txns[committed[at]].reads.iter().flat_map(|read| &read.shown) {
                if !committed.contains(&by) {
                    committed.push(by);
                }
            }
            at += 1;
        }
        if !self.sound {
            return false;
        }
        let open: Vec<usize> = (0..self.txns.len())
            .filter(|t| self.txns[*t].status == Status::Unknown && !committed.contains(t))
            .collect();
        (0..1u32 << open.len()).any(|choice| {
            let mut alive = committed.clone();
            alive.extend(open.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1).map(|(_, &t)| t));
            let closed =
                alive.iter().all(|&t| self.txns[t].reads.iter().flat_map(|r| &r.shown).all(|b| alive.contains(b)));
            alive.sort_unstable();
            closed && self.some_order(&alive, axiom)
        })
    }

    fn some_order(&self, alive: &[usize], axiom: Axiom) -> bool {
        let n = self.txns.len();
        let mut direct = vec![vec![false; n]; n];
        for &b in alive {
            for &a in alive {
                let (ta, tb) = (&self.txns[a], &self.txns[b]);
                let session = ta.session == tb.session && a < b;
                let real_time = axiom == Axiom::StrictSerializable && ta.end < tb.start;
                let read = tb.reads.iter().any(|read| read.shown.contains(&a));
                direct[a][b] = a != b && (session || real_time || read);
            }
        }
        let mut closure = direct.clone();
        for k in 0..n {
            for a in 0..n {
                for b in 0..n {
                    closure[a][b] |= closure[a][k] && closure[k][b];
                }
            }
        }
        let mut before = closure.clone();
        for &(a, b) in &self.list_order {
            before[a][b] = true;
        }
        let mut place = vec![usize::MAX; n];
        self.extend(alive, &before, &mut place, 0, &|place| self.holds(alive, axiom, &direct, &closure, place))
    }

    /// Tries all orders that keep `before`.
    fn extend(
        &self,
        alive: &[usize],
        before: &[Vec<bool>],
        place: &mut Vec<usize>,
        next: usize,
        holds: &dyn Fn(&[usize]) -> bool,
    ) -> bool {
        if next == alive.len() {
            return holds(place);
        }
        for &t in alive {
            let free =
                place[t] == usize::MAX && alive.iter().all(|&other| place[other] != usize::MAX || !before[other][t]);
            if free {
                place[t] = next;
                if self.extend(alive, before, place, next + 1, holds) {
                    return true;
                }
                place[t] = usize::MAX;
            }
        }
        false
    }

    fn holds(
        &self,
        alive: &[usize],
        axiom: Axiom,
        direct: &[Vec<bool>],
        closure: &[Vec<bool>],
        place: &[usize],
    ) -> bool {
        let prefix = |t2: usize, t3: usize| alive.iter().any(|&t| direct[t][t3] && place[t2] <= place[t]);
        let share = |a: usize, b: usize| self.txns[a].writes.iter().any(|key| self.txns[b].writes.contains(key));
        alive.iter().all(|&t3| {
            let reads = &self.txns[t3].reads;
            reads.iter().enumerate().all(|(at, read)| {
                let rivals = alive
                    .iter()
                    .filter(|&&t2| t2 != t3 && Some(t2) != read.from && self.txns[t2].writes.contains(&read.key));
                rivals.copied().all(|t2| {
                    let forced = match axiom {
                        Axiom::ReadCommitted => reads[..at].iter().any(|earlier| earlier.shown.contains(&t2)),
                        Axiom::ReadAtomic => direct[t2][t3],
                        Axiom::Causal => closure[t2][t3],
                        Axiom::Prefix => prefix(t2, t3),
                        Axiom::SnapshotIsolation => {
                            prefix(t2, t3)
                                || alive
                                    .iter()
                                    .any(|&t4| place[t4] < place[t3] && share(t3, t4) && place[t2] <= place[t4])
                        }
                        Axiom::Serializable | Axiom::StrictSerializable => place[t2] < place[t3],
                    };
                    !forced || read.from.is_some_and(|t1| place[t2] < place[t1])
                })
            })
        })
    }
}
