//! Values in eight bytes.
//!
//! A value of a history is `null`, a boolean, a number, a string or (what a read of a list returns) a
//! list of those. Almost all are small integers, so these are stored in place; the rest is interned in
//! [`Atoms`]. Two scalar values are equal iff their eight bytes are, which is what attribution needs.

use std::hash::{Hash, Hasher};

use indexmap::{Equivalent, IndexSet};
use rustc_hash::FxBuildHasher;

/// Integers below this magnitude (18 decimal digits) live inside the [`Value`] itself.
const INLINE_MAX: i64 = 1_000_000_000_000_000_000;
/// More significant digits than this are refused: no database stores them, and they would be a way to
/// make a small file cost a lot.
const DIGITS_MAX: usize = 1_000;
const EXPONENT_MAX: i64 = 9_999;

const TAG_BITS: u32 = 2;
const TAG_INT: u64 = 0;
const TAG_ATOM: u64 = 1;
const TAG_SPECIAL: u64 = 2;
const TAG_LIST: u64 = 3;

/// One value, or a reference to it in the tables of its history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(u64);

/// What a [`Value`] is, once looked up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind<'a> {
    /// JSON `null`: the key is absent.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of at most 18 digits.
    Int(i64),
    /// Any other number, in canonical decimal text.
    Number(&'a str),
    /// A string.
    Text(&'a str),
    /// A list, by its place in the list table.
    List(u32),
    /// Nothing was given here.
    Missing,
}

impl Value {
    /// The absent key.
    pub const NULL: Value = Value(TAG_SPECIAL);
    /// `false`.
    pub const FALSE: Value = Value((1 << TAG_BITS) | TAG_SPECIAL);
    /// `true`.
    pub const TRUE: Value = Value((2 << TAG_BITS) | TAG_SPECIAL);
    /// Nothing was given; never equal to a value of a history.
    pub const MISSING: Value = Value((3 << TAG_BITS) | TAG_SPECIAL);

    /// The integer, if it has at most 18 digits; [`Atoms::integer`] takes any.
    #[inline]
    pub fn small_int(i: i64) -> Option<Value> {
        (-INLINE_MAX < i && i < INLINE_MAX).then_some(Value((i << TAG_BITS) as u64 | TAG_INT))
    }

    /// A boolean.
    pub fn bool(b: bool) -> Value {
        if b { Value::TRUE } else { Value::FALSE }
    }

    pub(crate) fn list(index: u32) -> Value {
        Value((u64::from(index) << TAG_BITS) | TAG_LIST)
    }

    fn atom(index: usize) -> Value {
        Value(((index as u64) << TAG_BITS) | TAG_ATOM)
    }

    /// The integer stored in place, if it is one.
    #[inline]
    pub fn as_small_int(self) -> Option<i64> {
        (self.0 & 3 == TAG_INT).then_some((self.0 as i64) >> TAG_BITS)
    }

    /// Whether this refers to the list table.
    #[inline]
    pub fn is_list(self) -> bool {
        self.0 & 3 == TAG_LIST
    }

    /// Whether this refers to an interned text or large number.
    #[inline]
    pub(crate) fn is_atom(self) -> bool {
        self.0 & 3 == TAG_ATOM
    }

    pub(crate) fn index(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Value {
        Value(bits)
    }

    /// The eight bytes, for hashing and for columns.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}

#[derive(PartialEq, Eq, Debug)]
struct Atom {
    number: bool,
    text: Box<str>,
}

#[derive(PartialEq, Eq)]
struct AtomRef<'a> {
    number: bool,
    text: &'a str,
}

impl Hash for Atom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        AtomRef { number: self.number, text: &self.text }.hash(state);
    }
}

impl Hash for AtomRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.text.hash(state);
    }
}

impl Equivalent<Atom> for AtomRef<'_> {
    fn equivalent(&self, atom: &Atom) -> bool {
        self.number == atom.number && *self.text == *atom.text
    }
}

/// The interned strings and long numbers of one history.
#[derive(Default, Debug)]
pub struct Atoms {
    set: IndexSet<Atom, FxBuildHasher>,
}

/// Why a number of the input is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberTooLong;

impl Atoms {
    fn intern(&mut self, number: bool, text: &str) -> Value {
        if let Some(index) = self.set.get_index_of(&AtomRef { number, text }) {
            return Value::atom(index);
        }
        Value::atom(self.set.insert_full(Atom { number, text: text.into() }).0)
    }

    /// A string.
    pub fn text(&mut self, text: &str) -> Value {
        self.intern(false, text)
    }

    /// Any 64-bit integer.
    pub fn integer(&mut self, i: i64) -> Value {
        Value::small_int(i).unwrap_or_else(|| self.intern(true, &i.to_string()))
    }

    /// A JSON number. Numbers are compared by what they mean: `1.0`, `1` and `10e-1` are one value.
    pub fn number(&mut self, json: &[u8]) -> Result<Value, NumberTooLong> {
        if let Some(i) = short_integer(json) {
            return Ok(Value((i << TAG_BITS) as u64 | TAG_INT));
        }
        let text = canonical_decimal(json)?;
        Ok(match short_integer(text.as_bytes()) {
            Some(i) => Value((i << TAG_BITS) as u64 | TAG_INT),
            None => self.intern(true, &text),
        })
    }

