//! Reads that no order of the transactions explains, and which of them a level forbids.
//!
//! This is the one place that says so: what [`attribution`](crate::evidence::attribution) finds for registers and for lists
//! goes through [`ReadFault::of_uninstalled`], and every level asks [`ReadFault::counts_at`].

use crate::decision::Question;
use crate::weak::saturation::Visibility;

/// Why a read cannot be explained, whatever the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum ReadFault {
    /// Nobody wrote the value.
    ThinAir,
    /// Only an aborted transaction wrote it.
    Aborted,
    /// Its writer overwrote it before committing.
    Intermediate,
    /// Only the reader itself wrote it, and later.
    Future,
    /// The reader had overwritten this value of its own.
    NotMyLastWrite,
    /// The reader had written the key, and saw somebody else's value.
    NotMyOwnWrite,
    /// The reader had read another value before, without writing in between.
    NonRepeatable,
    /// A list holds an element twice that was appended once.
    DuplicateElement,
    /// A list lacks an element that came before one that it shows.
    LostElement,
    /// A list shows elements in another order than a list that somebody else read, or than their own appender.
    IncompatibleOrder,
}

/// One read that cannot be explained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Why.
    pub kind: ReadFault,
    /// The reading transaction.
    pub reader: u32,
    /// The reading operation.
    pub read_op: u32,
    /// The operation it conflicts with: the write that was seen, or the earlier read; or [`NONE`].
    pub other_op: u32,
    /// The transaction of `other_op`, or [`INITIAL`].
    pub other: u32,
}

impl ReadFault {
    /// What it is to read a value that some write of another transaction made and did not install: if the writer was aborted,
    /// nothing of it may ever be seen; if not, it overwrote the value itself before it committed.
    pub fn of_uninstalled(writer_aborted: bool) -> ReadFault {
        if writer_aborted { ReadFault::Aborted } else { ReadFault::Intermediate }
    }

    /// Whether a question forbids it. What was read binds nobody at read uncommitted; and a second look may show something
    /// else below read atomic.
    pub fn counts_at(self, question: Question) -> bool {
        match question {
            Question::Overwrites => false,
            Question::Weak(Visibility::Nothing | Visibility::EarlierRead) => self != ReadFault::NonRepeatable,
            Question::Weak(_) | Question::Prefix | Question::Acyclic { .. } | Question::Linearizable => true,
        }
    }
}
