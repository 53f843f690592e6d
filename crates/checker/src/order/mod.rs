//! Orders of transactions: is there a forbidden cycle ([`acyclic`], by [`components`]), which one should a person see
//! ([`shortest`]), what is behind each of its edges ([`reasons`]), does an order explain a history (`replay`), and is the one
//! that a database told a serialization order ([`claim`]).

pub mod acyclic;
pub mod claim;
pub mod components;
pub mod reasons;
mod replay;
pub mod shortest;
