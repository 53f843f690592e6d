//! What can be asked for, by name.

/// The kind of transactions that the clients send.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Workload {
    /// Mini-transactions: one or two reads, at most two writes, every write after a read of its key.
    Mini,
    /// Cobra's mix: 20 % read-only, 40 % write-only, 40 % read-modify-write.
    General,
    /// Operations of every kind in one transaction: 25 % reads, 25 % blind writes, 50 % read-modify-writes.
    ReadModifyWrite,
    /// Reads and blind writes, half and half unless [`Parameters::blind_writes`] says otherwise.
    ReadWrite,
    /// 10 % reads, 80 % blind writes, 10 % read-modify-writes.
    HeavyWrite,
    /// Appends to lists, and reads of them.
    Append,
    /// One read or one blind write of one key.
    Registers,
    /// Single compare-and-sets and reads, linearizable.
    Cas,
}

/// How often each key is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// By rank, exponent 0.99 unless [`Skew`] says otherwise.
    Zipfian,
    /// 80 % of the accesses go to 20 % of the keys, unless [`Skew`] says otherwise.
    Hotspot,
    /// 95 % of the accesses go to the first 86 % of the keys, falling exponentially.
    Exponential,
}

/// What the simulated store guarantees; the history satisfies it by construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Committed versions, never an older one after a newer transaction was seen.
    ReadCommitted,
    /// Transactions are seen wholly or not at all.
    ReadAtomic,
    /// And with all that they depend on.
    Causal,
    /// One snapshot a transaction, the first committer wins.
    SnapshotIsolation,
    /// One order; read-only transactions may look into the past.
    Serializable,
    /// One order that keeps real time.
    StrictSerializable,
}

/// The isolation anomalies of table I of "Boosting End-to-End Database Isolation Checking via
/// Mini-Transactions" (ICDE 2025), in its order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Anomaly {
    /// A value that nobody wrote is read.
    ThinAirRead,
    /// A value of an aborted transaction is read.
    AbortedRead,
    /// A value is read that the reader itself writes later.
    FutureRead,
    /// A transaction reads its own write, but not its last.
    NotMyLastWrite,
    /// A transaction does not read its own write.
    NotMyOwnWrite,
    /// A value is read that its writer overwrote.
    IntermediateRead,
    /// Two reads of one key differ.
    NonRepeatableRead,
    /// The session's own earlier write is missed.
    SessionGuaranteeViolation,
    /// After a transaction was seen, what it overwrote is read.
    NonMonotonicRead,
    /// One write of a transaction is seen, another is not.
    FracturedRead,
    /// A transaction is seen, one that it saw is not.
    CausalityViolation,
    /// Two readers see two writes in opposite orders.
    LongFork,
    /// Two transactions update the same version.
    LostUpdate,
    /// Two transactions read both keys and update one each.
    WriteSkew,
}

/// How strong a distribution's preference is; `None` is the usual one.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Skew {
    /// Of `zipfian`: the key of rank `n` is used as often as `n` to the power of minus this.
    pub exponent: Option<f64>,
    /// Of `hotspot`: the share of the keys that is preferred.
    pub hot_keys: Option<f64>,
    /// Of `hotspot`: the share of the accesses that goes to them.
    pub hot_accesses: Option<f64>,
}

impl Skew {
    /// Steeper laws leave one key for nearly all accesses, and numbers that do not fit.
    const EXPONENT_MAX: f64 = 10.0;

    fn check(self, distribution: Distribution) -> Result<(), String> {
        if self.exponent.is_some() && distribution != Distribution::Zipfian {
            return Err("an exponent is for the distribution 'zipfian'".into());
        }
        if (self.hot_keys.is_some() || self.hot_accesses.is_some()) && distribution != Distribution::Hotspot {
            return Err("shares of hot keys and of accesses to them are for the distribution 'hotspot'".into());
        }
        if let Some(exponent) = self.exponent.filter(|&e| !(e > 0.0 && e <= Skew::EXPONENT_MAX)) {
            return Err(format!("the exponent is {exponent}; it must be above 0 and at most {}", Skew::EXPONENT_MAX));
        }
        if let Some(share) = self.hot_keys.filter(|&share| !(share > 0.0 && share <= 1.0)) {
            return Err(format!("the share of hot keys is {share}; it must be above 0 and at most 1"));
        }
        if let Some(share) = self.hot_accesses.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("the share of accesses to hot keys is {share}; it must lie between 0 and 1"));
        }
        Ok(())
    }
}

