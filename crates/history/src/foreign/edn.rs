//! EDN, the notation of Clojure's data, as nodes.
//!
//! Tokens that histories do not interpret (symbols, ratios, addresses of objects) are accepted as they come, because
//! Jepsen prints its exceptions, too. Commas are blanks, `;` starts a comment, `#_` leaves out the next form.

use std::borrow::Cow;

use super::fault;
use super::node::{DEPTH_MAX, Node, Piece};
use super::text::Lines;
use crate::error::Malformed;
use crate::line::snippet;

type Step<T> = std::result::Result<T, Malformed>;

/// The bytes that no token contains: blanks, brackets, quotes and comments.
const ENDS_TOKEN: [bool; 256] = {
    let mut ends = [false; 256];
    let bytes = b"()[]{}\";, \t\n\x0b\x0c\r";
    let mut at = 0;
    while at < bytes.len() {
        ends[bytes[at] as usize] = true;
        at += 1;
    }
    ends
};

/// A cursor over EDN text.
pub(super) struct Edn<'a> {
    text: &'a str,
    at: usize,
    lines: Lines<'a>,
}

impl<'a> Edn<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Edn { text, at: 0, lines: Lines::new(text.as_bytes()) }
    }

    /// The next byte that means something; nothing at the end. Forms that are left out are read over.
    pub(super) fn peek(&mut self) -> Step<Option<u8>> {
        self.peek_within(0)
    }

    fn peek_within(&mut self, depth: usize) -> Step<Option<u8>> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' | b',' | 0x0b | 0x0c => self.at += 1,
                b';' => {
                    let end = memchr::memchr(b'\n', &bytes[self.at..]);
                    self.at = end.map_or(bytes.len(), |end| self.at + end);
                }
                b'#' if bytes.get(self.at + 1) == Some(&b'_') => {
                    let start = self.at;
                    self.at += 2;
                    if self.form(depth + 1)?.is_none() {
                        return Err(self.fault(start, "a #_ with nothing behind it", "a form to leave out"));
                    }
                }
                _ => return Ok(Some(byte)),
            }
        }
        Ok(None)
    }

    /// Goes over the byte that was peeked at, if it is this one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let there = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The line that the cursor stands on.
    pub(super) fn line(&mut self) -> u64 {
        self.lines.line_of(self.at)
    }

    /// The next form; nothing at the end of the text or before a closing bracket.
    pub(super) fn next(&mut self) -> Step<Option<Node<'a>>> {
        self.form(0)
    }

    fn form(&mut self, depth: usize) -> Step<Option<Node<'a>>> {
        if depth > DEPTH_MAX {
            return Err(self.fault(self.at, "EDN that is nested too deeply", &format!("at most {DEPTH_MAX} levels")));
        }
        let Some(byte) = self.peek_within(depth)? else { return Ok(None) };
        let start = self.at;
        let kind = match byte {
            b')' | b']' | b'}' => return Ok(None),
            b'(' => Piece::Seq(self.items(b')', depth)?),
            b'[' => Piece::Seq(self.items(b']', depth)?),
            b'{' => {
                let items = self.items(b'}', depth)?;
                if items.len() % 2 == 1 {
                    let found = snippet(&self.text[start..self.at]);
                    return Err(self.fault(start, &found, "a map in which every key has a value"));
                }
                Piece::Map(pairs(items))
            }
            b'"' => Piece::Text(self.string()?),
            b'#' => self.dispatch(depth)?,
            b'\\' => {
                self.at += 1;
                // The character itself may be a bracket; its name may go on.
                self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
                self.token();
                Piece::Other
            }
            _ => match self.token() {
                "nil" => Piece::Nil,
                "true" => Piece::Bool(true),
                "false" => Piece::Bool(false),
                token => match token.strip_prefix(':') {
                    Some(word) => Piece::Keyword(word),
                    None if is_number(token) => Piece::Number,
                    None => Piece::Other,
                },
            },
        };
        Ok(Some(Node { raw: &self.text[start..self.at], kind }))
    }

    fn items(&mut self, end: u8, depth: usize) -> Step<Vec<Node<'a>>> {
        let start = self.at;
        self.at += 1;
        let mut items = Vec::new();
        while let Some(item) = self.form(depth + 1)? {
            items.push(item);
        }
        if self.take(end) {
            return Ok(items);
        }
        let open = char::from(self.text.as_bytes()[start]);
        match self.text[self.at..].chars().next() {
            Some(found) => {
                Err(self.fault(self.at, &format!("a {found:?} that closes no bracket"), &format!("{:?}", end as char)))
            }
            None => Err(self.fault(start, &format!("a {open:?} that is never closed"), &format!("{:?}", end as char))),
        }
    }

    /// What stands behind `#`: a set, a tag and its form, or `##Inf` and its like.
    fn dispatch(&mut self, depth: usize) -> Step<Piece<'a>> {
        let start = self.at;
        self.at += 1;
        match self.text.as_bytes().get(self.at) {
            Some(b'{') => {
                self.items(b'}', depth)?;
                Ok(Piece::Other)
            }
            Some(b'#') => {
                self.at += 1;
                self.token();
                Ok(Piece::Other)
            }
            _ => {
                self.token();
                match self.form(depth + 1)? {
                    Some(inner) => Ok(Piece::Tagged(Box::new(inner))),
                    None => Err(self.fault(start, "a tag with nothing behind it", "the form that it belongs to")),
                }
            }
        }
    }

    /// The characters up to the next blank, bracket, quote or comment.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| ENDS_TOKEN[byte as usize]).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn string(&mut self) -> Step<Cow<'a, str>> {
        let start = self.at;
        self.at += 1;
        let from = self.at;
        let bytes = self.text.as_bytes();
        let mut unescaped: Option<String> = None;
        let mut plain_from = from;
        loop {
            let Some(step) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) else {
                return Err(self.fault(start, "a string that is never closed", "a closing quote"));
            };
            self.at += step;
            let plain = &self.text[plain_from..self.at];
            if self.take(b'"') {
                return Ok(match unescaped {
                    None => Cow::Borrowed(plain),
                    Some(text) => Cow::Owned(text + plain),
                });
            }
            let text = unescaped.get_or_insert_default();
            text.push_str(plain);
            let escape = self.at;
            match self.escaped() {
                Some(character) => text.push(character),
                None => {
                    let found: String = self.text[escape..].chars().take(6).collect();
                    return Err(self.fault(escape, &format!("the escape {}", snippet(&found)), "one that EDN has"));
                }
            }
            plain_from = self.at;
        }
    }

    /// The character that a backslash in a string stands for.
    fn escaped(&mut self) -> Option<char> {
        let bytes = self.text.as_bytes();
        let name = *bytes.get(self.at + 1)?;
        self.at += 2;
        Some(match name {
            b't' => '\t',
            b'r' => '\r',
            b'n' => '\n',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'\'' | b'/' => char::from(name),
            b'u' => {
                let first = self.code_unit()?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first);
                }
                if !(self.take(b'\\') && self.take(b'u')) {
                    return None;
                }
                let second = self.code_unit().filter(|second| (0xdc00..0xe000).contains(second))?;
                char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?
            }
            _ => return None,
        })
    }

    fn code_unit(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let unit = u32::from_str_radix(&self.text[self.at..self.at + 4], 16).ok()?;
        self.at += 4;
        Some(unit)
    }

    fn fault(&mut self, at: usize, found: &str, expected: &str) -> Malformed {
        fault(self.lines.line_of(at), "", found, expected)
    }
}

