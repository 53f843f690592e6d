//! Values as JSON text.

use crate::history::History;
use crate::value::{Kind, Value};

/// Writes a string with JSON's quotes and escapes.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape: Option<&[u8]> = match byte {
            b'"' => Some(b"\\\""),
            b'\\' => Some(b"\\\\"),
            b'\n' => Some(b"\\n"),
            b'\r' => Some(b"\\r"),
            b'\t' => Some(b"\\t"),
            0..=0x1f => None,
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[plain_from..at]);
        match escape {
            Some(escape) => out.extend_from_slice(escape),
            None => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        plain_from = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[plain_from..]);
    out.push(b'"');
}

/// Writes an integer in decimal.
pub(crate) fn write_int(out: &mut Vec<u8>, i: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = i.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if i < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

impl History {
    /// Writes a value as JSON.
    pub(crate) fn write_value(&self, out: &mut Vec<u8>, value: Value) {
        match self.atoms.kind(value) {
            Kind::Null | Kind::Missing => out.extend_from_slice(b"null"),
            Kind::Bool(true) => out.extend_from_slice(b"true"),
            Kind::Bool(false) => out.extend_from_slice(b"false"),
            Kind::Int(i) => write_int(out, i),
            Kind::Number(text) => out.extend_from_slice(text.as_bytes()),
            Kind::Text(text) => write_text(out, text),
            Kind::List(index) => {
                out.push(b'[');
                for (at, &element) in self.lists.get(index).iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.write_value(out, element);
                }
                out.push(b']');
            }
        }
    }

    /// A value as JSON text.
    pub fn json(&self, value: Value) -> String {
        let mut out = Vec::new();
        self.write_value(&mut out, value);
        String::from_utf8(out).expect("JSON text is made of UTF-8 pieces")
    }
}
