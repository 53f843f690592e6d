//! JSON as nodes.

use std::borrow::Cow;

use jiter::{Jiter, JiterError, Peek};

use super::fault;
use super::node::{DEPTH_MAX, Node, Piece};
use super::text::Lines;
use crate::error::Malformed;

type Step<T> = std::result::Result<T, Malformed>;

/// A JSON text being read, with the numbers of its lines.
pub(super) struct Json<'a> {
    text: &'a str,
    json: Jiter<'a>,
    lines: Lines<'a>,
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Json { text, json: Jiter::new(text.as_bytes()), lines: Lines::new(text.as_bytes()) }
    }

    /// The line that the next piece stands on, once it was peeked at.
    pub(super) fn line(&mut self) -> u64 {
        self.lines.line_of(self.json.current_index())
    }

    pub(super) fn peek(&mut self) -> Step<Peek> {
        let peek = self.json.peek();
        self.checked(peek)
    }

    /// Enters an array and gives its first element's peek.
    pub(super) fn enter_array(&mut self) -> Step<Option<Peek>> {
        let first = self.json.known_array();
        self.checked(first)
    }

    /// The next element of the array that was entered last.
    pub(super) fn next_element(&mut self) -> Step<Option<Peek>> {
        let next = self.json.array_step();
        self.checked(next)
    }

    /// Enters an object and gives its first name.
    pub(super) fn enter_object(&mut self) -> Step<Option<String>> {
        let first = self.json.known_object().map(|name| name.map(str::to_owned));
        self.checked(first)
    }

    /// The next name of the object that was entered last.
    pub(super) fn next_name(&mut self) -> Step<Option<String>> {
        let next = self.json.next_key().map(|name| name.map(str::to_owned));
        self.checked(next)
    }

    pub(super) fn finish(&mut self) -> Step<()> {
        let finish = self.json.finish();
        self.checked(finish)
    }

    /// The piece that was peeked at.
    pub(super) fn node(&mut self, peek: Peek) -> Step<Node<'a>> {
        self.nested(peek, 0)
    }

    fn nested(&mut self, peek: Peek, depth: usize) -> Step<Node<'a>> {
        let start = self.json.current_index();
        if depth > DEPTH_MAX {
            return Err(fault(
                self.line(),
                "",
                "JSON that is nested too deeply",
                format!("at most {DEPTH_MAX} levels"),
            ));
        }
        let kind = match peek {
            Peek::Null => {
                let read = self.json.known_null();
                self.checked(read)?;
                Piece::Nil
            }
            Peek::True | Peek::False => {
                let read = self.json.known_bool(peek);
                Piece::Bool(self.checked(read)?)
            }
            Peek::String => {
                let read = self.json.known_str().map(|text| text.len());
                let length = self.checked(read)?;
                let end = self.json.current_index();
                // Without escapes the text stands there as it is.
                if end - start == length + 2 {
                    Piece::Text(Cow::Borrowed(&self.text[start + 1..end - 1]))
                } else {
                    let mut again = Jiter::new(&self.text.as_bytes()[start..end]);
                    let text = again.next_str().map(str::to_owned);
                    Piece::Text(Cow::Owned(self.checked(text)?))
                }
            }
            Peek::Array => {
                let mut items = Vec::new();
                let mut item = self.enter_array()?;
                while let Some(peek) = item {
                    items.push(self.nested(peek, depth + 1)?);
                    item = self.next_element()?;
                }
                Piece::Seq(items)
            }
            Peek::Object => {
                let mut entries = Vec::new();
                let mut name = self.enter_object()?;
                while let Some(text) = name {
                    let peek = self.peek()?;
                    let value = self.nested(peek, depth + 1)?;
                    let key = Node { raw: "", kind: Piece::Text(Cow::Owned(text)) };
                    entries.push((key, value));
                    name = self.next_name()?;
                }
                Piece::Map(entries)
            }
            _ => {
                let read = self.json.known_number_bytes(peek).map(|_| ());
                self.checked(read)?;
                Piece::Number
            }
        };
        Ok(Node { raw: &self.text[start..self.json.current_index()], kind })
    }

    fn checked<T>(&mut self, read: std::result::Result<T, JiterError>) -> Step<T> {
        read.map_err(|error| {
            let at = error.index.min(self.text.len());
            let column = at - self.text.as_bytes()[..at].iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1) + 1;
            let line = self.lines.line_of(at);
            fault(line, "", format!("not valid JSON at column {column} ({})", error.error_type), "JSON")
        })
    }
}
