//! What is known of the order of transactions before any level is asked about.
//!
//! [`attribution`] finds the writer of every read, key by key, and the [`faults`] that no order explains: `registers` where keys hold single values, `lists` where they
//! hold lists. [`outcome`] says which transactions count, `chains` which version follows which, [`realtime`] what the clock
//! says, [`outside`] what others told; [`dependencies`] makes a graph of all of it.

pub mod attribution;
pub(crate) mod chains;
pub mod dependencies;
pub mod faults;
pub(crate) mod list_overwrites;
pub(crate) mod lists;
pub mod outcome;
pub mod outside;
pub mod readers;
pub mod realtime;
mod registers;
