//! What can be wrong with an input, in parts that a message and a program can both use.

use std::fmt;

/// The first thing that is wrong with a history's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// 1-based line; 0 when the input has no lines (Parquet).
    pub line: u64,
    /// The field, such as `ops[2][1]`; empty when the whole line is meant.
    pub field: String,
    /// What is there, as JSON text cut to a readable length, or a phrase.
    pub found: String,
    /// What should be there, and what to do.
    pub expected: String,
    /// How many transactions were read before this point.
    pub transactions_before: u64,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}: ", self.line)?;
        }
        if self.field.is_empty() {
            write!(f, "{}; expected {}", self.found, self.expected)
        } else {
            write!(f, "\"{}\" is {}; expected {}", self.field, self.found, self.expected)
        }
    }
}

/// A text of the input as it may stand in a message of one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { c }).collect()
}

/// Why a history could not be read or written.
#[derive(Debug)]
pub enum Error {
    /// The operating system said no.
    Io(std::io::Error),
    /// The content is not a history.
    Malformed(Malformed),
    /// The format to be written cannot say what the history holds; the text is for people.
    Refused(String),
    /// The caller's poll asked to stop.
    Interrupted,
}

/// What an input that breaks off while it is unpacked means: damage is the file's fault, the rest the system's.
pub(crate) fn broken_stream(error: std::io::Error, line: u64, transactions: usize) -> Error {
    if !is_damage(&error) {
        return Error::Io(error);
    }
    Error::Malformed(Malformed {
        line,
        field: String::new(),
        found: format!("the compressed data breaks off or is damaged here ({error})"),
        expected: format!("a complete file; {transactions} transactions came before it"),
        transactions_before: transactions as u64,
    })
}

/// Whether an error comes from the bytes that were unpacked, and not from the system.
pub(crate) fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Error::Malformed(malformed)
    }
}

/// Shorthand of this crate.
pub type Result<T> = std::result::Result<T, Error>;
