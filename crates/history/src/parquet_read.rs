//! Parquet to histories: what the columns could hold and JSON Lines would refuse is refused here, by row and field.

use std::io::Read;
use std::panic::catch_unwind;
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::error::{Error, Malformed, Result, one_line};
use crate::foreign::read_whole;
use crate::history::{History, NO_TIME, Op, OpKind, Space, Status};
use crate::jsonl_read::read_part;
use crate::line::{read_extra, read_name, read_op as read_op_json, read_value};
use crate::parquet::{METADATA_KEY, ROWS_PER_GROUP};
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
    let load = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
    let metadata = catch_unwind(load).map_err(|_| unreadable("a damaged footer"))?.map_err(unreadable)?;
    let mut history = read_lines(&metadata)?;
    let groups = metadata.metadata().row_groups();
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
                    let (file, metadata, first_row) = (file.clone(), metadata.clone(), first_rows[group]);
                    scope.spawn(move || read_group(file, metadata, group, first_row))
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
fn read_lines(metadata: &ArrowReaderMetadata) -> Result<History> {
    let lines = metadata.schema().metadata().get(METADATA_KEY).cloned().unwrap_or_default();
    let mut history = read_part(lines.as_bytes()).map_err(|error| match error {
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

fn read_group(file: Bytes, metadata: ArrowReaderMetadata, group: usize, first_row: u64) -> Result<History> {
    let rows = metadata.metadata().row_group(group).num_rows().clamp(1, ROWS_PER_GROUP as i64) as usize;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
        .with_row_groups(vec![group])
        .with_batch_size(rows)
        .build()
        .map_err(unreadable)?;
    let mut history = History::default();
    for batch in reader {
        let row = first_row + history.len() as u64;
        read_batch(&mut history, &batch.map_err(unreadable)?, row)?;
    }
    Ok(history)
}

fn int8<'a>(column: &'a dyn Array, name: &str) -> Result<&'a PrimitiveArray<Int8Type>> {
    column.as_primitive_opt().ok_or_else(|| mistyped(name, "8-bit integers"))
}

fn int64<'a>(column: &'a dyn Array, name: &str) -> Result<&'a PrimitiveArray<Int64Type>> {
    column.as_primitive_opt().ok_or_else(|| mistyped(name, "64-bit integers"))
}

fn text<'a>(column: &'a dyn Array, name: &str) -> Result<&'a StringArray> {
    column.as_string_opt().ok_or_else(|| mistyped(name, "strings"))
}

fn mistyped(column: &str, expected: &str) -> Error {
    malformed(format!("the column {column:?} has another type"), expected)
}

/// Looks up a column of a batch or of the operations' struct.
fn column<'a>(found: Option<&'a ArrayRef>, name: &str) -> Result<&'a dyn Array> {
    found.map(AsRef::as_ref).ok_or_else(|| malformed(format!("no column {name:?}"), "the columns of docs/parquet.md"))
}

/// Names read back: the integer column where it has a value, else JSON text of a string or an integer.
struct NameReader<'a> {
    int: &'a PrimitiveArray<Int64Type>,
    text: &'a StringArray,
}

impl NameReader<'_> {
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

fn read_batch(history: &mut History, batch: &RecordBatch, first_row: u64) -> Result<()> {
    let of = |name: &str| column(batch.column_by_name(name), name);
    let id = NameReader { int: int64(of("id")?, "id")?, text: text(of("id_text")?, "id_text")? };
    let session =
        NameReader { int: int64(of("session")?, "session")?, text: text(of("session_text")?, "session_text")? };
    let status = int8(of("status")?, "status")?;
    let (start, end) = (int64(of("start")?, "start")?, int64(of("end")?, "end")?);
    let extra = text(of("extra")?, "extra")?;
    let ops = of("ops")?.as_list_opt::<i32>().ok_or_else(|| mistyped("ops", "lists of structs"))?;
    let items = ops.values().as_struct_opt().ok_or_else(|| mistyped("ops", "lists of structs"))?;
    let item = |name: &str| column(items.column_by_name(name), name);
    let operations = Operations {
        kind: int8(item("kind")?, "kind")?,
        key: NameReader { int: int64(item("key")?, "key")?, text: text(item("key_text")?, "key_text")? },
        value: int64(item("value")?, "value")?,
        detail: text(item("detail")?, "detail")?,
    };
    let offsets = ops.value_offsets();
    for row in 0..batch.num_rows() {
        let place = |field| Place { row: first_row + row as u64, op: None, field };
        if ops.is_null(row) {
            return Err(place("ops").wrong("null", "a list of operations"));
        }
        let (first, last) = (offsets[row] as usize, offsets[row + 1] as usize);
        for at in first..last {
            let place = Place { op: Some(at - first), ..place("kind") };
            if items.is_null(at) {
                return Err(place.wrong("null", "an operation"));
            }
            let op = operations.read(history, at, place)?;
            history.push_op(op);
        }
        let id = id.get(history, row, &place("id"))?.unwrap_or(Value::MISSING);
        let session = session.get(history, row, &place("session"))?;
        let session = session.ok_or_else(|| place("session").wrong("null", NAME))?;
        let session = history.sessions.number(session);
        let status = match status.is_valid(row).then(|| status.value(row)) {
            Some(0) => Status::Committed,
            Some(1) => Status::Aborted,
            Some(2) => Status::Unknown,
            other => return Err(place("status").wrong(number_or_null(other), "0, 1 or 2")),
        };
        let time = |column: &PrimitiveArray<Int64Type>, field| match column.is_valid(row).then(|| column.value(row)) {
            None => Ok(NO_TIME),
            Some(NO_TIME) => Err(place(field).wrong(NO_TIME.to_string(), "a time after -2^63, or null")),
            Some(time) => Ok(time),
        };
        let (start, end) = (time(start, "start")?, time(end, "end")?);
        if start != NO_TIME && end != NO_TIME && end < start {
            return Err(place("end").wrong(end.to_string(), format!("a time not before \"start\" ({start})")));
        }
        if extra.is_valid(row) {
            let extra = read_extra(history, extra.value(row)).map_err(|error| place("extra").of(error))?;
            history.extras.push((history.len() as u32, extra));
        }
        history.push_txn(id, session, status, start, end, 0);
    }
    Ok(())
}

fn number_or_null(number: Option<i8>) -> String {
    number.map_or_else(|| "null".into(), |number| number.to_string())
}

/// The columns of the operations.
struct Operations<'a> {
    kind: &'a PrimitiveArray<Int8Type>,
    key: NameReader<'a>,
    value: &'a PrimitiveArray<Int64Type>,
    detail: &'a StringArray,
}

impl Operations<'_> {
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
