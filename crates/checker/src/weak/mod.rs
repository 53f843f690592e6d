//! The levels below snapshot isolation: what follows from their axioms ([`saturation`], over the causal past of `clocks`), and
//! what that decides (`levels`).

mod clocks;
mod levels;
pub mod saturation;