    /// What `value` is. Lists are looked up by the caller.
    pub fn kind(&self, value: Value) -> Kind<'_> {
        match value.0 & 3 {
            TAG_INT => Kind::Int((value.0 as i64) >> TAG_BITS),
            TAG_ATOM => {
                let atom = &self.set[value.index()];
                if atom.number { Kind::Number(&atom.text) } else { Kind::Text(&atom.text) }
            }
            TAG_LIST => Kind::List(value.index() as u32),
            _ => match value {
                Value::NULL => Kind::Null,
                Value::FALSE => Kind::Bool(false),
                Value::TRUE => Kind::Bool(true),
                _ => Kind::Missing,
            },
        }
    }

    /// Takes over the atoms of another history; the answer maps their places there to values here.
    pub(crate) fn absorb(&mut self, other: &Atoms) -> Vec<Value> {
        other.set.iter().map(|atom| self.intern(atom.number, &atom.text)).collect()
    }
}

/// The integer of a JSON number with at most 18 digits and neither fraction nor exponent.
#[inline]
fn short_integer(json: &[u8]) -> Option<i64> {
    let (negative, digits) = match json {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut magnitude = 0i64;
    for &d in digits {
        if !d.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + i64::from(d - b'0');
    }
    Some(if negative { -magnitude } else { magnitude })
}

/// The one text of a decimal number: no superfluous zeros, no exponent unless plain digits would be long.
fn canonical_decimal(json: &[u8]) -> Result<String, NumberTooLong> {
    let negative = json.first() == Some(&b'-');
    let mut digits: Vec<u8> = Vec::new();
    let mut exponent = 0i64;
    let mut fraction = false;
    let mut at = usize::from(negative);
    while let Some(&c) = json.get(at) {
        match c {
            b'0'..=b'9' => {
                digits.push(c);
                exponent -= i64::from(fraction);
            }
            b'.' => fraction = true,
            _ => break,
        }
        at += 1;
    }
    if matches!(json.get(at), Some(b'e' | b'E')) {
        let text = std::str::from_utf8(&json[at + 1..]).map_err(|_| NumberTooLong)?;
        let explicit: i64 = text.parse().map_err(|_| NumberTooLong)?;
        exponent = exponent.checked_add(explicit).ok_or(NumberTooLong)?;
    }
    let leading = digits.iter().take_while(|&&d| d == b'0').count();
    digits.drain(..leading);
    while digits.last() == Some(&b'0') {
        digits.pop();
        exponent += 1;
    }
    if digits.is_empty() {
        return Ok("0".to_owned());
    }
    if digits.len() > DIGITS_MAX || exponent.abs() > EXPONENT_MAX {
        return Err(NumberTooLong);
    }
    let sign = if negative { "-" } else { "" };
    let digits = String::from_utf8_lossy(&digits).into_owned();
    let count = digits.len() as i64;
    let point = count + exponent;
    // Whole numbers stay plain as long as they may be: they can be names, which have no exponent.
    Ok(if exponent >= 0 && point <= DIGITS_MAX as i64 {
        format!("{sign}{digits}{}", "0".repeat(exponent as usize))
    } else if exponent < 0 && point > 0 {
        let (whole, part) = digits.split_at(point as usize);
        format!("{sign}{whole}.{part}")
    } else if exponent < 0 && point > -6 {
        format!("{sign}0.{}{digits}", "0".repeat(-point as usize))
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{sign}{first}{dot}{rest}e{}", point - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_iff_they_mean_the_same() {
        let mut atoms = Atoms::default();
        let mut of = |text: &str| atoms.number(text.as_bytes()).unwrap();
        assert_eq!(of("1"), of("1.0"));
        assert_eq!(of("1"), of("10e-1"));
        assert_eq!(of("-0"), of("0.000"));
        assert_eq!(of("1.50"), of("15e-1"));
        assert_eq!(of("123456789012345678901234567890"), of("12345678901234567890123456789e1"));
        assert_ne!(of("0.1"), of("0.10000000000000000001"));
        assert_eq!(of("1000000000000000000"), of("1e18"));
    }

    #[test]
    fn canonical_text_reads_back_to_itself() {
        for text in ["1.5", "-0.001", "1e300", "1e2000", "1.25e-40", "12345678901234567890.5"] {
            let once = canonical_decimal(text.as_bytes()).unwrap();
            assert_eq!(once, canonical_decimal(once.as_bytes()).unwrap());
        }
    }

    #[test]
    fn absurd_numbers_are_refused() {
        assert_eq!(Atoms::default().number(b"1e99999"), Err(NumberTooLong));
        assert_eq!(Atoms::default().number("9".repeat(2000).as_bytes()), Err(NumberTooLong));
        assert_eq!(Atoms::default().number(b"1e999999999999999999999"), Err(NumberTooLong));
    }

    #[test]
    fn a_text_and_a_number_of_the_same_look_differ() {
        let mut atoms = Atoms::default();
        let (text, number) = (atoms.text("1.5"), atoms.number(b"1.5").unwrap());
        assert_ne!(text, number);
        assert_eq!(atoms.kind(text), Kind::Text("1.5"));
        assert_eq!(atoms.kind(number), Kind::Number("1.5"));
    }
}
