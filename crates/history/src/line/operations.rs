//! The operations of a transaction's line.

use jiter::Peek;

use super::{Line, Step, snippet};
use crate::history::{Cas, History, Op, Space};
use crate::value::Value;

#[derive(Clone, Copy)]
enum StatementKind {
    Scan,
    Sql,
}

impl Line<'_> {
    pub(super) fn ops(&mut self, history: &mut History, peek: Peek) -> Step<()> {
        if peek != Peek::Array {
            return Err(self.wrong(peek, "ops", "an array of operations"));
        }
        let first = self.json.known_array();
        let mut item = first.map_err(|e| self.broken(&e))?;
        let mut at = 0;
        while let Some(peek) = item {
            let op = self.op(history, peek, at)?;
            history.push_op(op);
            at += 1;
            item = self.step()?;
        }
        Ok(())
    }

    pub(super) fn op(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Op> {
        match peek {
            Peek::Array => self.keyed_op(history, at),
            Peek::Object => self.statement(history, peek, at),
            _ => {
                let field = format!("ops[{at}]");
                Err(self.wrong(peek, &field, "an operation: an array such as [\"r\", \"x\", 1], or an object"))
            }
        }
    }

    fn keyed_op(&mut self, history: &mut History, at: usize) -> Step<Op> {
        const EXPECTED: &str = "\"r\", \"w\", \"a\" or \"cas\"";
        let place = |part: usize| format!("ops[{at}][{part}]");
        let first = self.json.known_array();
        let Some(peek) = first.map_err(|e| self.broken(&e))? else {
            return Err(self.fault(
                &format!("ops[{at}]"),
                "[]".into(),
                "an operation such as [\"r\", \"x\", 1]".into(),
            ));
        };
        if peek != Peek::String {
            return Err(self.wrong(peek, &place(0), EXPECTED));
        }
        #[derive(Clone, Copy)]
        enum Name {
            Read,
            Write,
            Append,
            Cas,
        }
        let read = self.json.known_str().map(|text| match text {
            "r" => Ok(Name::Read),
            "w" => Ok(Name::Write),
            "a" => Ok(Name::Append),
            "cas" => Ok(Name::Cas),
            other => Err(snippet(&format!("{other:?}"))),
        });
        let name = match read.map_err(|e| self.broken(&e))? {
            Ok(name) => name,
            Err(found) => return Err(self.fault(&place(0), found, EXPECTED.into())),
        };
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the key"));
        };
        let key = self.name(history, peek, || place(1))?;
        let key = history.keys.number(key);
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the value"));
        };
        let (op, space) = match name {
            Name::Read => {
                let value = self.value(history, peek, || place(2))?;
                let space = if value.is_list() {
                    Some(Space::Lists)
                } else {
                    (value != Value::NULL).then_some(Space::Registers)
                };
                (Op::Read(key, value), space)
            }
            Name::Write => (Op::Write(key, self.scalar(history, peek, || place(2))?), Some(Space::Registers)),
            Name::Append => (Op::Append(key, self.scalar(history, peek, || place(2))?), Some(Space::Lists)),
            Name::Cas => (Op::Cas(key, self.cas(history, peek, at)?), Some(Space::Registers)),
        };
        if let Some(peek) = self.step()? {
            return Err(self.wrong(peek, &format!("ops[{at}]"), "the end of the operation"));
        }
        if let Some(space) = space {
            history.note_space(space, self.number, || format!("ops[{at}]"));
        }
        Ok(op)
    }

    fn cas(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Cas> {
        let place = |part: usize| format!("ops[{at}][{part}]");
        let expected = self.scalar(history, peek, || place(2))?;
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "the new value"));
        };
        let new = self.scalar(history, peek, || place(3))?;
        let Some(peek) = self.step()? else {
            return Err(self.missing(at, "whether it was applied"));
        };
        if !matches!(peek, Peek::True | Peek::False) {
            return Err(self.wrong(peek, &place(4), "true or false: whether it was applied"));
        }
        let read = self.json.known_bool(peek);
        let applied = read.map_err(|e| self.broken(&e))?;
        let mut current = Value::MISSING;
        // The look-ahead is taken back by hand: the caller asks for the end of the array itself.
        if !applied && self.next_is_comma() {
            let Some(peek) = self.step()? else {
                return Err(self.missing(at, "the current value"));
            };
            current = self.scalar(history, peek, || place(5))?;
            if current == expected {
                return Err(self.fault(
                    &place(5),
                    history.json(current),
                    "a current value that differs from the expected one, since the operation failed".into(),
                ));
            }
        }
        Ok(Cas { expected, new, current, applied })
    }

    fn next_is_comma(&self) -> bool {
        let rest = &self.text[self.json.current_index()..];
        rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b',')
    }

    /// A scan, an SQL statement or a call of a procedure: the fields are checked, the JSON text is kept.
    fn statement(&mut self, history: &mut History, peek: Peek, at: usize) -> Step<Op> {
        let raw = self.raw(peek, "ops")?;
        let place = format!("ops[{at}]");
        let mut inner = Line::new(raw.as_bytes(), self.number, true);
        let kind = inner.statement_fields(&place)?;
        let detail = history.details.len() as u32;
        history.details.push(raw.into());
        Ok(match kind {
            StatementKind::Scan => Op::Scan(detail),
            StatementKind::Sql => {
                history.note_space(Space::Sql, self.number, || place);
                Op::Sql(detail)
            }
        })
    }

    fn statement_fields(&mut self, place: &str) -> Step<StatementKind> {
        let mut kind = None;
        let mut has_rows = false;
        let first = self.json.next_object().map(|name| name.map(str::to_owned));
        let mut name = first.map_err(|e| self.broken(&e))?;
        while let Some(field) = name {
            let peek = self.peek()?;
            let path = format!("{place}.{field}");
            let (fits, expected) = match field.as_str() {
                "scan" => {
                    kind = Some(StatementKind::Scan);
                    (peek == Peek::Object, "an object that says what was asked")
                }
                "sql" => {
                    kind = Some(StatementKind::Sql);
                    (peek == Peek::String, "the statement's text")
                }
                "call" => {
                    kind = Some(StatementKind::Sql);
                    (peek == Peek::String, "the procedure's name")
                }
                "params" => {
                    (matches!(peek, Peek::Array | Peek::Object | Peek::Null), "an array or object of parameters")
                }
                "rows" => {
                    has_rows = true;
                    (matches!(peek, Peek::Array | Peek::Null), "an array of rows, or null")
                }
                "count" => (peek.is_num() || peek == Peek::Null, "the number of affected rows, or null"),
                _ => (true, ""),
            };
            if !fits {
                return Err(self.wrong(peek, &path, expected));
            }
            self.raw(peek, &path)?;
            let next = self.json.next_key().map(|name| name.map(str::to_owned));
            name = next.map_err(|e| self.broken(&e))?;
        }
        match kind {
            None => Err(self.fault(
                place,
                "an object without \"scan\", \"sql\" or \"call\"".into(),
                "a scan, an SQL statement or a call".into(),
            )),
            Some(StatementKind::Scan) if !has_rows => {
                Err(self.fault(place, "a scan without \"rows\"".into(), "the rows that came back".into()))
            }
            Some(kind) => Ok(kind),
        }
    }
}
