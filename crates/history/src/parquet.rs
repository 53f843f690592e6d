//! Histories as Parquet: one row a transaction, its operations as a list of structs.
//!
//! Integers have columns of their own, so that the usual history is made of integer columns only; every
//! other value is JSON text in the `detail` column. The header and the version chains, which belong to no
//! transaction, are JSON Lines in the file's metadata.

use std::io::{self, Read, Write};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::{Error, Malformed, Result, one_line};
use crate::history::{History, NO_TIME, Op, OpKind, Space, Status};
use crate::jsonl_read::read_part;
use crate::jsonl_write::{write_header, write_op, write_versions};
use crate::line::{read_extra, read_op as read_op_json, read_value};
use crate::parquet_columns::{Builder, Column, Group, Lists, Texts, Wrong, uneven};
use crate::value::Value;

const ROWS_PER_GROUP: usize = 1 << 17;
const METADATA_KEY: &str = "isolde";

const SCHEMA: &str = "message history {
    OPTIONAL INT64 id;
    OPTIONAL BYTE_ARRAY id_text (STRING);
    OPTIONAL INT64 session;
    OPTIONAL BYTE_ARRAY session_text (STRING);
    REQUIRED INT32 status (INTEGER(8, true));
    OPTIONAL INT64 start;
    OPTIONAL INT64 end;
    OPTIONAL BYTE_ARRAY extra (STRING);
    REQUIRED GROUP ops (LIST) {
        REPEATED GROUP list {
            REQUIRED GROUP item {
                REQUIRED INT32 kind (INTEGER(8, true));
                OPTIONAL INT64 key;
                OPTIONAL BYTE_ARRAY key_text (STRING);
                OPTIONAL INT64 value;
                OPTIONAL BYTE_ARRAY detail (STRING);
            }
        }
    }
}";

/// The header and the version chains.
fn lines(history: &History) -> String {
    let mut lines = Vec::new();
    write_header(history, &mut lines);
    for (key, values) in &history.versions {
        write_versions(history, &mut lines, *key, values);
    }
    String::from_utf8(lines).expect("JSON text is made of UTF-8 pieces")
}

/// Writes `history` as Parquet.
pub fn write_parquet(history: &History, output: impl Write + Send) -> Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema is written right"));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd")))
        .set_key_value_metadata(Some(vec![KeyValue::new(METADATA_KEY.to_owned(), lines(history))]))
        .build();
    let mut writer = SerializedFileWriter::new(output, schema, Arc::new(properties)).map_err(io_error)?;
    for first in (0..history.len()).step_by(ROWS_PER_GROUP) {
        let last = (first + ROWS_PER_GROUP).min(history.len());
        let mut group = writer.next_row_group().map_err(io_error)?;
        Columns::of(history, first as u32..last as u32).write(&mut group).map_err(io_error)?;
        group.close().map_err(io_error)?;
    }
    writer.close().map_err(io_error)?;
    Ok(())
}

fn io_error(error: parquet::errors::ParquetError) -> Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => Error::Io(*inner),
            Err(inner) => Error::Io(io::Error::other(inner)),
        },
        other => Error::Io(io::Error::other(other)),
    }
}

/// A column of names: integers in one column, everything else as text in the other.
struct NameColumns {
    int: Builder<i64>,
    text: Builder<ByteArray>,
}

impl NameColumns {
    fn new(there: i16) -> NameColumns {
        NameColumns { int: Builder::new(there), text: Builder::new(there) }
    }

    fn push(&mut self, history: &History, name: Value) {
        let int = name.as_small_int();
        self.int.push(int);
        self.text.push(int.is_none().then(|| ByteArray::from(history.json(name).as_str())));
    }

    fn push_null(&mut self) {
        self.int.push(None);
        self.text.push(None);
    }
}

/// The columns of some rows.
struct Columns {
    id: NameColumns,
    session: NameColumns,
    status: Builder<i32>,
    start: Builder<i64>,
    end: Builder<i64>,
    extra: Builder<ByteArray>,
    kind: Builder<i32>,
    key: NameColumns,
    value: Builder<i64>,
    detail: Builder<ByteArray>,
    /// Of the operations: 0 where a row begins.
    repetitions: Vec<i16>,
}

impl Columns {
    fn of(history: &History, rows: std::ops::Range<u32>) -> Columns {
        // An operation that is there has level 1, as what is null in it; what is there in it has level 2.
        let mut columns = Columns {
            id: NameColumns::new(1),
            session: NameColumns::new(1),
            status: Builder::new(0),
            start: Builder::new(1),
            end: Builder::new(1),
            extra: Builder::new(1),
            kind: Builder::new(1),
            key: NameColumns::new(2),
            value: Builder::new(2),
            detail: Builder::new(2),
            repetitions: Vec::new(),
        };
        rows.for_each(|txn| columns.push(history, txn));
        columns
    }