impl Workload {
    /// Names and what they name.
    pub const ALL: &[(&str, Workload)] = &[
        ("mini", Workload::Mini),
        ("general", Workload::General),
        ("rmw", Workload::ReadModifyWrite),
        ("read-write", Workload::ReadWrite),
        ("heavy-write", Workload::HeavyWrite),
        ("registers", Workload::Registers),
        ("append", Workload::Append),
        ("cas", Workload::Cas),
    ];

    /// Whether it reads and writes registers, and nothing else.
    pub(crate) fn registers(self) -> bool {
        match self {
            Workload::Mini
            | Workload::General
            | Workload::ReadModifyWrite
            | Workload::ReadWrite
            | Workload::HeavyWrite
            | Workload::Registers => true,
            Workload::Append | Workload::Cas => false,
        }
    }
}

impl Distribution {
    /// Names and what they name.
    pub const ALL: &[(&str, Distribution)] = &[
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("hotspot", Distribution::Hotspot),
        ("exponential", Distribution::Exponential),
    ];
}

impl Level {
    /// Names and what they name; the long name of each level first, then the short one.
    pub const ALL: &[(&str, Level)] = &[
        ("read-committed", Level::ReadCommitted),
        ("rc", Level::ReadCommitted),
        ("read-atomic", Level::ReadAtomic),
        ("ra", Level::ReadAtomic),
        ("causal", Level::Causal),
        ("cc", Level::Causal),
        ("snapshot-isolation", Level::SnapshotIsolation),
        ("si", Level::SnapshotIsolation),
        ("serializable", Level::Serializable),
        ("ser", Level::Serializable),
        ("strict-serializable", Level::StrictSerializable),
        ("strict-ser", Level::StrictSerializable),
    ];
}

impl Anomaly {
    /// Names and what they name.
    pub const ALL: &[(&str, Anomaly)] = &[
        ("thin-air-read", Anomaly::ThinAirRead),
        ("aborted-read", Anomaly::AbortedRead),
        ("future-read", Anomaly::FutureRead),
        ("not-my-last-write", Anomaly::NotMyLastWrite),
        ("not-my-own-write", Anomaly::NotMyOwnWrite),
        ("intermediate-read", Anomaly::IntermediateRead),
        ("non-repeatable-read", Anomaly::NonRepeatableRead),
        ("session-guarantee-violation", Anomaly::SessionGuaranteeViolation),
        ("non-monotonic-read", Anomaly::NonMonotonicRead),
        ("fractured-read", Anomaly::FracturedRead),
        ("causality-violation", Anomaly::CausalityViolation),
        ("long-fork", Anomaly::LongFork),
        ("lost-update", Anomaly::LostUpdate),
        ("write-skew", Anomaly::WriteSkew),
    ];
}

/// Names of an `ALL` table are found by [`FromStr`](std::str::FromStr); the error lists them.
macro_rules! parse_by_name {
    ($($type:ty, $what:literal;)*) => {$(
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|(known, _)| *known).collect();
                    format!("unknown {} '{name}'; expected one of {}", $what, known.join(", "))
                })
            }
        }
    )*};
}

parse_by_name! {
    Workload, "workload";
    Distribution, "distribution";
    Level, "level";
    Anomaly, "anomaly";
}

/// Everything that determines a history.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Clients, each with one transaction in flight.
    pub sessions: u32,
    /// The share of the sessions that may have a transaction in flight at one time; the others wait. One
    /// session always may.
    pub concurrent: f64,
    /// Transactions in the history, whatever became of them, injected ones included.
    pub transactions: u64,
    /// Keys in use at one time. Injected anomalies and full lists take further ones.
    pub keys: u32,
    /// Operations a transaction: the exact number, except that it bounds mini-transactions, that
    /// `cas` and `registers` ignore it, and that a read-modify-write of `rmw` and `heavy-write` counts as one.
    pub ops_per_transaction: u32,
    /// How often each key is used.
    pub distribution: Distribution,
    /// How strong that preference is.
    pub skew: Skew,
    /// What transactions look like.
    pub workload: Workload,
    /// What the store guarantees.
    pub level: Level,
    /// The probability that a transaction aborts for no reason; conflicts under snapshot isolation come
    /// on top.
    pub abort_rate: f64,
    /// The probability that the outcome of a transaction that commits is lost; half of those took effect.
    pub unknown_rate: f64,
    /// The share of blind writes among the operations of `read-write`, which has half of them otherwise.
    pub blind_writes: Option<f64>,
    /// The share of the versions that the database tells the order of, in [`History::versions`]. Which ones
    /// is left to chance, so of each key some are missing.
    ///
    /// [`History::versions`]: isolde_history::History::versions
    pub versions: f64,
    /// Anomalies to put in, once each time they are listed.
    pub inject: Vec<Anomaly>,
    /// What chance is derived from.
    pub seed: u64,
}

