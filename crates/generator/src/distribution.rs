//! Which keys a workload likes.

use crate::dice::Dice;
use crate::parameters::Distribution;

/// YCSB's skew.
const ZIPFIAN_EXPONENT: f64 = 0.99;
/// Four in five accesses go to one key in five.
const HOT_ACCESSES: f64 = 0.8;
const HOT_KEYS: f64 = 0.2;
/// YCSB's exponential: 95 % of the accesses go to the first 85.71 % of the keys.
const EXPONENTIAL_ACCESSES: f64 = 0.95;
const EXPONENTIAL_KEYS: f64 = 0.857_142_857_1;
/// After so many draws of the same key its neighbour is taken: under a heavy skew over two keys, waiting
/// for the rare one could take long.
pub const REDRAWS_MAX: u32 = 8;

enum Shape {
    Uniform,
    /// Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994: constant time
    /// a draw.
    Zipfian {
        zeta: f64,
        eta: f64,
    },
    Hotspot {
        hot: u32,
    },
    Exponential {
        mean: f64,
    },
}

/// Draws keys of `0..keys`; where the distribution is skewed, low numbers are the popular ones.
pub struct KeyChooser {
    keys: u32,
    shape: Shape,
}

impl KeyChooser {
    pub fn new(distribution: Distribution, keys: u32) -> KeyChooser {
        let n = f64::from(keys);
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipfian => {
                let zeta: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-ZIPFIAN_EXPONENT)).sum();
                let eta = (1.0 - (2.0 / n).powf(1.0 - ZIPFIAN_EXPONENT)) / (1.0 - two_ranks() / zeta);
                Shape::Zipfian { zeta, eta }
            }
            Distribution::Hotspot => Shape::Hotspot { hot: ((n * HOT_KEYS).ceil() as u32).clamp(1, keys) },
            Distribution::Exponential => {
                Shape::Exponential { mean: n * EXPONENTIAL_KEYS / -(1.0 - EXPONENTIAL_ACCESSES).ln() }
            }
        };
        KeyChooser { keys, shape }
    }

    /// One key.
    pub fn draw(&self, dice: &mut Dice) -> u32 {
        let all = u64::from(self.keys);
        match self.shape {
            Shape::Uniform => dice.below(all) as u32,
            Shape::Zipfian { zeta, eta } => {
                let u = dice.unit();
                let rank = if u * zeta < 1.0 {
                    0
                } else if u * zeta < two_ranks() {
                    1
                } else {
                    (f64::from(self.keys) * (eta * u - eta + 1.0).powf(1.0 / (1.0 - ZIPFIAN_EXPONENT))) as u32
                };
                rank.min(self.keys - 1)
            }
            Shape::Hotspot { hot } => {
                if hot == self.keys || dice.chance(HOT_ACCESSES) {
                    dice.below(u64::from(hot)) as u32
                } else {
                    hot + dice.below(u64::from(self.keys - hot)) as u32
                }
            }
            Shape::Exponential { mean } => loop {
                // 1 - u is never 0, whose logarithm there is not.
                let key = -(1.0 - dice.unit()).ln() * mean;
                if key < f64::from(self.keys) {
                    return key as u32;
                }
            },
        }
    }

    /// A key other than `first`; there must be two.
    pub fn draw_other(&self, first: u32, dice: &mut Dice) -> u32 {
        for _ in 0..REDRAWS_MAX {
            let key = self.draw(dice);
            if key != first {
                return key;
            }
        }
        (first + 1) % self.keys
    }
}

/// The zipfian weight of the two most popular keys.
fn two_ranks() -> f64 {
    1.0 + 0.5f64.powf(ZIPFIAN_EXPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_stays_in_range_and_only_uniform_is_even() {
        for &(name, distribution) in Distribution::ALL {
            for keys in [1, 2, 3, 10, 1000] {
                let chooser = KeyChooser::new(distribution, keys);
                let mut dice = Dice::new(7);
                let draws = 20_000;
                let low = (0..draws)
                    .map(|_| chooser.draw(&mut dice))
                    .inspect(|&key| assert!(key < keys, "{name}"))
                    .filter(|&key| key < keys.div_ceil(5))
                    .count();
                if keys >= 10 {
                    let even = draws / 5;
                    assert_eq!(low < even * 6 / 5, distribution == Distribution::Uniform, "{name} {keys} {low}");
                }
                if keys > 1 {
                    assert!((0..keys).all(|first| chooser.draw_other(first, &mut dice) != first), "{name}");
                }
            }
        }
    }
}
