//! Parquet to histories: what the columns could hold and JSON Lines would refuse is refused here, by row and field.

use std::io::Read;
use std::panic::catch_unwind;
use std::thread;

use bytes::Bytes;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use crate::error::{Error, Malformed, Result, one_line};
use crate::foreign::read_whole;
use crate::history::{History, NO_TIME, Op, OpKind, Space, Status};
use crate::jsonl_read::read_part;
use crate::line::{read_extra, read_name, read_op as read_op_json, read_value};
use crate::parquet::METADATA_KEY;
use crate::parquet_columns::{Column, Group, Lists, Texts, Wrong, uneven};
use crate::reading::Reading;
use crate::value::Value;

fn malformed(found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Malformed(Malformed {
        line: 0,
        field: String::new(),
        found: one_line(&found.into()),
        expected: expected.into(),
        transactions_before: 0,
    })
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    malformed(format!("not a readable Parquet file ({error})"), "a history written by 'isolde convert'")
}

/// Reads a history from Parquet, its row groups on `threads` threads.
pub fn read_parquet(
    input: impl Read,
    threads: usize,
    reading: &Reading,
    mut keep_on: impl FnMut() -> bool,
) -> Result<History> {
    // Threads that shared the file would share its position, too.
    let file = Bytes::from(read_whole(input, reading, &mut keep_on)?);
    // The library panics on some damaged files; that is one more way of being unreadable.
    let open = || SerializedFileReader::new(file.clone());
    let file = &catch_unwind(open).map_err(|_| unreadable("a damaged footer"))?.map_err(unreadable)?;
    let mut history = read_lines(file)?;
    let groups = file.metadata().row_groups();
    let unpacked = groups.iter().map(|group| u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX));
    reading.check_size(unpacked.fold(0, u64::saturating_add))?;
    let first_rows: Vec<u64> = groups
        .iter()
        .scan(0u64, |next, group| {
            let first = *next;
            *next = next.saturating_add(u64::try_from(group.num_rows()).unwrap_or(0));
            Some(first)
        })
        .collect();
    let mut next = 0;
    while next < first_rows.len() {
        if !keep_on() {
            return Err(Error::Interrupted);
        }
        let wave = next..(next + threads.max(1)).min(first_rows.len());
        next = wave.end;
        let parts: Vec<Result<History>> = thread::scope(|scope| {
            let workers: Vec<_> = wave
                .map(|group| {
                    let first_row = first_rows[group];
                    scope.spawn(move || read_group(file, group, first_row))
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap_or_else(|_| Err(unreadable("damaged pages")))).collect()
        });
        for part in parts {
            history.append(part?)?;
        }
    }
    history.finish()?;
    Ok(history)
}

/// What belongs to no transaction: the header and the version chains.
fn read_lines(file: &SerializedFileReader<Bytes>) -> Result<History> {
    let mut history = read_part(metadata_lines(file)?.as_bytes()).map_err(|error| match error {
        Error::Malformed(wrong) => malformed(format!("the metadata {METADATA_KEY:?} has {wrong}"), "its JSON Lines"),
        other => other,
    })?;
    if !history.is_empty() {
        let expected = "only the header and versions lines there";
        return Err(malformed(format!("a transaction in the metadata {METADATA_KEY:?}"), expected));
    }
    // Lines of the metadata are no lines of the file.
    history.header.line = 0;
    Ok(history)
}

fn metadata_lines(file: &SerializedFileReader<Bytes>) -> Result<String> {
    let pairs = file.metadata().file_metadata().key_value_metadata().map_or(&[][..], |pairs| pairs);
    let of = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    if let Some(lines) = of(METADATA_KEY) {
        return Ok(lines);
    }
    // Arrow keeps a schema of its own, in Base64, in which earlier versions hid the lines.
    let hidden = of("ARROW:schema")
        .is_some_and(|schema| ["aXNvbGRl", "lzb2xkZ", "pc29sZG"].iter().any(|shifted| schema.contains(shifted)));
    if hidden {
        let found = format!("no metadata {METADATA_KEY:?} outside of the Arrow schema");
        return Err(malformed(found, "it in the file's own metadata; convert the history to Parquet again"));
    }
    Ok(String::new())
}

