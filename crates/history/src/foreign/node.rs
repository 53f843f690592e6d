//! A piece of EDN or JSON, as far as histories need to tell pieces apart.

use std::borrow::Cow;

use crate::line::snippet;
use crate::value::{Atoms, Value};

/// How deep pieces may be nested; no history comes near it, and no input may exhaust the stack.
pub(super) const DEPTH_MAX: usize = 64;

/// One piece and the text that it was read from.
pub(super) struct Node<'a> {
    pub(super) raw: &'a str,
    pub(super) kind: Piece<'a>,
}

/// What a piece is.
pub(super) enum Piece<'a> {
    Nil,
    Bool(bool),
    /// An integer or a decimal, which is the raw text (EDN may add an N or M).
    Number,
    Text(Cow<'a, str>),
    /// The raw text without its colon.
    Keyword(&'a str),
    /// A list, a vector or an array.
    Seq(Vec<Node<'a>>),
    Map(Vec<(Node<'a>, Node<'a>)>),
    /// A tagged piece, without its tag.
    Tagged(Box<Node<'a>>),
    /// A set, a character, a symbol, a ratio.
    Other,
}

impl<'a> Node<'a> {
    /// The text of a keyword or of a string: JSON has only the latter.
    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Piece::Keyword(word) => Some(word),
            Piece::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self.kind, Piece::Nil)
    }

    pub(super) fn seq(&self) -> Option<&[Node<'a>]> {
        match &self.kind {
            Piece::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a map, also of a tagged one: a record.
    pub(super) fn entries(&self) -> Option<&[(Node<'a>, Node<'a>)]> {
        match &self.kind {
            Piece::Map(entries) => Some(entries),
            Piece::Tagged(inner) => inner.entries(),
            _ => None,
        }
    }

    /// What stands under a name.
    pub(super) fn get(&self, name: &str) -> Option<&Node<'a>> {
        self.entries()?.iter().find(|(key, _)| key.word() == Some(name)).map(|(_, value)| value)
    }

    /// The digits of an integer, with its sign.
    fn integer_text(&self) -> Option<&'a str> {
        let digits = self.number_text()?;
        digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-').then_some(digits)
    }

    fn number_text(&self) -> Option<&'a str> {
        let Piece::Number = self.kind else { return None };
        let raw = self.raw.strip_prefix('+').unwrap_or(self.raw);
        Some(raw.strip_suffix(['N', 'M']).unwrap_or(raw))
    }

    /// An integer of 64 bits.
    pub(super) fn integer(&self) -> Option<i64> {
        self.integer_text()?.parse().ok()
    }

    /// A key: an integer, a string, a keyword or a vector, which is known by its text.
    pub(super) fn name(&self, atoms: &mut Atoms) -> Option<Value> {
        match (self.word(), self.seq()) {
            (Some(word), _) => Some(atoms.text(word)),
            (_, Some(_)) => Some(atoms.text(&self.text())),
            _ => atoms.number(self.integer_text()?.as_bytes()).ok(),
        }
    }

    /// The text of a piece, in which the blanks and commas between its parts do not count: `[1 "a"]`.
    fn text(&self) -> String {
        match self.seq() {
            Some(items) => format!("[{}]", items.iter().map(Node::text).collect::<Vec<_>>().join(" ")),
            None => self.raw.into(),
        }
    }

    /// A single value; a keyword is its text.
    pub(super) fn scalar(&self, atoms: &mut Atoms) -> Option<Value> {
        match &self.kind {
            Piece::Nil => Some(Value::NULL),
            Piece::Bool(value) => Some(Value::bool(*value)),
            Piece::Number => atoms.number(self.number_text()?.as_bytes()).ok(),
            Piece::Text(text) => Some(atoms.text(text)),
            Piece::Keyword(word) => Some(atoms.text(word)),
            _ => None,
        }
    }

    /// The raw text, for messages.
    pub(super) fn snippet(&self) -> String {
        snippet(self.raw)
    }
}