/// Bounds of the columns of a history: its transactions, and its operations.
const TRANSACTIONS_MAX: u64 = (1 << 30) - 2;
const OPERATIONS_MAX: u64 = u32::MAX as u64 - 1;
/// Numbers of keys and sessions must leave room for fresh ones.
const NAMES_MAX: u32 = 1 << 30;

impl Parameters {
    /// Whether such a history exists; if not, why.
    pub(crate) fn check(&self) -> Result<(), String> {
        let positive = [
            ("sessions", u64::from(self.sessions)),
            ("keys", u64::from(self.keys)),
            ("operations a transaction", u64::from(self.ops_per_transaction)),
        ];
        for (what, number) in positive {
            if number == 0 {
                return Err(format!("{what} is 0; it must be at least 1"));
            }
        }
        for (what, number) in [("sessions", self.sessions), ("keys", self.keys)] {
            if number > NAMES_MAX {
                return Err(format!("{what} is {number}; it must be at most {NAMES_MAX}"));
            }
        }
        let rates = [
            ("the abort rate", self.abort_rate),
            ("the unknown rate", self.unknown_rate),
            ("the share of blind writes", self.blind_writes.unwrap_or(0.0)),
            ("the share of versions", self.versions),
        ];
        for (what, rate) in rates {
            if !(0.0..=1.0).contains(&rate) {
                return Err(format!("{what} is {rate}; it must lie between 0 and 1"));
            }
        }
        if !(self.concurrent > 0.0 && self.concurrent <= 1.0) {
            return Err(format!(
                "the share of concurrent sessions is {}; it must be above 0 and at most 1",
                self.concurrent
            ));
        }
        self.skew.check(self.distribution)?;
        if self.transactions > TRANSACTIONS_MAX {
            return Err(format!("{} transactions; a history holds at most {TRANSACTIONS_MAX}", self.transactions));
        }
        let ops = match self.workload {
            Workload::Cas | Workload::Registers => 1,
            Workload::ReadModifyWrite | Workload::HeavyWrite => 2 * u64::from(self.ops_per_transaction),
            Workload::Mini | Workload::General | Workload::ReadWrite | Workload::Append => {
                u64::from(self.ops_per_transaction)
            }
        };
        let operations = self.transactions * ops.max(4 * u64::from(!self.inject.is_empty()));
        if operations > OPERATIONS_MAX {
            return Err(format!("up to {operations} operations; a history holds at most {OPERATIONS_MAX}"));
        }
        self.check_workload()
    }

    /// How many sessions may have a transaction in flight at one time.
    pub(crate) fn at_once(&self) -> usize {
        ((f64::from(self.sessions) * self.concurrent).round() as usize).max(1)
    }

    fn check_workload(&self) -> Result<(), String> {
        let refused = match self.workload {
            Workload::Mini if self.ops_per_transaction > 4 => {
                return Err(format!(
                    "{} operations a transaction; a mini-transaction has at most 4 (the workload 'general' has no bound)",
                    self.ops_per_transaction
                ));
            }
            Workload::Append | Workload::Cas if !self.inject.is_empty() => Some(
                "anomalies are injected as reads and writes of registers; use a workload of these, like 'mini' or 'general'",
            ),
            Workload::Append if self.versions > 0.0 => Some(
                "a list that is read tells the order of its versions itself; use a workload of registers, like 'general'",
            ),
            Workload::Cas if self.versions > 0.0 => {
                Some("each compare-and-set tells what it replaced; use a workload of reads and writes, like 'general'")
            }
            Workload::Cas if !matches!(self.level, Level::Serializable | Level::StrictSerializable) => Some(
                "the workload 'cas' is executed linearizably; use the level 'serializable' or 'strict-serializable'",
            ),
            workload if self.blind_writes.is_some() && workload != Workload::ReadWrite => {
                Some("only the workload 'read-write' has a share of blind writes that can be chosen")
            }
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(reason.into());
        }
        let injected: usize = self.inject.iter().map(|&anomaly| crate::anomaly::group(anomaly).len()).sum();
        if injected as u64 > self.transactions {
            return Err(format!("the anomalies take {injected} transactions; {} were asked for", self.transactions));
        }
        Ok(())
    }
}
