//! What transactions do, as far as it is known: a tree for each, that branches on the values read.

/// A key, by number.
pub type Key = u32;
/// A value, by number; equal numbers are the same value.
pub type Value = u32;
/// A place in the tree of a transaction.
pub type Node = u32;

/// How a stretch of events without a choice ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The transaction reads a key that it has not written.
    Read(Key),
    /// It commits.
    Commit,
    /// It aborts by its own decision.
    Abort,
}

/// A stretch of events without a choice: writes and reads of own writes, then its end.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// How many events come before the end.
    pub steps: u32,
    /// What the transaction has written so far, from its beginning; each key once, with its last value.
    pub writes: Vec<(Key, Value)>,
    /// How it ends.
    pub end: End,
    /// The first assertion that fails in this stretch.
    pub failed_check: Option<u32>,
    /// What comes after each value read.
    children: Vec<(Value, Node)>,
}

/// What one run of a transaction's body showed of it, from one read to the next.
#[derive(Clone, Debug)]
pub struct Observed {
    /// How many writes and reads of own writes there were.
    pub steps: u32,
    /// The writes, in order.
    pub writes: Vec<(Key, Value)>,
    /// How it went on.
    pub end: End,
    /// The first assertion that failed.
    pub failed_check: Option<u32>,
}

/// The behaviours of all transactions.
#[derive(Clone, Debug, Default)]
pub struct Behaviours {
    stretches: Vec<Stretch>,
    initial: Vec<Value>,
    checks_fail: bool,
}

impl Behaviours {
    /// The value that a key has before the first transaction; a key that was not told is not known.
    pub fn initial(&self, key: Key) -> Value {
        self.initial[key as usize]
    }

    /// Tells the value that the next key has before the first transaction.
    pub fn add_key(&mut self, initial: Value) -> Key {
        self.initial.push(initial);
        (self.initial.len() - 1) as Key
    }

    /// How many keys are known.
    pub fn keys(&self) -> usize {
        self.initial.len()
    }

    /// Whether an assertion fails in some stretch.
    pub fn checks_fail(&self) -> bool {
        self.checks_fail
    }

    /// The stretch at a place.
    #[inline]
    pub fn at(&self, node: Node) -> &Stretch {
        &self.stretches[node as usize]
    }

    /// What comes after a value is read at the end of a stretch, if it is known.
    #[inline]
    pub fn after(&self, node: Node, value: Value) -> Option<Node> {
        let children = &self.stretches[node as usize].children;
        children.iter().find(|&&(read, _)| read == value).map(|&(_, child)| child)
    }

    /// Adds how a transaction begins.
    pub fn add_root(&mut self, observed: Observed) -> Node {
        self.add(Vec::new(), observed)
    }

    /// Adds what a transaction does after it reads a value at the end of a stretch.
    pub fn add_after(&mut self, parent: Node, value: Value, observed: Observed) -> Node {
        if let Some(known) = self.after(parent, value) {
            return known;
        }
        let child = self.add(self.at(parent).writes.clone(), observed);
        self.stretches[parent as usize].children.push((value, child));
        child
    }

    fn add(&mut self, mut writes: Vec<(Key, Value)>, observed: Observed) -> Node {
        for (key, value) in observed.writes {
            match writes.iter_mut().find(|(written, _)| *written == key) {
                Some(entry) => entry.1 = value,
                None => writes.push((key, value)),
            }
        }
        if observed.end == End::Abort {
            writes.clear();
        }
        let Observed { steps, end, failed_check, .. } = observed;
        self.checks_fail |= failed_check.is_some();
        self.stretches.push(Stretch { steps, writes, end, failed_check, children: Vec::new() });
        (self.stretches.len() - 1) as Node
    }
}
