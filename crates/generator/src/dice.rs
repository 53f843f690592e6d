//! The one source of chance.
//!
//! Xoshiro256++ is specified to the bit, and the few draws needed are derived from it here, so a seed
//! means the same history whatever a later release of a random-number library does with its ranges.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A seeded generator.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An integer of `0..bound`. The bias of the multiplication is below `bound` in 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number of `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// 0 half of the time, 1 a quarter of it, and so on, at most `bound`.
    #[inline]
    pub fn geometric(&mut self, bound: u32) -> u32 {
        self.0.next_u64().trailing_zeros().min(bound)
    }
}