    fn push(&mut self, history: &History, txn: u32) {
        let row = txn as usize;
        self.id.push(history, history.txns.id[row]);
        self.session.push(history, history.sessions.name(history.txns.session[row]));
        self.status.push(Some(history.txns.status[row] as i32));
        self.start.push(Some(history.txns.start[row]).filter(|&t| t != NO_TIME));
        self.end.push(Some(history.txns.end[row]).filter(|&t| t != NO_TIME));
        self.extra.push(extra_text(history, txn).map(|text| ByteArray::from(text.as_str())));
        let ops = history.ops_of(txn);
        if ops.is_empty() {
            self.repetitions.push(0);
            self.kind.push_empty();
            self.key.int.push_empty();
            self.key.text.push_empty();
            self.value.push_empty();
            self.detail.push_empty();
        }
        for (place, op) in ops.enumerate() {
            self.repetitions.push(i16::from(place > 0));
            self.kind.push(Some(history.ops.kind[op] as i32));
            match history.op(op) {
                Op::Read(k, v) | Op::Write(k, v) | Op::Append(k, v) => {
                    self.key.push(history, history.keys.name(k));
                    let int = v.as_small_int();
                    self.value.push(int);
                    self.detail.push(int.is_none().then(|| ByteArray::from(history.json(v).as_str())));
                }
                op @ (Op::Cas(..) | Op::Scan(_) | Op::Sql(_)) => {
                    self.key.push_null();
                    self.value.push(None);
                    let mut text = Vec::new();
                    write_op(history, &mut text, op);
                    self.detail.push(Some(ByteArray::from(String::from_utf8_lossy(&text).as_ref())));
                }
            }
        }
    }

    /// Writes them in the order of the schema.
    fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    ) -> std::result::Result<(), parquet::errors::ParquetError> {
        self.id.int.write::<Int64Type>(group, None)?;
        self.id.text.write::<ByteArrayType>(group, None)?;
        self.session.int.write::<Int64Type>(group, None)?;
        self.session.text.write::<ByteArrayType>(group, None)?;
        self.status.write::<Int32Type>(group, None)?;
        self.start.write::<Int64Type>(group, None)?;
        self.end.write::<Int64Type>(group, None)?;
        self.extra.write::<ByteArrayType>(group, None)?;
        let repetitions = Some(&self.repetitions[..]);
        self.kind.write::<Int32Type>(group, repetitions)?;
        self.key.int.write::<Int64Type>(group, repetitions)?;
        self.key.text.write::<ByteArrayType>(group, repetitions)?;
        self.value.write::<Int64Type>(group, repetitions)?;
        self.detail.write::<ByteArrayType>(group, repetitions)
    }
}

