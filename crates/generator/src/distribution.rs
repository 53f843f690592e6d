//! Which keys a workload likes.

use crate::dice::Dice;
use crate::parameters::{Distribution, Skew};

/// YCSB's skew.
const ZIPFIAN_EXPONENT: f64 = 0.99;
/// The formula has no value at 1, and next to it the same one to six digits.
const NEXT_TO_ONE: f64 = 1e-6;
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
        exponent: f64,
        zeta: f64,
        eta: f64,
    },
    Hotspot {
        hot: u32,
        accesses: f64,
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
    pub fn new(distribution: Distribution, skew: Skew, keys: u32) -> KeyChooser {
        let n = f64::from(keys);
        let shape = match distribution {
            Distribution::Uniform => Shape::Uniform,
            Distribution::Zipfian => {
                let asked = skew.exponent.unwrap_or(ZIPFIAN_EXPONENT);
                let exponent = if (asked - 1.0).abs() < NEXT_TO_ONE { 1.0 - NEXT_TO_ONE } else { asked };
                let zeta: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-exponent)).sum();
                let eta = (1.0 - (2.0 / n).powf(1.0 - exponent)) / (1.0 - two_ranks(exponent) / zeta);
                Shape::Zipfian { exponent, zeta, eta }
            }
            Distribution::Hotspot => Shape::Hotspot {
                hot: ((n * skew.hot_keys.unwrap_or(HOT_KEYS)).ceil() as u32).clamp(1, keys),
                accesses: skew.hot_accesses.unwrap_or(HOT_ACCESSES),
            },
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
            Shape::Zipfian { exponent, zeta, eta } => {
                let u = dice.unit();
                let rank = if u * zeta < 1.0 {
                    0
                } else if u * zeta < two_ranks(exponent) {
                    1
                } else {
                    (f64::from(self.keys) * (eta * u - eta + 1.0).powf(1.0 / (1.0 - exponent))) as u32
                };
                rank.min(self.keys - 1)
            }
            Shape::Hotspot { hot, accesses } => {
                if hot == self.keys || dice.chance(accesses) {
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
fn two_ranks(exponent: f64) -> f64 {
    1.0 + 0.5f64.powf(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_stays_in_range_and_only_uniform_is_even() {
        for &(name, distribution) in Distribution::ALL {
            for keys in [1, 2, 3, 10, 1000] {
                let chooser = KeyChooser::new(distribution, Skew::default(), keys);
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

    /// The share of draws that each of the first keys gets.
    fn shares(distribution: Distribution, skew: Skew, keys: u32) -> Vec<f64> {
        let (chooser, mut dice) = (KeyChooser::new(distribution, skew, keys), Dice::new(3));
        let draws = 200_000;
        let mut counts = vec![0.0; keys as usize];
        (0..draws).for_each(|_| counts[chooser.draw(&mut dice) as usize] += 1.0 / f64::from(draws));
        counts
    }

    #[test]
    fn an_exponent_gives_the_first_two_keys_what_zipfs_law_gives_them_and_the_rest_nearly() {
        for exponent in [0.2, 0.5, 0.99, 1.0, 1.5, 3.0] {
            let skew = Skew { exponent: Some(exponent), ..Skew::default() };
            let shares = shares(Distribution::Zipfian, skew, 50);
            let zeta: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
            assert!((shares[0] - 1.0 / zeta).abs() < 0.005, "{exponent}: {}", shares[0]);
            assert!((shares[1] - 0.5f64.powf(exponent) / zeta).abs() < 0.005, "{exponent}: {}", shares[1]);
            let tenth: f64 = shares[..10].iter().sum();
            let law: f64 = (1..=10).map(|rank| f64::from(rank).powf(-exponent) / zeta).sum();
            assert!((tenth - law).abs() < 0.03, "{exponent}: {tenth} for {law}");
        }
    }

    #[test]
    fn hot_keys_get_the_accesses_that_were_asked_for() {
        for (hot_keys, hot_accesses) in [(0.1, 0.9), (0.5, 0.5), (0.02, 0.3)] {
            let skew = Skew { hot_keys: Some(hot_keys), hot_accesses: Some(hot_accesses), ..Skew::default() };
            let hot: f64 = shares(Distribution::Hotspot, skew, 50)[..(50.0 * hot_keys) as usize].iter().sum();
            assert!((hot - hot_accesses).abs() < 0.005, "{hot_keys} {hot_accesses}: {hot}");
        }
    }
}
