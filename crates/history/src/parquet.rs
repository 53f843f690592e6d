//! Histories as Parquet: one row a transaction, its operations as a list of structs.
//!
//! Integers have columns of their own, so that the usual history is made of integer columns only; every
//! other value is JSON text in the `detail` column. The header and the version chains, which belong to no
//! transaction, are JSON Lines in the file's metadata. Reading is `parquet_read.rs`.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::{Error, Result};
use crate::history::{History, NO_TIME, Op};
use crate::jsonl_write::{write_header, write_op, write_versions};
use crate::parquet_columns::Builder;
use crate::value::Value;

const ROWS_PER_GROUP: usize = 1 << 17;
pub(crate) const METADATA_KEY: &str = "isolde";

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
    write_header(history, &mut lines, |_| true);
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

pub(crate) fn io_error(error: parquet::errors::ParquetError) -> Error {
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
