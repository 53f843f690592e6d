//! Small sets of transactions.

use std::fmt::Debug;

/// A set of transactions by their numbers.
pub trait Set: Copy + Clone + Eq + PartialEq + std::hash::Hash + Default + Send + Sync + Debug + 'static {
    /// Numbers below this can be members.
    const CAPACITY: usize;

    /// The set of one member.
    fn single(member: usize) -> Self;
    /// Whether it is a member.
    fn has(self, member: usize) -> bool;
    /// Members of either.
    fn or(self, other: Self) -> Self;
    /// Members of both.
    fn and(self, other: Self) -> Self;
    /// Members of this and not of the other.
    fn minus(self, other: Self) -> Self;
    /// Whether it has no members.
    fn is_empty(self) -> bool;
    /// The least member.
    fn first(self) -> Option<usize>;

    /// Adds a member.
    fn insert(&mut self, member: usize) {
        *self = self.or(Self::single(member));
    }
    /// Takes a member out.
    fn remove(&mut self, member: usize) {
        *self = self.minus(Self::single(member));
    }
    /// Whether all members are members of the other.
    fn within(self, other: Self) -> bool {
        self.minus(other).is_empty()
    }
    /// The members, ascending.
    fn members(self) -> Members<Self> {
        Members(self)
    }
}

/// The members of a set, ascending.
pub struct Members<S>(S);

impl<S: Set> Iterator for Members<S> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let member = self.0.first()?;
        self.0.remove(member);
        Some(member)
    }
}

impl Set for u64 {
    const CAPACITY: usize = 64;

    #[inline]
    fn single(member: usize) -> Self {
        1 << member
    }
    #[inline]
    fn has(self, member: usize) -> bool {
        self >> member & 1 == 1
    }
    #[inline]
    fn or(self, other: Self) -> Self {
        self | other
    }
    #[inline]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline]
    fn minus(self, other: Self) -> Self {
        self & !other
    }
    #[inline]
    fn is_empty(self) -> bool {
        self == 0
    }
    #[inline]
    fn first(self) -> Option<usize> {
        if self == 0 { None } else { Some(self.trailing_zeros() as usize) }
    }
}

const WORDS: usize = 16;

/// A set for programs of more than 64 transactions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Wide([u64; WORDS]);

impl Set for Wide {
    const CAPACITY: usize = 64 * WORDS;

    fn single(member: usize) -> Self {
        let mut words = [0; WORDS];
        words[member / 64] = 1 << (member % 64);
        Wide(words)
    }
    fn has(self, member: usize) -> bool {
        self.0[member / 64] >> (member % 64) & 1 == 1
    }
    fn or(self, other: Self) -> Self {
        Wide(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
    fn and(self, other: Self) -> Self {
        Wide(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }
    fn minus(self, other: Self) -> Self {
        Wide(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }
    fn is_empty(self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
    fn first(self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laws<S: Set>(numbers: &[usize]) {
        let mut set = S::default();
        assert!(set.is_empty());
        for &number in numbers {
            set.insert(number);
        }
        assert_eq!(set.members().collect::<Vec<_>>(), numbers);
        let last = numbers[numbers.len() - 1];
        assert!(set.has(last) && !set.has(last - 1));
        set.remove(last);
        assert!(!set.has(last) && set.within(set.or(S::single(last))));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        laws::<u64>(&[0, 5, 63]);
        laws::<Wide>(&[0, 5, 63, 64, 700, 1023]);
    }
}
