//! What only the whole of a history can show: that its keys are of one kind, and that no name is given twice.

use rustc_hash::FxHashMap;

use crate::error::{Malformed, Result, one_line};
use crate::history::{History, Space};
use crate::value::{Kind, Value};

impl Space {
    fn describe(self) -> &'static str {
        match self {
            Space::Registers => "registers (w, cas, reads of single values)",
            Space::Lists => "lists (a, reads of arrays)",
            Space::Sql => "SQL tables (sql)",
        }
    }

    /// The kind of keys that an initial value belongs to; `null`, absent, fits all of them.
    fn of_initial(value: Value) -> Option<Space> {
        match value {
            Value::NULL => None,
            list if list.is_list() => Some(Space::Lists),
            _ => Some(Space::Registers),
        }
    }
}

impl History {
    /// Checks what only the whole file can show, and fills in what it left to its position.
    pub fn finish(&mut self) -> Result<()> {
        self.check_one_space()?;
        for (position, id) in self.txns.id.iter_mut().enumerate() {
            if *id == Value::MISSING {
                *id = Value::small_int(position as i64).expect("a position has fewer than 18 digits");
            }
        }
        self.check_ids_unique()?;
        self.check_serials_unique()?;
        self.resolve_spelled_keys();
        Ok(())
    }

    /// A history has one kind of key space. The operations tell which; where they do not, the first initial value does.
    fn check_one_space(&self) -> Result<()> {
        if let [(first, ..), (second, line, field), ..] = &self.spaces[..] {
            return Err(Malformed {
                line: *line,
                field: field.clone(),
                found: format!("an operation on {}", second.describe()),
                expected: format!("only operations on {}, as earlier in this history", first.describe()),
                transactions_before: 0,
            }
            .into());
        }
        let of_operations = |(space, ..): &(Space, _, _)| (*space, format!("operations are on {}", space.describe()));
        let mut space = self.spaces.first().map(of_operations);
        for &(name, value) in &self.header.initial {
            let Some(own) = Space::of_initial(value) else { continue };
            let name = self.json(name);
            let found = if own == Space::Lists { "a list" } else { "a single value" };
            match &space {
                None => space = Some((own, format!("that of {name} is {found}"))),
                Some((space, _)) if *space == own => {}
                Some((space, reason)) => {
                    let expected = match space {
                        Space::Registers => "a single value",
                        Space::Lists => "a list",
                        Space::Sql => "no initial value",
                    };
                    return Err(Malformed {
                        line: self.header.line,
                        field: "initial".into(),
                        found: one_line(&format!("{found} for the key {name}")),
                        expected: one_line(&format!("{expected}, because {reason}: a history has one kind of keys")),
                        transactions_before: 0,
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    fn check_ids_unique(&self) -> Result<()> {
        let ids = &self.txns.id;
        // Files mostly number their transactions upwards, and then no table of ids is needed.
        let ascending = |w: &[Value]| match (w[0].as_small_int(), w[1].as_small_int()) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        };
        if ids.windows(2).all(ascending) {
            return Ok(());
        }
        let mut first = FxHashMap::with_capacity_and_hasher(ids.len(), Default::default());
        for (row, id) in ids.iter().enumerate() {
            if let Some(earlier) = first.insert(id.bits(), row) {
                let place = match self.txns.line[earlier] {
                    0 => String::new(),
                    line => format!(" (line {line} has it already)"),
                };
                return Err(Malformed {
                    line: u64::from(self.txns.line[row]),
                    field: "id".into(),
                    found: self.json(*id),
                    expected: format!("an id that no other transaction of the file has{place}"),
                    transactions_before: row as u64,
                }
                .into());
            }
        }
        Ok(())
    }

    fn check_serials_unique(&self) -> Result<()> {
        let mut first = FxHashMap::default();
        for (txn, extra) in &self.extras {
            let Some(serial) = extra.serial else { continue };
            if let Some(earlier) = first.insert(serial.bits(), *txn) {
                return Err(Malformed {
                    line: u64::from(self.txns.line[*txn as usize]),
                    field: "serial".into(),
                    found: self.json(serial),
                    expected: format!(
                        "a place of its own in the serialization order (transaction {} has it)",
                        self.json(self.txns.id[earlier as usize])
                    ),
                    transactions_before: u64::from(*txn),
                }
                .into());
            }
        }
        Ok(())
    }

    /// A JSON object can name the integer key 1 only as "1". Such a name means the integer key when the
    /// file has that key and has no string key of that name.
    fn resolve_spelled_keys(&mut self) {
        if !self.header.spelled {
            return;
        }
        for (name, _) in &mut self.header.initial {
            if self.keys.find(*name).is_some() {
                continue;
            }
            let Kind::Text(text) = self.atoms.kind(*name) else { continue };
            if let Some(integer) = text.parse().ok().filter(|i: &i64| i.to_string() == *text) {
                let integer = self.atoms.integer(integer);
                if self.keys.find(integer).is_some() {
                    *name = integer;
                }
            }
        }
        self.header.spelled = false;
    }
}