fn pairs(items: Vec<Node>) -> Vec<(Node, Node)> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

/// An optional sign, digits, perhaps a fraction and an exponent, perhaps an N or M.
fn is_number(token: &str) -> bool {
    let digits = |text: &mut &[u8]| {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *text = &text[count..];
        count > 0
    };
    let mut rest = token.strip_prefix(['+', '-']).unwrap_or(token).as_bytes();
    if !digits(&mut rest) {
        return false;
    }
    if let [b'.', after @ ..] = rest {
        rest = after;
        digits(&mut rest);
    }
    if let [b'e' | b'E', after @ ..] = rest {
        rest = after.strip_prefix(b"+").or(after.strip_prefix(b"-")).unwrap_or(after);
        if !digits(&mut rest) {
            return false;
        }
    }
    matches!(rest, [] | [b'N'] | [b'M'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Node<'_> {
        Edn::new(text).next().unwrap().unwrap()
    }

    #[test]
    fn numbers_are_told_from_symbols_and_ratios() {
        for number in ["0", "-1", "+1", "12N", "1.5", "1.", "1.5M", "1e9", "-1.5E-3"] {
            assert!(matches!(only(number).kind, Piece::Number), "{number}");
        }
        for other in ["-", "+", "1/2", "0x1f", "1e", "1.5.2", "a1", "##Inf", "\\a", "\\[", "\\newline", "#{1 2}"] {
            assert!(matches!(only(other).kind, Piece::Other), "{other}");
        }
    }

    #[test]
    fn blanks_comments_and_what_is_left_out_stand_for_nothing() {
        let form = only("; a comment\n, [1, ; one\n #_ 2 #_#_ 3 4 5,,] 6");
        assert_eq!(form.seq().unwrap().iter().map(|item| item.raw).collect::<Vec<_>>(), ["1", "5"]);
    }

    #[test]
    fn strings_are_unescaped() {
        let form = only(r#""a\n\"\\\u00e9\ud83d\ude00é""#);
        assert_eq!(form.word(), Some("a\n\"\\é😀é"));
    }

    #[test]
    fn a_tag_does_not_hide_what_it_stands_before() {
        let form = only("#jepsen.history.Op{:process 1, :time #inst \"2024-01-01\"}");
        assert_eq!(form.get("process").and_then(Node::integer), Some(1));
    }
}
