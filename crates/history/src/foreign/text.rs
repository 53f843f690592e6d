//! Lines and numbers of plain text formats.

use memchr::memchr_iter;

use super::fault;
use crate::error::Malformed;
use crate::value::{Atoms, Value};

/// The numbers of lines, for places that only move forward.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Lines { text, at: 0, line: 1 }
    }

    /// The 1-based line of the byte at `index`.
    pub(super) fn line_of(&mut self, index: usize) -> u64 {
        let index = index.min(self.text.len());
        if index < self.at {
            return 1 + memchr_iter(b'\n', &self.text[..index]).count() as u64;
        }
        self.line += memchr_iter(b'\n', &self.text[self.at..index]).count() as u64;
        self.at = index;
        self.line
    }
}

/// The text, if it is UTF-8.
pub(super) fn utf8(content: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(content).map_err(|wrong| {
        let line = Lines::new(content).line_of(wrong.valid_up_to());
        fault(line, "", format!("byte {} is not UTF-8", wrong.valid_up_to()), "a text")
    })
}

/// A number of the digits 0 to 9 that fits into 64 bits.
#[inline]
pub(super) fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(number)
}

/// Any unsigned number of 64 bits as a value.
#[inline]
pub(super) fn value_of(atoms: &mut Atoms, number: u64) -> Value {
    match i64::try_from(number) {
        Ok(number) => atoms.integer(number),
        Err(_) => atoms.number(number.to_string().as_bytes()).expect("20 digits are few"),
    }
}
