//! Orders of transactions: is there a forbidden cycle ([`acyclic`], by [`components`]), which one should a person see
//! ([`shortest`]), what is behind each of its edges ([`reasons`]), and does an order explain a history (`replay`).

pub mod acyclic;
pub mod components;
pub mod reasons;
mod replay;
pub mod shortest;