fn extra_text(history: &History, txn: u32) -> Option<String> {
    let extra = history.extra(txn)?;
    let mut out = b"{".to_vec();
    if let Some(serial) = extra.serial {
        out.extend_from_slice(b"\"serial\":");
        out.extend_from_slice(history.json(serial).as_bytes());
        out.push(b',');
    }
    if let Some(snapshot) = &extra.snapshot {
        out.extend_from_slice(b"\"snapshot\":");
        out.extend_from_slice(snapshot.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(extra.fields.as_bytes());
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
    Some(String::from_utf8(out).expect("JSON text is made of UTF-8 pieces"))
}

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
pub fn read_parquet(mut input: impl Read, threads: usize, mut keep_on: impl FnMut() -> bool) -> Result<History> {
    // Threads that shared the file would share its position, too.
    let mut content = Vec::new();
    input.read_to_end(&mut content)?;
    let file = Bytes::from(content);
    // The library panics on some damaged files; that is one more way of being unreadable.
    let open = || SerializedFileReader::new(file.clone());
    let file = &catch_unwind(open).map_err(|_| unreadable("a damaged footer"))?.map_err(unreadable)?;
    let mut history = read_part(metadata_lines(file)?.as_bytes())?;
    let groups = file.num_row_groups();
    let mut next = 0;
    while next < groups {
        if !keep_on() {
            return Err(Error::Interrupted);
        }
        let wave = next..(next + threads.max(1)).min(groups);
        next = wave.end;
        let parts: Vec<Result<History>> = thread::scope(|scope| {
            let workers: Vec<_> = wave.map(|group| scope.spawn(move || read_group(file, group))).collect();
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

/// Names read back: the integer column where it has a value, else JSON text.
struct NameReader {
    int: Column<i64>,
    text: Texts,
}

impl NameReader {
    fn of(group: &Group<'_>, list: Option<&str>, name: &str) -> std::result::Result<NameReader, Wrong> {
        let text = group.texts(list, &format!("{name}_text"))?;
        Ok(NameReader { int: group.int64(list, name)?, text })
    }

    fn get(&self, history: &mut History, row: usize, what: &str) -> Result<Value> {
        if self.int.is_valid(row) {
            return Ok(history.atoms.integer(self.int.value(row)));
        }
        if self.text.is_null(row) {
            return Err(malformed(format!("no {what} in row {row}"), "a string or an integer"));
        }
        read_value(history, self.text.value(row))
    }
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

fn read_group(file: &SerializedFileReader<Bytes>, place: usize) -> Result<History> {
    let group = Group::of(file, place).map_err(unreadable)?;
    let of = |name: &str| NameReader::of(&group, None, name).map_err(wrong);
    let (id, session) = (of("id")?, of("session")?);
    let status = group.int8(None, "status").map_err(wrong)?;
    let start = group.int64(None, "start").map_err(wrong)?;
    let end = group.int64(None, "end").map_err(wrong)?;
    let extra = group.texts(None, "extra").map_err(wrong)?;
    let ops = Operations::of(&group).map_err(wrong)?;
    let mut history = History::default();
    for row in 0..group.rows() {
        if ops.lists.is_null(row) {
            return Err(malformed(format!("\"ops\" is null in row {row}"), "a list of operations"));
        }
        for at in ops.lists.offsets[row]..ops.lists.offsets[row + 1] {
            if ops.lists.item_is_null(at) {
                return Err(malformed(format!("a null among \"ops\" in row {row}"), "an operation"));
            }
            let op = read_op(&mut history, &ops, at)?;
            history.push_op(op);
        }
        let id =
            if id.int.is_null(row) && id.text.is_null(row) { Value::MISSING } else { id.get(&mut history, row, "id")? };
        let session = session.get(&mut history, row, "session")?;
        let session = history.sessions.number(session);
        let status = match status.value(row) {
            0 => Status::Committed,
            1 => Status::Aborted,
            2 => Status::Unknown,
            other => return Err(malformed(format!("\"status\" is {other} in row {row}"), "0, 1 or 2")),
        };
        let time = |column: &Column<i64>| if column.is_valid(row) { column.value(row) } else { NO_TIME };
        if time(&start) != NO_TIME && time(&end) != NO_TIME && time(&end) < time(&start) {
            let found = format!("\"end\" is {} in row {row}", time(&end));
            return Err(malformed(found, format!("a time not before \"start\" ({})", time(&start))));
        }
        if extra.is_valid(row) {
            let extra = read_extra(&mut history, extra.value(row))?;
            history.extras.push((history.len() as u32, extra));
        }
        history.push_txn(id, session, status, time(&start), time(&end), 0);
    }
    Ok(history)
}

fn read_op(history: &mut History, ops: &Operations, at: usize) -> Result<Op> {
    let Operations { key, value, detail, .. } = ops;
    let kind = match ops.kind.value(at) {
        0 => OpKind::Read,
        1 => OpKind::Write,
        2 => OpKind::Append,
        3..=5 => {
            return read_op_json(history, detail.value(at));
        }
        other => return Err(malformed(format!("\"kind\" is {other} in operation {at}"), "0 to 5")),
    };
    let name = key.get(history, at, "key")?;
    let value = if value.is_valid(at) {
        history.atoms.integer(value.value(at))
    } else if detail.is_valid(at) {
        read_value(history, detail.value(at))?
    } else {
        Value::NULL
    };
    if value.is_list() && kind != OpKind::Read {
        return Err(malformed(format!("operation {at} writes a list"), "a single value"));
    }
    let key = history.keys.number(name);
    let space = match kind {
        OpKind::Append => Some(Space::Lists),
        OpKind::Read if value.is_list() => Some(Space::Lists),
        OpKind::Read if value == Value::NULL => None,
        _ => Some(Space::Registers),
    };
    if let Some(space) = space {
        history.note_space(space, 0, || format!("ops of row {at}"));
    }
    Ok(match kind {
        OpKind::Read => Op::Read(key, value),
        OpKind::Append => Op::Append(key, value),
        _ => Op::Write(key, value),
    })
}
