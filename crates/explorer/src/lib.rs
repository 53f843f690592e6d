//! Every behaviour of a few transactions under an isolation level, each visited once.
//!
//! The algorithm is EXPLORE-CE of Bouajjani, Enea and Román-Calvo (PLDI 2023), in the repaired form that
//! `docs/design/explore.md` defends. [`behaviour`] holds what transactions do, as far as it is known;
//! [`history`] is an execution under construction with the order that its reads force; [`swaps`] finds the
//! reads that may see the transaction that has just committed instead; [`worker`] walks the tree of
//! executions; [`commit_order`] decides the levels that no step-by-step rule can (prefix, snapshot isolation,
//! serializable, mixed) and which final states they allow; [`outcomes`] keeps what was found;
//! [`estimate`] tells how large the whole is.
//! [`explorer`] is the door: it runs workers, and says what it has to be told before it can go on.

pub mod behaviour;
pub mod bits;
pub mod commit_order;
pub mod estimate;
pub mod explorer;
pub mod history;
pub mod level;
pub mod outcomes;
pub mod swaps;
pub mod worker;
