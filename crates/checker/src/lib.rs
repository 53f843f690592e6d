//! Evidence about the order of transactions, and what it decides.
//!
//! The folders are the theory:
//!
//! | folder | what it says |
//! | --- | --- |
//! | [`evidence`] | what is known of the order: who wrote what was read, which transactions count, which version follows which, the clock |
//! | [`order`] | whether there is a forbidden cycle, which one to show, what is behind each of its edges; whether an order replays |
//! | [`weak`] | the levels below snapshot isolation: all consequences of their axioms |
//! | [`linearizable`] | single keys in real time |
//! | `search` | what no evidence settles: guess, prune, solve, lay open, within a budget |
//!
//! [`analysis`] is the door, [`decision`] what it is asked and what it answers.

pub mod analysis;
pub mod decision;
pub mod evidence;
pub mod linearizable;
pub mod order;
pub mod parallel;
mod search;
pub mod weak;
