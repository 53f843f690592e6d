//! The lines that are no transaction: the header, and the versions of a key.

use jiter::Peek;
use rustc_hash::FxHashSet;

use super::{Field, Line, Step, add_field, field_name, fields_text, name_of, snippet};
use crate::history::History;
use crate::value::Value;

impl Line<'_> {
    pub(super) fn read_header(&mut self, history: &mut History, first: Option<(Field, String)>) -> Step<()> {
        if self.number != 1 {
            return Err(
                self.whole("a header line in the middle of the file".into(), "the header only on line 1".into())
            );
        }
        history.header.line = self.number;
        let mut fields = Vec::new();
        let mut seen = 0u16;
        let mut name = first;
        while let Some((field, other)) = name {
            if seen & field as u16 != 0 {
                return Err(self.twice(field));
            }
            seen |= field as u16;
            let peek = self.peek()?;
            match field {
                Field::Isolde => {
                    let raw = self.raw(peek, "isolde")?;
                    if raw != "\"history\"" {
                        return Err(self.fault("isolde", snippet(raw), "\"history\"".into()));
                    }
                }
                Field::Version => {
                    let raw = self.raw(peek, "version")?;
                    if raw != "1" {
                        return Err(self.fault(
                            "version",
                            snippet(raw),
                            "1, the only version that this program reads".into(),
                        ));
                    }
                }
                Field::Initial => self.initial(history, peek)?,
                Field::Meta => history.header.meta = Some(self.raw(peek, "meta")?.into()),
                _ => {
                    let name = field_name(field, &other);
                    let raw = self.raw(peek, name)?;
                    add_field(&mut fields, name, raw);
                }
            }
            let next = self.json.next_key().map(|name| name.map(name_of));
            name = next.map_err(|e| self.broken(&e))?;
        }
        if seen & Field::Isolde as u16 == 0 {
            return Err(self
                .whole("a header without \"isolde\"".into(), "{\"isolde\": \"history\", \"version\": 1, ...}".into()));
        }
        history.header.fields = fields_text(fields);
        self.finish()
    }

    fn initial(&mut self, history: &mut History, peek: Peek) -> Step<()> {
        const EXPECTED: &str = "an object from key to value, or an array of [key, value] pairs";
        let mut listed = FxHashSet::default();
        match peek {
            Peek::Object => {
                history.header.spelled = true;
                let first = self.json.known_object().map(|name| name.map(str::to_owned));
                let mut name = first.map_err(|e| self.broken(&e))?;
                while let Some(key) = name {
                    let peek = self.peek()?;
                    let value = self.value(history, peek, || format!("initial.{key}"))?;
                    let key = history.atoms.text(&key);
                    self.add_initial(history, &mut listed, key, value)?;
                    let next = self.json.next_key().map(|name| name.map(str::to_owned));
                    name = next.map_err(|e| self.broken(&e))?;
                }
            }
            Peek::Array => {
                let first = self.json.known_array();
                let mut item = first.map_err(|e| self.broken(&e))?;
                while let Some(peek) = item {
                    if peek != Peek::Array {
                        return Err(self.wrong(peek, "initial", EXPECTED));
                    }
                    let pair = self.json.known_array();
                    let Some(peek) = pair.map_err(|e| self.broken(&e))? else {
                        return Err(self.fault("initial", "an empty pair".into(), EXPECTED.into()));
                    };
                    let key = self.name(history, peek, || "initial".into())?;
                    let Some(peek) = self.step()? else {
                        return Err(self.fault("initial", "a pair without a value".into(), EXPECTED.into()));
                    };
                    let value = self.value(history, peek, || "initial".into())?;
                    if let Some(peek) = self.step()? {
                        return Err(self.wrong(peek, "initial", "the end of the pair"));
                    }
                    self.add_initial(history, &mut listed, key, value)?;
                    item = self.step()?;
                }
            }
            _ => return Err(self.wrong(peek, "initial", EXPECTED)),
        }
        Ok(())
    }

    fn add_initial(&self, history: &mut History, listed: &mut FxHashSet<Value>, key: Value, value: Value) -> Step<()> {
        if !listed.insert(key) {
            return Err(self.fault("initial", format!("{} twice", history.json(key)), "each key once".into()));
        }
        history.header.initial.push((key, value));
        Ok(())
    }

    pub(super) fn read_versions(&mut self, history: &mut History) -> Step<()> {
        const EXPECTED: &str = "[key, [oldest value, ..., newest value]]";
        let peek = self.peek()?;
        if peek != Peek::Array {
            return Err(self.wrong(peek, "versions", EXPECTED));
        }
        let first = self.json.known_array();
        let Some(peek) = first.map_err(|e| self.broken(&e))? else {
            return Err(self.fault("versions", "[]".into(), EXPECTED.into()));
        };
        let key = self.name(history, peek, || "versions[0]".into())?;
        let Some(peek) = self.step()? else {
            return Err(self.fault("versions", "a key alone".into(), EXPECTED.into()));
        };
        if peek != Peek::Array {
            return Err(self.wrong(peek, "versions[1]", "an array of values, oldest first"));
        }
        let mut values = Vec::new();
        let first = self.json.known_array();
        let mut item = first.map_err(|e| self.broken(&e))?;
        while let Some(peek) = item {
            let at = values.len();
            values.push(self.scalar(history, peek, || format!("versions[1][{at}]"))?);
            item = self.step()?;
        }
        if let Some(peek) = self.step()? {
            return Err(self.wrong(peek, "versions", EXPECTED));
        }
        let next = self.json.next_key().map(|name| name.map(str::to_owned));
        if let Some(name) = next.map_err(|e| self.broken(&e))? {
            return Err(self.whole(format!("the field {name:?} on a versions line"), "nothing but \"versions\"".into()));
        }
        self.finish()?;
        let key = history.keys.number(key);
        history.versions.push((key, values));
        Ok(())
    }
}
