//! The levels, as far as the explorer tells them apart.

/// An isolation level of the literature (Biswas and Enea 2019), or none at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Every history is allowed.
    Trivial,
    /// What was read from earlier in the transaction is not overlooked.
    ReadCommitted,
    /// Nor what came before in the session or was read from anywhere in the transaction.
    ReadAtomic,
    /// Nor anything in the causal past.
    Causal,
    /// Reads see a prefix of the commit order.
    Prefix,
    /// And no transaction that writes the same key commits between that prefix and the transaction.
    Snapshot,
    /// Reads see everything before the transaction.
    Serializable,
}

impl Level {
    /// What the order forced by reads is at this level: for the levels above causal, what causal forces.
    pub fn step_by_step(self) -> Level {
        self.min(Level::Causal)
    }

    /// Whether histories of this level can be extended one event at a time, so that it can steer an exploration
    /// (prefix is prefix-closed, but not causally extensible).
    pub fn steers(self) -> bool {
        self <= Level::Causal
    }
}