fn wrong(found: Wrong) -> Error {
    match found {
        Wrong::Missing(name) => malformed(format!("no column {name:?}"), "the columns of docs/parquet.md"),
        Wrong::Mistyped(name, expected) => malformed(format!("the column {name:?} has another type"), expected),
        Wrong::Damaged(error) => unreadable(error),
    }
}

/// Names read back: the integer column where it has a value, else JSON text of a string or an integer.
struct NameReader {
    int: Column<i64>,
    text: Texts,
}

impl NameReader {
    fn of(group: &Group<'_>, list: Option<&str>, name: &str) -> std::result::Result<NameReader, Wrong> {
        let text = group.texts(list, &format!("{name}_text"))?;
        Ok(NameReader { int: group.int64(list, name)?, text })
    }

    /// The name in a row of these columns; nothing where both are null.
    fn get(&self, history: &mut History, row: usize, place: &Place<'_>) -> Result<Option<Value>> {
        match (self.int.is_valid(row), self.text.is_valid(row)) {
            (true, false) => Ok(Some(history.atoms.integer(self.int.value(row)))),
            (false, true) => read_name(history, self.text.value(row)).map(Some).map_err(|error| place.of(error)),
            (false, false) => Ok(None),
            (true, true) => Err(place.wrong("in both of its columns", "one of them to be null")),
        }
    }
}

/// What a message is about: a field of a row.
#[derive(Clone, Copy)]
struct Place<'a> {
    row: u64,
    /// The operation in that row, where the field is one of an operation.
    op: Option<usize>,
    field: &'a str,
}

impl Place<'_> {
    fn wrong(&self, found: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Malformed(Malformed {
            line: 0,
            field: self.to_string(),
            found: one_line(&found.into()),
            expected: expected.into(),
            transactions_before: self.row,
        })
    }

    /// The operation, for messages about what kind it is of.
    fn operation(&self) -> String {
        format!("row {}, ops[{}]", self.row, self.op.unwrap_or(0))
    }

    /// The same error, of this place.
    fn of(&self, error: Error) -> Error {
        match error {
            Error::Malformed(Malformed { found, expected, .. }) => self.wrong(found, expected),
            other => other,
        }
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.op {
            Some(op) => write!(f, "row {}, ops[{op}].{}", self.row, self.field),
            None => write!(f, "row {}, {}", self.row, self.field),
        }
    }
}

const NAME: &str = "a string or an integer";

fn read_group(file: &SerializedFileReader<Bytes>, place: usize, first_row: u64) -> Result<History> {
    let group = Group::of(file, place).map_err(unreadable)?;
    let of = |name: &str| NameReader::of(&group, None, name).map_err(wrong);
    let (id, session) = (of("id")?, of("session")?);
    let status = group.int8(None, "status").map_err(wrong)?;
    let starts = group.int64(None, "start").map_err(wrong)?;
    let ends = group.int64(None, "end").map_err(wrong)?;
    let extra = group.texts(None, "extra").map_err(wrong)?;
    let operations = Operations::of(&group).map_err(wrong)?;
    let mut history = History::default();
    for row in 0..group.rows() {
        let place = |field| Place { row: first_row + row as u64, op: None, field };
        if operations.lists.is_null(row) {
            return Err(place("ops").wrong("null", "a list of operations"));
        }
        let (first, last) = (operations.lists.offsets[row], operations.lists.offsets[row + 1]);
        for at in first..last {
            let place = Place { op: Some(at - first), ..place("kind") };
            if operations.lists.item_is_null(at) {
                return Err(place.wrong("null", "an operation"));
            }
            let op = operations.read(&mut history, at, place)?;
            history.push_op(op);
        }
        let id = id.get(&mut history, row, &place("id"))?.unwrap_or(Value::MISSING);
        let session = session.get(&mut history, row, &place("session"))?;
        let session = session.ok_or_else(|| place("session").wrong("null", NAME))?;
        let session = history.sessions.number(session);
        let status = match status.is_valid(row).then(|| status.value(row)) {
            Some(0) => Status::Committed,
            Some(1) => Status::Aborted,
            Some(2) => Status::Unknown,
            other => return Err(place("status").wrong(number_or_null(other), "0, 1 or 2")),
        };
        let time = |column: &Column<i64>, field| match column.is_valid(row).then(|| column.value(row)) {
            None => Ok(NO_TIME),
            Some(NO_TIME) => Err(place(field).wrong(NO_TIME.to_string(), "a time after -2^63, or null")),
            Some(time) => Ok(time),
        };
        let (start, end) = (time(&starts, "start")?, time(&ends, "end")?);
        if start != NO_TIME && end != NO_TIME && end < start {
            return Err(place("end").wrong(end.to_string(), format!("a time not before \"start\" ({start})")));
        }
        if extra.is_valid(row) {
            let extra = read_extra(&mut history, extra.value(row)).map_err(|error| place("extra").of(error))?;
            history.extras.push((history.len() as u32, extra));
        }
        history.push_txn(id, session, status, start, end, 0);
    }
    Ok(history)
}

