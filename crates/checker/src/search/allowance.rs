//! What a search may use: steps, and memory.
//!
//! Everything that grows faster than the history is paid for before it is done or laid out, so that a search ends in
//! "undecided" and never in a machine without memory. A little is free: what takes less than a moment is done in any case.

use crate::decision::Open;

/// How much may be looked at for one step of the budget: nodes, pairs, candidates.
pub const VISITS_A_STEP: u64 = 100;
/// What may be looked at for nothing.
const FREE_VISITS: u64 = 20_000_000;
/// How many bytes the choices of one question may take, laid out.
const BYTES_MAX: u64 = 1 << 30;

/// What is left.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    steps: u64,
    free: u64,
    bytes: u64,
}

impl Allowance {
    /// Everything that a budget of so many steps allows.
    pub fn of(steps: u64) -> Allowance {
        Allowance { steps, free: FREE_VISITS, bytes: BYTES_MAX }
    }

    /// Pays for looking at so much; `false` if that is more than is left.
    pub fn look(&mut self, visits: u64) -> bool {
        if visits <= self.free {
            self.free -= visits;
            return true;
        }
        let steps = (visits - self.free).div_ceil(VISITS_A_STEP);
        self.free = 0;
        let affordable = steps <= self.steps;
        self.steps = self.steps.saturating_sub(steps);
        affordable
    }

    /// Pays for holding so many bytes until the question is answered; `false` if that is more than is left.
    pub fn hold(&mut self, bytes: u64) -> bool {
        let affordable = bytes <= self.bytes;
        self.bytes = self.bytes.saturating_sub(bytes);
        affordable
    }

    /// The steps that are left, for the solver.
    pub fn steps(&mut self) -> &mut u64 {
        &mut self.steps
    }

    /// Why a search gave up that could not be afforded: for memory, or for time.
    pub fn gave_up(&self, pairs: u64, reads: u64) -> Open {
        if self.bytes == 0 { Open::Memory { pairs, reads } } else { Open::Choices { pairs, reads } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_used_first_and_what_is_not_affordable_uses_up_the_rest() {
        let mut allowance = Allowance::of(10);
        assert!(allowance.look(FREE_VISITS));
        assert!(allowance.look(5 * VISITS_A_STEP));
        assert_eq!(*allowance.steps(), 5);
        assert!(!allowance.look(6 * VISITS_A_STEP));
        assert_eq!(*allowance.steps(), 0);
        assert!(matches!(allowance.gave_up(1, 2), Open::Choices { pairs: 1, reads: 2 }));
        assert!(allowance.hold(BYTES_MAX));
        assert!(!allowance.hold(1));
        assert!(matches!(allowance.gave_up(1, 2), Open::Memory { pairs: 1, reads: 2 }));
    }
}
