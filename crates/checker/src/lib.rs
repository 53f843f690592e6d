//! Evidence about the order of transactions, and what it decides.
//!
//! The pipeline: [`attribution`] finds the writer of every read and the reads that nothing explains;
//! [`dependencies`] turns what is known into a graph; [`acyclic`] decides by it; [`shortest`] finds the
//! cycle that a person should look at, and [`evidence`] the operations behind each of its edges.
//! [`analysis`] is the door.

pub mod acyclic;
pub mod analysis;
pub mod attribution;
mod chains;
mod clocks;
pub mod components;
pub mod decision;
pub mod dependencies;
pub mod evidence;
pub mod linear;
pub mod linear_calls;
pub mod linear_evidence;
pub mod linear_problem;
pub mod linear_search;
mod linearizable;
mod list_overwrites;
mod lists;
pub mod outcome;
pub mod parallel;
pub mod readers;
pub mod realtime;
mod replay;
pub mod saturation;
mod search;
mod settle;
pub mod shortest;
mod weak;