fn number_or_null(number: Option<i8>) -> String {
    number.map_or_else(|| "null".into(), |number| number.to_string())
}

/// The columns of the operations.
struct Operations {
    lists: Lists,
    kind: Column<i8>,
    key: NameReader,
    value: Column<i64>,
    detail: Texts,
}

impl Operations {
    fn of(group: &Group<'_>) -> std::result::Result<Operations, Wrong> {
        let list = Some("ops");
        let ops = Operations {
            kind: group.int8(list, "kind")?,
            key: NameReader::of(group, list, "key")?,
            value: group.int64(list, "value")?,
            detail: group.texts(list, "detail")?,
            lists: group.lists("ops", "kind")?,
        };
        let lengths = [ops.kind.len(), ops.key.int.len(), ops.key.text.len(), ops.value.len(), ops.detail.len()];
        if lengths.iter().all(|&length| length == ops.lists.items()) { Ok(ops) } else { Err(uneven()) }
    }
}

impl Operations {
    fn read(&self, history: &mut History, at: usize, place: Place<'_>) -> Result<Op> {
        let kind = match self.kind.is_valid(at).then(|| self.kind.value(at)) {
            Some(0) => OpKind::Read,
            Some(1) => OpKind::Write,
            Some(2) => OpKind::Append,
            Some(kind @ 3..=5) => return self.told_by_detail(history, kind, at, place),
            other => return Err(place.wrong(number_or_null(other), "0 to 5")),
        };
        let key_place = Place { field: "key", ..place };
        let name = self.key.get(history, at, &key_place)?.ok_or_else(|| key_place.wrong("null", NAME))?;
        let value_place = Place { field: "value", ..place };
        let value = match (self.value.is_valid(at), self.detail.is_valid(at)) {
            (true, false) => history.atoms.integer(self.value.value(at)),
            (false, true) => read_value(history, self.detail.value(at)).map_err(|error| value_place.of(error))?,
            (false, false) => Value::NULL,
            (true, true) => return Err(value_place.wrong("there beside a \"detail\"", "one of them to be null")),
        };
        if value.is_list() && kind != OpKind::Read {
            return Err(value_place.wrong("a list", "a single value"));
        }
        let key = history.keys.number(name);
        let space = match kind {
            OpKind::Append => Some(Space::Lists),
            OpKind::Read if value.is_list() => Some(Space::Lists),
            OpKind::Read if value == Value::NULL => None,
            _ => Some(Space::Registers),
        };
        if let Some(space) = space {
            history.note_space(space, 0, || place.operation());
        }
        Ok(match kind {
            OpKind::Read => Op::Read(key, value),
            OpKind::Append => Op::Append(key, value),
            _ => Op::Write(key, value),
        })
    }

    /// An operation that stands in `detail` as a whole, and must be of the kind that `kind` says.
    fn told_by_detail(&self, history: &mut History, kind: i8, at: usize, place: Place<'_>) -> Result<Op> {
        let detail = Place { field: "detail", ..place };
        let (expected, space) = match kind {
            3 => ("a compare-and-set", Some(Space::Registers)),
            4 => ("a scan", None),
            _ => ("an SQL statement", Some(Space::Sql)),
        };
        if self.detail.is_null(at) {
            return Err(detail.wrong("null", expected));
        }
        if let Some(space) = space {
            history.note_space(space, 0, || place.operation());
        }
        let op = read_op_json(history, self.detail.value(at), 0).map_err(|error| detail.of(error))?;
        match (kind, op) {
            (3, Op::Cas(..)) | (4, Op::Scan(_)) | (5, Op::Sql(_)) => Ok(op),
            _ => Err(detail.wrong("another operation", expected)),
        }
    }
}
